"""`regard classify`."""

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.options import Json, plain
from regard.cli.piping import chunks, given, note, note_unknown

if TYPE_CHECKING:
    from regard.modalities.images.classifier import ImageClassification
    from regard.modalities.text.text_model import TextClassification
    from regard.model import Model


def run(
    model: Annotated[str, typer.Argument(help="Path to a run or model folder, or the name of a shipped model.")],
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            help="Texts, or image files for an image model; lines of standard input if omitted or - (texts only)."
        ),
    ] = None,
    beside: Annotated[str | None, typer.Option(help="Second text, for a model that classifies pairs of texts.")] = None,
    top: Annotated[int, typer.Option(help="Number of most likely labels to print.")] = 1,
    as_json: Json = False,
) -> None:
    """Classify texts or images: texts as arguments or lines of standard input, images as files.

    In standard input, a tab separates the two texts of a pair.

    Example: regard classify ./runs/reviews "a moving, funny film" --top 2
    """
    from regard.errors import InputError

    if top < 1:
        raise InputError("--top must be at least 1", got=f"--top {top}")
    from regard.building import prepare
    from regard.run.named import named_model

    loaded = prepare(named_model(model))
    if loaded.takes[0] == "image":
        see(loaded, inputs or [], beside, top, as_json)
    else:
        read(loaded, given(inputs), beside, top, as_json)


def see(loaded: "Model", files: list[str], beside: str | None, top: int, as_json: bool) -> None:
    """A line for each image, told as soon as it is known."""
    from regard.cli.single_thread import use_one_thread
    from regard.errors import InputError
    from regard.modalities.images.classifier import IMAGES_AT_ONCE, ImageClassification

    if not files or "-" in files:
        got = "standard input" if "-" in files else "no files"
        raise InputError("this model classifies images, which are given as file names", got=got)
    if beside is not None:
        raise InputError("--beside requires a text model, and this model classifies images", got="--beside")
    use_one_thread()
    for start in range(0, len(files), IMAGES_AT_ONCE):
        some = files[start : start + IMAGES_AT_ONCE]
        found: Iterable[TextClassification | ImageClassification]
        wrong: InputError | None = None
        try:
            found = loaded.classify(some)
        except InputError as error:  # of one of them: those before it are told all the same
            found, wrong = until_wrong(loaded, some), error
        for one in found:
            assert isinstance(one, ImageClassification)
            if as_json:
                print(json.dumps({"image": one.image} | best(one, top), ensure_ascii=False))
            else:
                print("  ".join([*([plain(one.image)] if len(files) > 1 else []), line(one, top)]))
        sys.stdout.flush()
        if wrong is not None:
            raise wrong


def until_wrong(loaded: "Model", files: list[str]) -> "Iterator[TextClassification | ImageClassification]":
    """One by one, up to the first that cannot be seen."""
    from regard.errors import InputError

    with suppress(InputError):
        for file in files:
            yield loaded.classify(file)


def read(loaded: "Model", texts: list[str] | None, beside: str | None, top: int, as_json: bool) -> None:
    from regard.cli.single_thread import use_one_thread
    from regard.modalities.text.text_model import TextClassification

    if texts:
        use_one_thread()
    number = 0
    cut: dict[int, int] = {}
    unknown: dict[str, None] = {}
    for some in [texts] if texts else chunks():
        several = [(text, beside) if beside is not None else text if texts else parted(text) for text in some]
        for one in loaded.classify(several):
            assert isinstance(one, TextClassification)
            number += 1
            cut |= {number: one.unread} if one.unread else {}
            unknown |= dict.fromkeys(one.unknown)
            print(json.dumps(data(one, top), ensure_ascii=False) if as_json else line(one, top))
        sys.stdout.flush()
    note_cut(cut)
    note_unknown(list(unknown))


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


def line(one: "TextClassification | ImageClassification", top: int) -> str:
    return "  ".join(f"{plain(name)} {chance:.1%}" for name, chance in one.ranked[:top])


def best(one: "TextClassification | ImageClassification", top: int) -> dict[str, Any]:
    ranked = [{"label": name, "probability": chance} for name, chance in one.ranked[:top]]
    return {"label": one.label, "probability": one.probability, "ranked": ranked}


def data(one: "TextClassification", top: int) -> dict[str, Any]:
    return {"texts": list(one.texts)} | best(one, top) | {"unread": one.unread, "unknown": list(one.unknown)}
