"""What can be asked of a model that makes images."""

from regard.modalities.verb import Verb

DRAW = Verb(
    "draw",
    "Draw images of a text, or of noise by a seed; write them to a PNG file.",
    {"noise": "regard.modalities.drawing.runners:draw", "text": "regard.modalities.drawing.prompt_runners:draw"},
    answers=dict.fromkeys(("noise", "text"), "regard.modalities.drawing.drawer:DrawnImage"),
    views=dict.fromkeys(("noise", "text"), "regard.modalities.drawing.views:DRAWINGS"),
    command="regard.cli.draw:run",
    cannot="cannot draw images",
    use="diffusion, transgan or convgan",
    examples={
        "noise": "regard.modalities.drawing.runners:example",
        "text": "regard.modalities.drawing.prompt_runners:example",
    },
)
