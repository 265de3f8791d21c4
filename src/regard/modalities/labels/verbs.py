"""What can be asked of a model with classes, be its inputs texts or images."""

from regard.modalities.verb import Verb

CLASSIFY = Verb(
    "classify",
    "Classify texts or images: texts as arguments or lines of standard input, images as files.",
    {"image": "regard.modalities.images.runners:classify", "text": "regard.modalities.text.runners:classify"},
    answers={
        "image": "regard.modalities.images.classifier:ImageClassification",
        "text": "regard.modalities.text.text_model:TextClassification",
    },
    views={"image": "regard.modalities.labels.views:IMAGE", "text": "regard.modalities.labels.views:TEXT"},
    command="regard.cli.classify:run",
    cannot="cannot classify",
    use="a classification model: one with classes, or with head = 'label'",
    examples={"text": "regard.modalities.text.runners:labelled_example_of"},
)
