"""How work ends on the command line: a run that was watched, a model that was written."""

import json
import os
import sys
from collections.abc import Callable, Mapping
from shlex import quote
from typing import TYPE_CHECKING

import typer

from regard.errors import first_of

if TYPE_CHECKING:
    from regard.run.training import RunOutcome
    from regard.train.progress import Reporter

SHOWN = 20  # names of tensors; all of them may be a whole model's


def report_run(work: "Callable[[Reporter], RunOutcome]", reports: "Reporter") -> None:
    """Say where everything is; when the run was interrupted, how to go on."""
    try:
        ended = work(reports)
    except KeyboardInterrupt as stop:
        reports.close()
        reports.note(
            next(iter(getattr(stop, "__notes__", ())), "interrupted before the run started: nothing was written")
        )
        raise
    finally:
        reports.close()
    if ended.finished:
        facts = {"step": ended.step, "why": ended.finished, "folder": str(ended.folder)}
        model = ended.folder / "model"
        reports.tell("finished", facts | {"model": str(model)}, f"{ended.finished}; the model is in {model}")
    else:
        processes = int(os.environ.get("WORLD_SIZE", "1"))
        how = "regard" if processes == 1 else f"torchrun --nproc-per-node {processes} -m regard"
        command = f"{how} resume {quote(str(ended.folder))}"
        facts = {"step": ended.step, "folder": str(ended.folder), "command": command}
        reports.tell(
            "stopped", facts, f"stopped after step {ended.step}; the checkpoint is saved. Resume with: {command}"
        )
    if ended.broken:
        reports.tell("broken", {"why": ended.broken}, ended.broken)
        raise typer.Exit(1)
    if not ended.finished:
        raise typer.Exit(130)


def report_folder(
    facts: Mapping[str, str], odd: list[str], as_json: bool, more: Mapping[str, object] | None = None
) -> None:
    """Say where the folder is, and warn of the tensors in which a number is not finite."""
    if as_json:
        print(
            json.dumps({**facts, "not_finite": {"tensors": len(odd), "names": odd[:SHOWN]}, **(more or {})}, indent=2)
        )
        return
    print(f"wrote {facts['out']}")
    if odd:
        names = ", ".join(first_of(odd, SHOWN))
        warning = "regard: warning: some weights are not finite; they were written unchanged"
        print(f"{warning}\n  got: NaN or infinity in {len(odd)} of the tensors: {names}", file=sys.stderr)
