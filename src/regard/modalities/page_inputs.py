"""The table of what a page and the HTTP API may give, by the word for what a model takes (``look.example.takes``)."""

from regard.errors import InputError
from regard.look.examples import input_kind
from regard.tables import Table

from .page_input import FileKind, InputContext, LookInput, PageGiven, PageInput, kind_of

PAGE_INPUTS = Table[PageInput](
    "input",
    {
        "text": "regard.modalities.text.page:TEXT",
        "pair": "regard.modalities.text.page:PAIR",
        "image": "regard.modalities.images.page:IMAGE",
        "image+text": "regard.modalities.captions.page:CAPTION",
        "series": "regard.modalities.series.page:SERIES",
        "noise": "regard.modalities.drawing.page:NOISE",
        "text+noise": "regard.modalities.drawing.page:PROMPT",
    },
)


def every_input() -> tuple[type[PageGiven], ...]:
    """Each kind once, in the order of the table."""
    return tuple(dict.fromkeys(one for row in PAGE_INPUTS.values() for one in row.accepts))


def every_file() -> tuple[FileKind, ...]:
    return tuple(dict.fromkeys(one for row in PAGE_INPUTS.values() for one in row.files))


def look_inputs(asked: PageGiven, border: InputContext) -> LookInput:
    """What ``model.look`` takes, if this model takes such an input."""
    row = PAGE_INPUTS[input_kind(border.model.takes)]
    if not isinstance(asked, row.accepts):
        raise InputError(
            "this model does not take this kind of input",
            got=asked.kind,
            expected=" or ".join(map(kind_of, row.accepts)),
        )
    return asked.given(border)
