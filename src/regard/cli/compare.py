"""`regard compare`."""

import json
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Json

EVERY = 10.0  # seconds between two lines of progress, where they cannot be drawn over each other


def run(
    model: Annotated[str, typer.Argument(help="Name of a model, as listed by `regard models`.")],
    attention: Annotated[str, typer.Option(help="Attention mechanisms, separated by commas, or all.")] = "all",
    data: Annotated[Path | None, typer.Option(help="Text file to train on; a small generated task if omitted.")] = None,
    lengths: Annotated[
        str, typer.Option(help="Sequence lengths in tokens (patches for a ViT), separated by commas.")
    ] = "256,512,1024",
    steps: Annotated[
        int, typer.Option(help="Training steps for each, at the shortest length; 0 skips training.")
    ] = 100,
    minutes: Annotated[
        float, typer.Option(help="Approximate time limit, not counting a short first measurement of each.")
    ] = 5.0,
    rounds: Annotated[int, typer.Option(help="Maximum number of repetitions of each measurement.")] = 7,
    threads: Annotated[int, typer.Option(help="Number of CPU threads.")] = 1,
    seed: Annotated[int, typer.Option(help="Random seed for the weights and the sampled data.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Write a plot (.png, .svg), a page (.html) or the numbers (.json).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare attention mechanisms in one model: cost, training loss, and error against exact attention.

    Example: regard compare gpt-tiny --attention softmax,local,top-k --lengths 256,512,1024 --out compare.png
    """
    from regard.cli.memory import tune

    tune()  # before torch is loaded
    from regard.comparison.comparing import compare
    from regard.comparison.report import check_save_path
    from regard.errors import InputError

    if out is not None:
        check_save_path(out)
    names = [name.strip() for name in attention.split(",")]
    if not all(names):
        raise InputError("--attention contains an empty name", got=repr(attention), expected="softmax,local or all")
    ticker = Ticker()
    try:
        found = compare(
            model,
            None if "all" in names else names,
            lengths=numbers(lengths),
            data=data,
            steps=steps,
            minutes=minutes,
            rounds=rounds,
            threads=threads,
            seed=seed,
            progress=ticker,
        )
    finally:
        ticker.close()
    if out is not None:
        found.save(out)
    print(json.dumps(found.as_dict(), indent=2, allow_nan=False) if as_json else found)
    if out is not None and not as_json:
        print(f"- wrote {out}")
    if found.stopped:
        raise typer.Exit(130)


def numbers(text: str) -> list[int]:
    from regard.errors import InputError

    words = [word.strip().replace("_", "") for word in text.split(",") if word.strip()]
    if not words or not all(word.isdecimal() for word in words):
        raise InputError("--lengths must be integers separated by commas", got=text, expected="256,512,1024")
    return [int(word) for word in words]


class Ticker:
    """What is being done, on the standard error: one line that is drawn over in a terminal, else one now and then."""

    def __init__(self) -> None:
        self.drawn, self.shown = sys.stderr.isatty(), 0.0
        self.first = True

    def __call__(self, doing: str, left: float | None) -> None:
        from regard.train.formatting import format_duration

        now = time.monotonic()
        if now - self.shown < (0.1 if self.drawn else EVERY) and not (self.first and left is not None):
            return
        self.shown, self.first = now, self.first and left is None
        text = doing if left is None else f"about {format_duration(left)} left: {doing}"
        print(
            f"\r\x1b[2K{text[:100]}" if self.drawn else text,
            end="" if self.drawn else "\n",
            file=sys.stderr,
            flush=True,
        )

    def close(self) -> None:
        if self.drawn:
            print("\r\x1b[2K", end="", file=sys.stderr, flush=True)
