"""What can be asked of a model that writes about images."""

from regard.modalities.verb import Verb

DESCRIBE = Verb(
    "describe",
    "Say in a sentence what is on each image.",
    {"image": "regard.modalities.captions.runners:describe"},
    answer="regard.modalities.captions.runners:ImageDescription",
    command="regard.cli.describe:run",
    cannot="cannot describe images",
    use="a captioner",
    example="regard.modalities.captions.runners:example",
)
