"""`regard translate`."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.inputs import Source, rows_given
from regard.cli.options import (
    DRAWING,
    SEARCHING,
    Column,
    Diversity,
    Groups,
    Json,
    NoRepeat,
    Out,
    Seed,
    Shortest,
    TopK,
    TopP,
    Typical,
    as_typed,
    given_options,
    refuse_unused,
)
from regard.cli.piping import Follow, chunks, following, given, note, warn_of_long
from regard.cli.predictions import answer_rows, check_out
from regard.cli.printing import as_line, draw_answers, print_answers
from regard.cli.single_thread import use_one_thread

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from regard.data.input_rows import InputRow
    from regard.decode.settings import Decoding
    from regard.modalities.text.runners import Translation
    from regard.model import Model

SHIPPED = "tatoeba-en-de"
CROSS = "decoder.*cross"
PICTURES = (".png", ".svg", ".html")
TERMINAL = "-"
IMPOSSIBLE = "no translation satisfies the constraints, or the model's scores are not finite"


def run(
    context: typer.Context,
    texts: Annotated[
        list[str] | None,
        typer.Argument(help="Texts, or a table (.csv, .tsv, .jsonl, .txt); lines of standard input if omitted or -."),
    ] = None,
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
    column: Column = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Translate texts, or the lines of standard input.

    Example: regard translate "Where are my keys?" --look
    """
    from regard.errors import InputError

    check_out(out, *(texts or ()))
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
    odd += ["--out"] if out is not None else []
    if stream and odd:
        raise InputError("--stream cannot be combined with these options", got=" ".join(["--stream", *odd]))
    from regard.building import prepare
    from regard.decode.beam import Beam
    from regard.decode.sampling import Sampling
    from regard.decode.settings import Decoding
    from regard.folders import load
    from regard.modalities.verbs import require_verb

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
    loaded = load(model)
    require_verb(loaded, "translate")  # before options are compared with what only a translator has
    rows = rows_given(loaded, "translate", model, texts, column, out)
    if rows is not None:
        if look is not None or stream:
            raise InputError(f"{'--look' if look else '--stream'} requires a text", got="a table, or --out")
        translate_rows(prepare(loaded), rows, decoding, out, as_json)
        return
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
        from regard.look.terminal import terminal_text

        for one in told:
            if not one.nbest:
                raise InputError(IMPOSSIBLE, where=repr(terminal_text(one.source)[:60]))
            show(loaded, one, look, as_json)
            if look is not None and not one.maps:
                note("the text is empty, so there is no attention map")
    else:
        piped(prepare(loaded), decoding, as_json)


def piped(model: "Model", decoding: "Decoding", as_json: bool) -> None:
    """A line for a line."""
    from regard.modalities.verbs import answer_view

    view, number, follow = answer_view(model, "translate"), 0, following()
    for some in chunks(follow):
        found = model.translate(some, decoding=decoding, first=number, progress=follow.within)
        assert isinstance(found, list)
        for one in found:
            number += 1
            if not one.nbest:
                note(f"line {number}: {IMPOSSIBLE}")
            told = lines(one, number, decoding.nbest)
            print(as_line(view.data(one)) if as_json else "\n".join(told))
        sys.stdout.flush()


def translate_rows(model: "Model", rows: Source, decoding: "Decoding", out: Path | None, as_json: bool) -> None:
    """Those of a table, or of all that is given; chance is known by the line of a row."""
    from regard.errors import InputError
    from regard.modalities.verbs import answer_view

    def ask(some: "Sequence[InputRow]") -> "list[Translation | InputError]":
        first, last = some[0].line, some[-1].line
        if decoding.sampling is not None and last - first >= len(some):  # a row between them is left out
            return [answer for row in some for answer in ask([row])]
        found = model.translate([row.inputs[0] for row in some], decoding=decoding, first=first - 1)
        assert isinstance(found, list)
        return [one if one.nbest else InputError(IMPOSSIBLE) for one in found]

    def told(row: "InputRow", one: "Translation") -> list[str]:
        return lines(one, row.line, decoding.nbest)

    answer_rows(answer_view(model, "translate"), rows, ask, out, as_json, told)


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
    from regard.modalities.text.translation_views import unlike_axes
    from regard.zoo import FAMILIES

    names = [attention_name(tap) for tap in matching_taps(model.net, pattern)]
    if len({axes_of(name, FAMILIES[model.family].axes) for name in names}) > 1:
        raise unlike_axes(names)


def lines(one: "Translation", number: int, nbest: int) -> list[str]:
    """A line for a line; where several translations are asked for, each with the number of its line and its score."""
    from regard.modalities.text.translation_views import one_line

    if nbest == 1:
        return [one_line(one.text)]
    return [f"{number}\t{x.score:.4f}\t{one_line(x.text)}" for x in one.nbest]


def show(model: "Model", one: "Translation", look: str | None, as_json: bool) -> None:
    from regard.modalities.text.translation_views import map_lines
    from regard.modalities.verbs import answer_view

    view = answer_view(model, "translate")
    print_answers(view, [one], as_json)
    if look is None or not one.maps:
        return
    if look != TERMINAL:
        draw_answers(view, [one], Path(look))
    elif not as_json:
        print("\n".join(["", *(f"  {line}".rstrip(" ") for line in map_lines(one))]))


def looked(text: str) -> "Translation":
    """By the shipped model, and where it looked."""
    from regard.folders import load
    from regard.modalities.text.runners import Translation

    use_one_thread()
    found = load(SHIPPED).translate(text, look=CROSS)
    assert isinstance(found, Translation)
    return found
