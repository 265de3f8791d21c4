"""`regard export`."""

import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import Json
from regard.cli.outcome import report_folder
from regard.errors import InputError

if TYPE_CHECKING:
    from regard.export_check import ExportCheck


def run(
    model: Annotated[str, typer.Argument(help="Path to a run or model folder, or the name of a shipped model.")],
    out: Annotated[Path, typer.Argument(help="Folder to write.")],
    to: Annotated[
        str | None,
        typer.Option("--to", help="Output format: hf (Hugging Face) or timm; the first that fits unless given."),
    ] = None,
    check: Annotated[
        bool, typer.Option(help="Open the exported folder with that library, if it is installed, and compare.")
    ] = True,
    as_json: Json = False,
) -> None:
    """Export a model to another library's format.

    Where that library is installed, the folder is opened with it, and must give the same token ids, numbers and text;
    a folder that does not is removed.
    Values that are not finite (NaN, infinity) are exported unchanged, with a warning that names their tensors.

    Example: regard export runs/mine exported
    """
    from regard.export_check import check_export, library_of
    from regard.folders import export, load

    loaded = load(model)
    odd = export(loaded, out, to)
    library = library_of(out)
    found = checked_or_removed(lambda: check_export(loaded, out), out) if check and not odd else None
    facts = {"model": model, "out": str(out), "to": "timm" if library == "timm" else "hf"}
    report_folder(facts, odd, as_json, {"check": None if found is None else asdict(found)})
    if found is not None and not as_json:
        same = f"opened with {library} {found.version}: the same {', '.join(found.compared)}"
        print(same if found.compared else f"not opened with {library}: {found.skipped}")
        for difference in found.differs:
            print(f"read in another way there, as that library reads it: {difference}")


def checked_or_removed(check: "Callable[[], ExportCheck]", out: Path) -> "ExportCheck":
    """A folder that does not give the same would look like any other, and be used."""
    try:
        return check()
    except InputError as error:
        shutil.rmtree(out)
        fix = f"the folder was removed; {error.fix}; `--no-check` writes it all the same"
        raise InputError(error.what, where=error.where, got=error.got, expected=error.expected, fix=fix) from None
