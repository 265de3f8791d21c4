"""`regard evaluate`."""

import json
import sys
from math import isfinite
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.options import Json, given_options

SCORES = ("translated", "lengths", "described")  # keys that every answer has, null where they mean nothing


def run(
    context: typer.Context,
    model: Annotated[str, typer.Argument(help="Path to a run folder; with --data, any translation model.")],
    split: Annotated[str, typer.Option(help="Split of the run's data: train, held_out or test.")] = "held_out",
    data: Annotated[
        list[str] | None,
        typer.Option(
            help="Evaluate translation on this .tsv, .csv or .jsonl file; give it twice for two parallel text files."
        ),
    ] = None,
    columns: Annotated[str, typer.Option(help="Source and target columns of --data, by number or name.")] = "1,2",
    beam: Annotated[
        int, typer.Option(help="Number of beams for translation and captioning; 1 is greedy decoding.")
    ] = 4,
    penalty: Annotated[float, typer.Option(help="Length penalty for translation and captioning.")] = 1.0,
    as_json: Json = False,
) -> None:
    """Evaluate a run's model on one split of its data, with the metrics of its task (BLEU, AP, MASE ...).

    Example: regard evaluate runs/en-de --split test

    Example: regard evaluate tatoeba-en-de --data pairs.tsv
    """
    from regard.cli.memory import tune

    tune()  # before torch is loaded
    from regard.decode.beam import Beam
    from regard.decode.settings import Decoding
    from regard.errors import InputError
    from regard.folders import load
    from regard.run.evaluation import evaluate_files, evaluate_run
    from regard.train.progress import SilentReporter
    from regard.zoo import shipped_names

    class Notes(SilentReporter):
        def note(self, text: str) -> None:
            print(f"regard: {text}", file=sys.stderr)

    try:
        decoding = Decoding(beam=Beam(beams=beam, penalty=penalty))
    except ValueError as error:
        raise InputError("invalid decoding options", got=str(error)) from None
    if unused := given_options(context, "split") if data else given_options(context, "columns"):
        what = "--split cannot be combined with --data" if data else "--columns requires --data"
        raise InputError(what, got=" ".join(unused), fix="remove it")
    if data:
        found = evaluate_files(load(model), data, parsed(columns), decoding)
    elif model in shipped_names():
        raise InputError("a shipped model has no data to evaluate on", got=model, fix="give some with --data pairs.tsv")
    else:
        found = evaluate_run(Path(model), split, Notes(), decoding)
    if as_json:
        # NaN is no JSON: a class without a box has no precision
        metrics = {name: value if isfinite(value) else None for name, value in found.metrics.items()}
        told: dict[str, Any] = {
            "run": model,
            "split": "data" if data else split,
            "weights": found.weights,
            "metrics": metrics,
        }
        told |= dict.fromkeys(SCORES) | found.scores
        print(json.dumps(told, indent=2, allow_nan=False))
        return
    print(f"weights\t{found.weights}")
    for name, value in found.metrics.items():
        print(f"{name}\t{value:.6g}")
    for line in found.lines:
        print(line)


def parsed(columns: str) -> list[int | str]:
    return [int(word) if word.isdecimal() else word for word in map(str.strip, columns.split(","))]
