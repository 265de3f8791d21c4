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
    name: Annotated[str, typer.Argument(help="A run file, or the name of a shipped recipe.")],
    changes: Annotated[list[str] | None, typer.Argument(help="Settings to override, such as train.steps=2000.")] = None,
    as_json: Json = False,
) -> None:
    """Check a run before training: read the data, try a few steps, report bad rows, shapes, memory and time.

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

    taken = "; the folder already contains a run: choose another with folder=..." if report.taken else ""
    told = [f"task        {report.task}, in {report.folder}{taken}"]
    for name, split in report.splits.items():
        waste = f", {split.padding - 1:.0%} padding" if split.padding > 1 else ""
        told.append(f"{name:<11} {split.rows:,} rows in {split.batches:,} batches{waste}")
    if report.labels:
        more = ", ..." if len(report.labels) > SHOWN else ""
        told.append(f"labels      {len(report.labels)}: {', '.join(map(plain, report.labels[:SHOWN]))}{more}")
    told.append(f"bad rows    {report.bad_rows:,} skipped" if report.bad_rows else "bad rows    none")
    told += [f"            {fault}" for fault in report.bad]
    if report.cut >= 0.001:
        told.append(f"truncated   about {report.cut:.1%} of the tokens: rows are limited to {report.longest} tokens")
    told.append(f"model       {report.model}, {format_count(report.parameters)} parameters")
    told.append("batch       " + ", ".join(f"{name} {' x '.join(map(str, x))}" for name, x in report.shapes.items()))
    told.append(f"memory      {format_bytes(report.memory)}, including the largest batch")
    told.append(
        f"time        {report.seconds_per_step:.3f} s per step, {format_duration(report.seconds_per_epoch)} per epoch, "
        f"{format_duration(report.seconds_in_all)} in total"
    )
    told += [f"note        {warning}" for warning in report.warnings]
    return told
