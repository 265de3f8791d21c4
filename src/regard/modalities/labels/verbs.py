"""What can be asked of a model with classes, be its inputs texts or images."""

from regard.modalities.verb import Verb

CLASSIFY = Verb(
    "classify",
    "Give texts or images a label: texts as they are or as lines of standard input, images by their files.",
    {"image": "regard.modalities.images.runners:classify", "text": "regard.modalities.text.runners:classify"},
    answer="regard.look.answers:Labels",
    command="regard.cli.classify:run",
    cannot="cannot classify",
    use="a model with classes, or with head = 'label'",
)
