"""`regard translate`."""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.options import (
    DRAWING,
    SEARCHING,
    Diversity,
    Groups,
    Json,
    NoRepeat,
    Seed,
    Shortest,
    TopK,
    TopP,
    Typical,
    as_typed,
    given_options,
    plain,
    refuse_unused,
)
from regard.cli.piping import Follow, chunks, following, given, note, warn_of_long
from regard.cli.single_thread import use_one_thread

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from regard.decode.settings import Decoding
    from regard.look.maps import Map
    from regard.modalities.text.runners import Translation
    from regard.model import Model

SHIPPED = "tatoeba-en-de"
CROSS = "decoder.*cross"
PICTURES = (".png", ".svg", ".html")
TERMINAL = "-"
PARTS = 4  # of a map in the terminal, at most
IMPOSSIBLE = "no translation satisfies the constraints, or the model's scores are not finite"


def run(
    context: typer.Context,
    texts: Annotated[list[str] | None, typer.Argument(help="Texts; lines of standard input if omitted or -.")] = None,
    model: Annotated[
        str, typer.Option("--model", "-m", help="Path to a run or model folder, or the name of a shipped model.")
    ] = SHIPPED,
    beam: Annotated[int, typer.Option(help="Number of beams; 1 is greedy decoding.")] = 4,
    nbest: Annotated[int, typer.Option(help="Number of translations per text.")] = 1,
    penalty: Annotated[float, typer.Option(help="Length penalty; 0 favours short translations.")] = 1.0,
    groups: Groups = 1,
    diversity: Diversity = 0.5,
    shortest: Shortest = 0,
    longest: Annotated[int | None, typer.Option(help="Maximum number of new tokens.")] = None,
    no_repeat: NoRepeat = 0,
    prefix: Annotated[str, typer.Option(help="Prefix that the translation must start with.")] = "",
    phrase: Annotated[
        list[str] | None, typer.Option(help="Phrase that the translation must contain; may be repeated.")
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(help="Sample with this temperature instead of beam search.")
    ] = None,
    top_k: TopK = 0,
    top_p: TopP = 1.0,
    typical: Typical = 1.0,
    seed: Seed = 0,
    stream: Annotated[
        bool, typer.Option("--stream", help="Print each word as it is generated, with greedy decoding or sampling.")
    ] = False,
    look: Annotated[
        str | None, typer.Option(help="Draw the attention map: in the terminal, or to a .png, .svg or .html file.")
    ] = None,
    layer: Annotated[
        str, typer.Option(help="Attention layers for --look (a pattern); averaged if there are several.")
    ] = CROSS,
    as_json: Json = False,
) -> None:
    """Translate texts, or the lines of standard input.

    Example: regard translate "Where are my keys?" --look
    """
    from regard.errors import InputError

    texts = given(texts)
    if look is not None and look != TERMINAL:
        check_picture(look, len(texts or ()))
    if look is not None and not texts:
        raise InputError("--look requires the text as an argument", got="standard input")
    if look is None and given_options(context, "layer"):
        raise InputError("--layer requires --look", got="--layer", fix="add --look")
    draws = bool(given_options(context, *DRAWING)) or temperature is not None
    refuse_unused(context, draws)
    odd = given_options(context, *SEARCHING, "nbest", "phrase", "look") + (["--json"] if as_json else [])
    if stream and odd:
        raise InputError("--stream cannot be combined with these options", got=" ".join(["--stream", *odd]))
    from regard.building import prepare
    from regard.decode.beam import Beam
    from regard.decode.sampling import Sampling
    from regard.decode.settings import Decoding
    from regard.run.named import named_model

    try:
        chance = Sampling(
            temperature=1.0 if temperature is None else temperature,
            top_k=top_k,
            top_p=top_p,
            typical=typical,
            seed=seed,
        )
        decoding = Decoding(
            beam=Beam(beams=1 if stream else beam, penalty=penalty, groups=groups, diversity=diversity),
            sampling=chance if draws else None,
            nbest=nbest,
            shortest=shortest,
            longest=longest,
            no_repeat=no_repeat,
            prefix=prefix.rstrip(),  # a space belongs to the word that comes after it
            phrases=tuple(one.strip() for one in phrase or ()),
        )
    except ValueError as error:
        raise InputError("invalid decoding options", got=as_typed(str(error), {"beams": "beam"})) from None
    loaded = named_model(model)
    if texts:
        use_one_thread()
    if stream:
        streamed(prepare(loaded), [texts] if texts else chunks(), decoding)
    elif texts:
        if look is not None and not (as_json and look == TERMINAL):
            check_layers(loaded, layer)
        warn_of_long(texts)
        follow = Follow(sys.stderr, 0)
        told = loaded.translate(texts, decoding=decoding, look=None if look is None else layer, progress=follow.within)
        follow.close()
        assert isinstance(told, list)
        for one in told:
            if not one.nbest:
                raise InputError(IMPOSSIBLE, where=repr(plain(one.source)[:60]))
            show(one, look, as_json)
            if look is not None and not one.maps:
                note("the text is empty, so there is no attention map")
    else:
        piped(prepare(loaded), decoding, as_json)


def piped(model: "Model", decoding: "Decoding", as_json: bool) -> None:
    """A line for a line."""
    number, follow = 0, following()
    for some in chunks(follow):
        found = model.translate(some, decoding=decoding, first=number, progress=follow.within)
        assert isinstance(found, list)
        for one in found:
            number += 1
            if not one.nbest:
                note(f"line {number}: {IMPOSSIBLE}")
            told = lines(one, number, decoding.nbest)
            print(json.dumps(data(one), ensure_ascii=False) if as_json else "\n".join(told))
        sys.stdout.flush()


def streamed(model: "Model", lots: "Iterable[list[str]]", decoding: "Decoding") -> None:
    """A line for a line, piece by piece."""
    for some in lots:
        for text in some:
            for piece in model.stream(text, decoding=decoding):
                sys.stdout.write(piece.replace("\n", " "))
                sys.stdout.flush()
            print(flush=True)


def check_picture(look: str, texts: int) -> None:
    """Before any work is done."""
    from regard.errors import InputError

    if not look.lower().endswith(PICTURES):
        raise InputError("unsupported image format", got=look, expected=".png, .svg or .html")
    if texts > 1:
        raise InputError("--look with a file accepts only one text", got=f"{texts} texts", fix="run it once per text")
    folder = Path(look).absolute().parent
    if not folder.is_dir() or not os.access(folder, os.W_OK) or Path(look).is_dir():
        raise InputError("the image cannot be written", where=look, expected="a file name in a writable folder")


def check_layers(model: "Model", pattern: str) -> None:
    """Before any work is done: there are such layers, and all look from the same words at the same."""
    from regard.look.maps import attention_name, axes_of, matching_taps
    from regard.zoo import FAMILIES

    names = [attention_name(tap) for tap in matching_taps(model.net, pattern)]
    if len({axes_of(name, FAMILIES[model.family].axes) for name in names}) > 1:
        raise no_mean(names)


def no_mean(names: "Sequence[str]") -> Exception:
    from regard.errors import InputError

    return InputError(
        "the attention maps of these layers have different axes and cannot be averaged",
        got=", ".join(names),
        fix="select layers of one kind with --layer, such as decoder.*.cross",
    )


def lines(one: "Translation", number: int, nbest: int) -> list[str]:
    """A line for a line; where several translations are asked for, each with the number of its line and its score."""
    if nbest == 1:
        return [one_line(one.text)]
    return [f"{number}\t{x.score:.4f}\t{one_line(x.text)}" for x in one.nbest]


def one_line(text: str) -> str:
    return " ".join(text.splitlines())


def data(one: "Translation") -> dict[str, Any]:
    several = [{"text": x.text, "score": x.score, "logp": x.logp} for x in one.nbest]
    maps = {
        name: {
            "rows": list(x.rows.labels or ()),
            "columns": list(x.columns.labels or ()),
            "weights": x.weights[0].tolist(),
        }
        for name, x in one.maps.items()
    }
    return {"source": one.source, "text": one.text, "nbest": several} | ({"maps": maps} if maps else {})


def show(one: "Translation", look: str | None, as_json: bool) -> None:
    if as_json:
        print(json.dumps(data(one), ensure_ascii=False))
    elif len(one.nbest) == 1:
        print(one.text)
    else:
        print("\n".join(f"{x.score:8.3f}  {x.text}" for x in one.nbest))
    if look is None or not one.maps:
        return
    if look == TERMINAL:
        if not as_json:
            print("\n".join(["", *(f"  {line}".rstrip(" ") for line in drawn(one))]))
        return
    weights, rows, columns, name = mean(one.maps)
    from regard.look.drawing import alignment_page, draw_alignment, shorten

    title = plain(one_line(one.text)) or "(empty)"
    source = plain(shorten(" ".join(one.source.split())))
    note = f"“{source}”\nEach row attends to the words above it: {name}, mean over all heads."
    if look.lower().endswith(".html"):
        Path(look).write_text(alignment_page(weights, rows, columns, title, note), "utf-8")
        return
    from regard.style import font_family

    with font_family():
        draw_alignment(weights, rows, columns, title, note).savefig(look)


def looked(text: str) -> "Translation":
    """By the shipped model, and where it looked."""
    from regard.folders import load
    from regard.modalities.text.runners import Translation

    use_one_thread()
    found = load(SHIPPED).translate(text, look=CROSS)
    assert isinstance(found, Translation)
    return found


def drawn(one: "Translation") -> list[str]:
    """The alignment, line by line, for a terminal: in parts if it is too wide, and if these are many, not at all."""
    from regard.look.terminal import column_ranges, heat_map_lines

    weights, rows, columns, _ = mean(one.maps)
    width = columns_of_terminal()
    several = len(column_ranges(rows, columns, width))
    if several > PARTS:
        return [f"The map of {len(columns)} words is too wide for the terminal; write it to a file: --look map.png"]
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    lines = heat_map_lines(weights.tolist(), rows, columns, colour=colour, width=width)
    return lines if several == 1 else [*lines, "", "As one image: --look map.png"]


def columns_of_terminal() -> int:
    """That are left beside the two with which a map's lines begin."""
    return max(shutil.get_terminal_size().columns - 2, 1)


def mean(maps: "dict[str, Map]") -> tuple[Any, tuple[str, ...], tuple[str, ...], str]:
    """Over heads and layers, and the words on both sides."""
    import torch

    from regard.look.subwords import merge_subwords

    several = [merge_subwords(one) for one in maps.values()]
    if len({(one.rows.labels, one.columns.labels) for one in several}) > 1:
        raise no_mean(list(maps))
    weights = torch.stack([one.weights[0].mean(0) for one in several]).mean(0)
    names = several[0].name if len(several) == 1 else f"{several[0].name} to {several[-1].name}"
    return weights, printable(several[0].rows.labels), printable(several[0].columns.labels), names


def printable(labels: tuple[str, ...] | None) -> tuple[str, ...]:
    return tuple(plain(label) or "·" for label in labels or ())
