"""`regard check`."""

import dataclasses
import json
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import Json
from regard.look.terminal import terminal_text

if TYPE_CHECKING:
    from regard.data.table_reading import TableReading
    from regard.run.check import CheckReport

SHOWN = 12  # labels
WIDE = 60  # characters of a field


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


def table_lines(table: "TableReading") -> list[str]:
    """How a file was understood, and its first rows."""
    columns = f", columns {', '.join(map(terminal_text, table.columns))}" if table.columns else ""
    told = [f"table       {table.split}: {terminal_text(table.file)}, {table.format}{columns}"]
    for i, row in enumerate(table.first, 1):
        fields = ", ".join(f"{name} = {shortened(text)}" for name, text in row.items())
        told.append(f"            row {i}: {fields}")
    return told


def shortened(text: str) -> str:
    """A field in quotes, on one line."""
    plain = terminal_text(" ".join(text.split()))
    return json.dumps(plain if len(plain) <= WIDE else f"{plain[: WIDE - 1]}…", ensure_ascii=False)


def lines(report: "CheckReport") -> list[str]:
    from regard.run.sizes import title
    from regard.train.formatting import format_bytes, format_count, format_duration

    taken = "; the folder already contains a run: choose another with folder=..." if report.taken else ""
    told = [f"task        {report.task}, in {report.folder}{taken}"]
    for name, split in report.splits.items():
        waste = f", {split.padding - 1:.0%} padding" if split.padding > 1 else ""
        batches = f"{split.batches:,} batch{'' if split.batches == 1 else 'es'}"
        told.append(f"{name:<11} {split.rows:,} row{'' if split.rows == 1 else 's'} in {batches}{waste}")
    told += [f"{name:<11} {words}" for name, words in report.facts.items()]
    for table in report.tables:
        told += table_lines(table)
    if report.labels:
        more = ", ..." if len(report.labels) > SHOWN else ""
        told.append(f"labels      {len(report.labels)}: {', '.join(map(terminal_text, report.labels[:SHOWN]))}{more}")
    told.append(f"bad rows    {report.bad_rows:,} skipped" if report.bad_rows else "bad rows    none")
    told += [f"            {fault}" for fault in report.bad]
    if report.cut >= 0.001:
        told.append(f"truncated   about {report.cut:.1%} of the tokens: rows are limited to {report.longest} tokens")
    told.append(f"model       {title(report.family, report.model, format_count(report.parameters), report.sizes)}")
    told.append("batch       " + ", ".join(f"{name} {' x '.join(map(str, x))}" for name, x in report.shapes.items()))
    told.append(f"memory      {format_bytes(report.memory)}, including the largest batch")
    told.append(
        f"time        {report.seconds_per_step:.3f} s per step, {format_duration(report.seconds_per_epoch)} per epoch, "
        f"{format_duration(report.seconds_in_all)} in total"
    )
    told.append(f"export      {export_line(report.exports)}")
    told += [f"note        {terminal_text(warning)}" for warning in report.warnings]
    return told


def export_line(targets: list[dict[str, str]]) -> str:
    """Where the trained model can go; if nowhere, why."""
    if able := [f"{one['library']} ({one['name']})" for one in targets if not one["refused"]]:
        return "to " + ", ".join(able)
    if not targets:
        return "no other library has this model: it can be used with regard only"
    return "; ".join(f"not to {one['library']}: {one['refused']}" for one in targets)
