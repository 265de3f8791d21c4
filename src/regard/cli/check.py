"""`regard check`."""

import dataclasses
import json
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import Json, plain

if TYPE_CHECKING:
    from regard.run.check import CheckReport

SHOWN = 12  # labels


def run(
    name: Annotated[str, typer.Argument(help="A run file, or the name of a recipe that ships.")],
    changes: Annotated[list[str] | None, typer.Argument(help="Settings to change: train.steps=2000")] = None,
    as_json: Json = False,
) -> None:
    """Read a run's data and try a few steps: bad rows, shapes, memory and time, before any work is done.

    Example: regard check run.toml
    """
    from regard.cli.memory import tune

    tune()  # before torch is loaded
    from regard.run.check import check_run
    from regard.run.training import find_run

    report = check_run(find_run(name), tuple(changes or ()))
    if as_json:
        print(json.dumps(dataclasses.asdict(report), indent=2))
    else:
        print("\n".join(lines(report)))


def lines(report: "CheckReport") -> list[str]:
    from regard.train.formatting import format_bytes, format_count, format_duration

    taken = "; there is a run in this folder already: choose another, folder=..." if report.taken else ""
    told = [f"task        {report.task}, in {report.folder}{taken}"]
    for name, split in report.splits.items():
        waste = f", {split.padding - 1:.0%} padding" if split.padding > 1 else ""
        told.append(f"{name:<11} {split.rows:,} rows in {split.batches:,} batches{waste}")
    if report.labels:
        more = ", ..." if len(report.labels) > SHOWN else ""
        told.append(f"labels      {len(report.labels)}: {', '.join(map(plain, report.labels[:SHOWN]))}{more}")
    told.append(f"bad rows    {report.bad_rows:,} left out" if report.bad_rows else "bad rows    none")
    told += [f"            {fault}" for fault in report.bad]
    if report.cut >= 0.001:
        told.append(f"cut off     about {report.cut:.1%} of the tokens, beyond {report.longest} in a row")
    told.append(f"model       {report.model}, {format_count(report.parameters)} parameters")
    told.append("batch       " + ", ".join(f"{name} {' x '.join(map(str, x))}" for name, x in report.shapes.items()))
    told.append(f"memory      {format_bytes(report.memory)}, the largest batch included")
    told.append(
        f"time        {report.seconds_per_step:.3f} s a step, {format_duration(report.seconds_per_epoch)} an epoch, "
        f"{format_duration(report.seconds_in_all)} in all"
    )
    told += [f"note        {warning}" for warning in report.warnings]
    return told
