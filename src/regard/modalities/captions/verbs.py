"""What can be asked of a model that writes about images."""

from regard.modalities.verb import Verb

DESCRIBE = Verb(
    "describe",
    "Write a caption for each image.",
    {"image": "regard.modalities.captions.runners:describe"},
    answers={"image": "regard.modalities.captions.runners:ImageDescription"},
    views={"image": "regard.modalities.captions.views:CAPTIONS"},
    command="regard.cli.describe:run",
    cannot="cannot describe images",
    use="an image captioning model such as captioner",
    examples={"image": "regard.modalities.captions.runners:example"},
)
