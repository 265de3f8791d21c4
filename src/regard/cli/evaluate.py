"""`regard evaluate`."""

import json
import sys
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Json, asked


def run(
    context: typer.Context,
    model: Annotated[str, typer.Argument(help="The folder of a run; with --data, any translator.")],
    split: Annotated[str, typer.Option(help="Of a run: train, held_out or test.")] = "held_out",
    data: Annotated[
        list[str] | None,
        typer.Option(help="Sources and translations: a tsv, csv or jsonl; given twice, two plain files."),
    ] = None,
    columns: Annotated[str, typer.Option(help="Of --data: source and target, by number or name.")] = "1,2",
    beam: Annotated[int, typer.Option(help="Of a translator or captioner: hypotheses at a time; 1 is greedy.")] = 4,
    penalty: Annotated[float, typer.Option(help="Of a translator or captioner: of length.")] = 1.0,
    as_json: Json = False,
) -> None:
    """Measure a run's model on one part of its data; of a translator or captioner, BLEU and chrF too.

    Example: regard evaluate runs/en-de --split test
    Example: regard evaluate tatoeba-en-de --data pairs.tsv
    """
    from regard.cli.memory import tune

    tune()  # before torch is loaded
    from regard.decode.beam import Beam
    from regard.decode.settings import Decoding
    from regard.errors import InputError
    from regard.run.named import named_model
    from regard.run.quality import measured, measured_on
    from regard.train.progress import Silent
    from regard.zoo import shipped

    class Notes(Silent):
        def note(self, text: str) -> None:
            print(f"regard: {text}", file=sys.stderr)

    try:
        decoding = Decoding(beam=Beam(beams=beam, penalty=penalty))
    except ValueError as error:
        raise InputError("this cannot be asked of a translation", got=str(error)) from None
    if unused := asked(context, "split") if data else asked(context, "columns"):
        what = "--data is all that is measured on" if data else "a run knows its own columns"
        raise InputError(what, got=" ".join(unused), fix="leave it out")
    if data:
        found = measured_on(named_model(model), data, parsed(columns), decoding)
    elif model in shipped():
        raise InputError("a shipped model has no data of its own", got=model, fix="name some: --data pairs.tsv")
    else:
        found = measured(Path(model), split, Notes(), decoding)
    if as_json:
        told = {"run": model, "split": "data" if data else split} | asdict(found)
        told["metrics"] = {name: value if isfinite(value) else None for name, value in found.metrics.items()}
        print(json.dumps(told, indent=2, allow_nan=False))  # NaN is no JSON: a class without a box has no precision
        return
    print(f"weights\t{found.weights}")
    for name, value in found.metrics.items():
        print(f"{name}\t{value:.6g}")
    if (written := found.translated or found.described) is not None:
        print(f"bleu\t{written.bleu:.2f}\t{written.signatures['bleu']}")
        print(f"chrf\t{written.chrf:.2f}\t{written.signatures['chrf']}")
        for words, part in (found.lengths or {}).items():
            print(f"bleu of {words} words\t{part.bleu:.2f}\t{part.sentences} sentences")


def parsed(columns: str) -> list[int | str]:
    return [int(word) if word.isdecimal() else word for word in map(str.strip, columns.split(","))]
