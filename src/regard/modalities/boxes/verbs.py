"""What can be asked of a model that finds objects."""

from regard.modalities.verb import Verb

DETECT = Verb(
    "detect",
    "Detect objects in images: labels, scores and bounding boxes in pixels; optionally draw them.",
    {"image": "regard.modalities.boxes.runners:detect"},
    answers={"image": "regard.modalities.boxes.detector:Detections"},
    views={"image": "regard.modalities.boxes.views:BOXES"},
    command="regard.cli.detect:run",
    cannot="cannot detect objects",
    use="a detr",
    examples={"image": "regard.modalities.boxes.runners:example"},
)
