"""`regard generate`."""

import json
import sys
from dataclasses import asdict, replace
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
from regard.cli.piping import chunks, given, note, note_unknown
from regard.cli.predictions import answer_rows, check_out
from regard.cli.printing import print_answers
from regard.cli.single_thread import use_one_thread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regard.data.input_rows import InputRow
    from regard.decode.settings import Decoding
    from regard.modalities.text.prompting import PromptedAnswer
    from regard.modalities.text.runners import Generation
    from regard.model import Model

ANSWER = 50  # tokens
WRITING = ("seed", "nbest", "phrase", "shortest", "no_repeat", "tokens")  # what is asked of a text that is written


def run(
    context: typer.Context,
    model: Annotated[str, typer.Argument(help="Path to a run or model folder, or the name of a shipped model.")],
    prompts: Annotated[
        list[str] | None,
        typer.Argument(
            help="Prompts, or a table (.csv, .tsv, .jsonl, .txt); if omitted, the lines of a pipe (or -), else an "
            "empty prompt."
        ),
    ] = None,
    tokens: Annotated[int, typer.Option(help="Maximum number of new tokens.")] = 200,
    temperature: Annotated[float, typer.Option(help="Sampling temperature; 0 is greedy decoding.")] = 0.8,
    top_k: TopK = 0,
    top_p: TopP = 0.95,
    typical: Typical = 1.0,
    seed: Seed = 0,
    beam: Annotated[int, typer.Option(help="Number of beams for beam search; 0 samples instead.")] = 0,
    nbest: Annotated[int, typer.Option(help="Number of texts per prompt.")] = 1,
    groups: Groups = 1,
    diversity: Diversity = 0.5,
    shortest: Shortest = 0,
    no_repeat: NoRepeat = 0,
    phrase: Annotated[
        list[str] | None,
        typer.Option(help="Phrase that the text must contain, with its leading space; requires --beam."),
    ] = None,
    examples: Annotated[
        Path | None,
        typer.Option(
            help="Few-shot examples from a .jsonl, .csv or .tsv file with columns input and output (or two columns)."
        ),
    ] = None,
    shots: Annotated[int | None, typer.Option(help="Number of few-shot examples to use; all if omitted.")] = None,
    instruction: Annotated[str, typer.Option(help="First line of the few-shot prompt.")] = "",
    choice: Annotated[list[str] | None, typer.Option(help="Candidate answer to score; may be repeated.")] = None,
    column: Column = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Generate text from a prompt, and print it token by token.

    Example: regard generate ./runs/tales "Once upon a time" --temperature 0.7
    """
    from regard.building import prepare
    from regard.decode.beam import Beam
    from regard.decode.sampling import Sampling
    from regard.decode.settings import Decoding
    from regard.errors import InputError
    from regard.folders import load
    from regard.modalities.text.runners import Generation, text_generator
    from regard.modalities.verbs import answer_view, require_verb

    check_out(out, *(prompts or ()))
    refuse_unused(context, draws=not beam and temperature != 0)
    if choice and (idle := given_options(context, *SEARCHING, *DRAWING, *WRITING)):
        raise InputError(
            "--choice scores given answers and cannot be combined with generation options",
            got=" ".join(["--choice", *idle]),
        )
    try:
        drawn = None
        if not beam and temperature:
            drawn = Sampling(temperature=temperature, top_k=top_k, top_p=top_p, typical=typical, seed=seed)
        decoding = Decoding(
            beam=Beam(beams=beam or 1, groups=groups, diversity=diversity),
            sampling=drawn,
            nbest=nbest,
            longest=tokens,
            shortest=shortest,
            no_repeat=no_repeat,
            phrases=tuple(phrase or ()),
        )
    except ValueError as error:
        got = as_typed(str(error), {"longest": "tokens", "beams": "beam"})
        raise InputError("invalid decoding options", got=got) from None
    use_one_thread()
    loaded = prepare(load(model))
    require_verb(loaded, "generate")  # or it is refused before anything is printed
    rows = rows_given(loaded, "generate", model, given(prompts), column, out)
    if rows is not None:
        if examples is not None or instruction or choice or shots is not None:
            fix = "pipe the queries in, one per line"
            raise InputError("few-shot prompts take single queries", got="a table, or --out", fix=fix)
        generate_rows(loaded, rows, decoding, out, as_json)
        return
    generating = text_generator(loaded)
    prompts = texts_of(prompts)
    told: set[str] = set()  # letters that are unknown
    if examples is not None or instruction or choice or shots is not None:
        decoding = replace(decoding, longest=min(tokens, ANSWER))
        shown = read(examples, shots)
        for query in prompts:
            answer = loaded.prompt(
                query, examples=shown, instruction=instruction, choices=choice or (), decoding=decoding
            )
            note_unknown([x for x in answer.unknown if x not in told])
            told |= set(answer.unknown)
            tell(answer, as_json)
        return
    for i, prompt in enumerate(prompts):
        if surplus := generating.surplus(prompt):
            note(f"prompt {i + 1} is longer than the model's context: its first {surplus:,} tokens are ignored")
        unknown = generating.unknown(prompt)
        note_unknown([x for x in unknown if x not in told])
        told |= set(unknown)
        if as_json or beam or nbest > 1:
            found = loaded.generate(prompt, decoding=decoding)
            assert isinstance(found, Generation)
            if not found.nbest:
                fix = "increase --tokens or --beam"
                raise InputError("no generated text satisfies all constraints", where=repr(prompt[:40]), fix=fix)
            print_answers(answer_view(loaded, "generate"), [found], as_json)
            continue
        print(("\n" if i else "") + prompt, end="", flush=True)
        for piece in loaded.stream(prompt, decoding=decoding):
            sys.stdout.write(piece)
            sys.stdout.flush()
        print()


def generate_rows(loaded: "Model", rows: Source, decoding: "Decoding", out: Path | None, as_json: bool) -> None:
    """Those of a table, or of all that is given; each as if it were given alone, so chance is the same for all."""
    from regard.errors import InputError
    from regard.modalities.verbs import answer_view

    unknown: dict[str, None] = {}

    def ask(some: "Sequence[InputRow]") -> "list[Generation | InputError]":
        if decoding.sampling is not None and len(some) > 1:
            return [answer for row in some for answer in ask([row])]
        found = loaded.generate([row.inputs[0] for row in some], decoding=decoding)
        assert isinstance(found, list)
        unknown.update(dict.fromkeys(x for one in found for x in one.unknown))
        return [one if one.nbest else InputError("no generated text satisfies all constraints") for one in found]

    def lines(row: "InputRow", one: "Generation") -> list[str]:
        return [one.prompt + x.text for x in one.nbest]

    answer_rows(answer_view(loaded, "generate"), rows, ask, out, as_json, lines)
    note_unknown(list(unknown))


def texts_of(prompts: list[str] | None) -> list[str]:
    """Those of the command line, or the lines of a pipe; in a terminal, one that is empty."""
    if given(prompts):
        return prompts or []
    if not prompts and (sys.stdin is None or sys.stdin.isatty()):
        return [""]
    return [line for some in chunks() for line in some]


def read(path: Path | None, shots: int | None) -> list[tuple[str, str]]:
    """The first examples of a file: its columns "input" and "output", or where a table names none, its first two."""
    from regard.data.files import table_rows
    from regard.data.table_format import file_format
    from regard.errors import InputError

    if path is None:
        if shots:
            raise InputError("--shots requires --examples", got=f"--shots {shots}", fix="add --examples FILE")
        return []
    if not path.is_file():
        raise InputError("file not found", where=str(path))
    try:
        rows = table_rows(path, ["input", "output"])
    except InputError:
        if file_format(path) in ("json", "jsonl"):
            raise
        if wider(path):
            expected, fix = "two columns", "name the columns input and output in the first line, in any order"
            raise InputError("the columns have no names", where=str(path), expected=expected, fix=fix) from None
        rows = table_rows(path, [1, 2])
    if rows.faults:
        raise InputError("an example cannot be read", got=str(rows.faults[0]))
    count = len(rows) if shots is None else shots
    if not 0 <= count <= len(rows):
        raise InputError(
            "--shots is larger than the number of examples",
            where=str(path),
            got=f"--shots {shots}",
            expected=f"0 to {len(rows)}",
        )
    return [(rows[i][0], rows[i][1]) for i in range(count)]


def wider(path: Path) -> bool:
    """Whether a table has more than two columns."""
    from regard.data.files import table_rows
    from regard.errors import InputError

    try:
        table_rows(path, [3])
    except InputError:
        return False
    return True


def tell(found: "PromptedAnswer", as_json: bool) -> None:
    if as_json:
        print(json.dumps(asdict(found), ensure_ascii=False))
    elif found.choices:
        print("\n".join(f"{one.score:8.3f}  {one.text}" for one in found.choices))
    else:
        print(found.answer)
