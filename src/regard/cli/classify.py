"""`regard classify`."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.inputs import Source, rows_given
from regard.cli.options import Column, Json, Out
from regard.cli.piping import chunks, given, note, note_unknown
from regard.cli.predictions import answer_rows, check_out
from regard.cli.printing import print_answers

if TYPE_CHECKING:
    from pathlib import Path

    from regard.data.input_rows import InputRow
    from regard.modalities.text.text_model import TextClassification
    from regard.model import Model

FILES_AT_ONCE = 32


def run(
    model: Annotated[str, typer.Argument(help="Path to a run or model folder, or the name of a shipped model.")],
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            help="Texts, or images and folders of images; or a table (.csv, .tsv, .jsonl, .txt); lines of "
            "standard input if omitted or - (texts only)."
        ),
    ] = None,
    beside: Annotated[str | None, typer.Option(help="Second text, for a model that classifies pairs of texts.")] = None,
    labels: Annotated[str, typer.Option(help="Labels, with commas between them, for a model such as clip.")] = "",
    top: Annotated[int, typer.Option(help="Number of most likely labels to print.")] = 1,
    column: Column = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Classify texts or images: texts as arguments or lines of standard input, images as files.

    In standard input, a tab separates the two texts of a pair. The rows of a table are classified one by one.

    Example: regard classify ./runs/reviews reviews.csv --out labels.csv
    """
    from regard.errors import InputError

    if top < 1:
        raise InputError("--top must be at least 1", got=f"--top {top}")
    check_out(out, *(inputs or ()))
    from regard.building import prepare
    from regard.folders import load
    from regard.modalities.labels.told import with_labels
    from regard.modalities.media import MEDIA
    from regard.modalities.verbs import require_verb

    loaded = with_labels(prepare(load(model)), labels.split(",") if labels else None)
    require_verb(loaded, "classify")
    files = MEDIA[loaded.takes[0]].argument == "file"
    if files:
        check_files(loaded, inputs or [], beside)
    rows = rows_given(loaded, "classify", model, inputs if files else given(inputs), column, out)
    if rows is not None:
        classify_rows(loaded, rows, beside, top, out, as_json)
    elif files:
        classify_files(loaded, inputs or [], top, as_json)
    else:
        classify_texts(loaded, given(inputs), beside, top, as_json)


def check_files(loaded: "Model", files: list[str], beside: str | None) -> None:
    from regard.errors import InputError
    from regard.modalities.media import MEDIA

    what = f"this model classifies {MEDIA[loaded.takes[0]].plural}"
    if not files or "-" in files:
        got = "standard input" if "-" in files else "no files"
        raise InputError(f"{what}, which are given as file names", got=got)
    if beside is not None:
        raise InputError(f"--beside requires a text model, and {what}", got="--beside")


def classify_rows(
    loaded: "Model", rows: "Source", beside: str | None, top: int, out: "Path | None", as_json: bool
) -> None:
    """Those of a table, or of all that is given."""
    from regard.look.terminal import terminal_text
    from regard.modalities.media import MEDIA
    from regard.modalities.verbs import answer_view

    view, notes = answer_view(loaded, "classify"), TextNotes()
    files = MEDIA[loaded.takes[0]].argument == "file"

    def ask(some: "Sequence[InputRow]") -> "Sequence[Any]":
        texts = [(*row.inputs, beside) if beside is not None else row.inputs for row in some]
        found: Any = loaded.classify([one[0] for one in texts] if files else [paired(one) for one in texts])
        if not files:
            notes.add(found)
        return [likeliest(one, top) for one in found]

    def lines(row: "InputRow", one: Any) -> list[str]:
        return [f"{terminal_text(row.inputs[0])}  {line}" if files else line for line in view.lines([one])]

    answer_rows(view, rows, ask, out, as_json, lines)
    notes.tell()


def paired(texts: tuple[str, ...]) -> str | tuple[str, str]:
    """One text, in which a tab may separate two, or two."""
    return parted(texts[0]) if len(texts) == 1 else (texts[0], texts[1])


def classify_files(loaded: "Model", files: list[str], top: int, as_json: bool) -> None:
    """A line for each, told as soon as it is known."""
    from regard.cli.single_thread import use_one_thread
    from regard.errors import InputError
    from regard.look.terminal import terminal_text
    from regard.modalities.verbs import answer_view

    use_one_thread()
    view = answer_view(loaded, "classify")
    for start in range(0, len(files), FILES_AT_ONCE):
        some = files[start : start + FILES_AT_ONCE]
        wrong: InputError | None = None
        try:
            found: list[Any] = list(loaded.classify(some))
        except InputError as error:  # of one of them: those before it are told all the same
            found, wrong = list(until_wrong(loaded, some)), error
        for file, one in zip(some, found, strict=False):
            if len(files) > 1 and not as_json:
                print(end=f"{terminal_text(file)}  ")
            print_answers(view, [likeliest(one, top)], as_json)
        if wrong is not None:
            raise wrong


def until_wrong(loaded: "Model", files: list[str]) -> Iterator[Any]:
    """One by one, up to the first that cannot be read."""
    from regard.errors import InputError

    with suppress(InputError):
        for file in files:
            yield loaded.classify(file)


def classify_texts(loaded: "Model", texts: list[str] | None, beside: str | None, top: int, as_json: bool) -> None:
    from regard.cli.single_thread import use_one_thread
    from regard.modalities.verbs import answer_view

    if texts:
        use_one_thread()
    notes = TextNotes()
    for some in [texts] if texts else chunks():
        several = [(text, beside) if beside is not None else text if texts else parted(text) for text in some]
        found: Any = loaded.classify(several)
        notes.add(found)
        for one in found:
            print_answers(answer_view(loaded, "classify"), [likeliest(one, top)], as_json)
        sys.stdout.flush()
    notes.tell()


class TextNotes:
    """What was not read of texts, by their numbers, and which letters are unknown."""

    def __init__(self) -> None:
        self.count = 0
        self.cut: dict[int, int] = {}
        self.unknown: dict[str, None] = {}

    def add(self, found: "Sequence[TextClassification]") -> None:
        for one in found:
            self.count += 1
            self.cut |= {self.count: one.unread} if one.unread else {}
            self.unknown |= dict.fromkeys(one.unknown)

    def tell(self) -> None:
        note_cut(self.cut)
        note_unknown(list(self.unknown))


def likeliest(one: Any, top: int) -> Any:
    """With so many labels, the likeliest."""
    return replace(one, ranked=one.ranked[:top])


def note_cut(cut: dict[int, int]) -> None:
    """The tokens that were not read, by the number of their text."""
    if len(cut) == 1:
        ((number, unread),) = cut.items()
        note(f"text {number} is longer than the model's maximum length: its last {unread:,} tokens are ignored")
    elif cut:
        many = f"{len(cut):,} texts are longer than the model's maximum length, starting with text {min(cut)}"
        note(f"{many}: {sum(cut.values()):,} tokens at their ends are ignored")


def parted(line: str) -> str | tuple[str, str]:
    first, tab, second = line.partition("\t")
    return (first, second) if tab else line
