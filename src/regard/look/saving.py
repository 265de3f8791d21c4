"""A trace into a file, whole or not at all: .html to look into, .png and .svg to look at, .npz to compute with."""

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np

from regard.errors import InputError

from .answers import answer_data
from .document import (
    About,
    change_data,
    embedded_document,
    example_of_trace,
    find_site,
    head_map,
    map_weights,
    model_title,
    sites,
)
from .examples import input_kind
from .sheet import all_heads, position_names
from .standalone import standalone_page
from .trace import Trace

OUTPUT_SUFFIXES = (".html", ".png", ".svg", ".npz")


def saved(found: Trace[Any], path: str | Path, site: str | None = None, head: int | None = None) -> Path:
    """Save all sites, or one: the mean of its heads or one head. The file extension selects the format."""
    path = Path(path)
    kind = picture_format(path)
    if head is not None and site is None:
        raise InputError("a head needs a site", got=f"head {head}", expected=", ".join(list(found.sites)[:6]))
    if site is not None:
        find_site(found, site)
    if kind == ".html" and site is not None:
        raise InputError("an .html page always contains all sites", got=f"site {site}", expected="no site")
    ways = {".npz": numbers(found, site, head), ".html": page(found)}
    write = ways.get(kind) or drawn(found, kind, site, head)
    try:
        handle, part = tempfile.mkstemp(prefix=".", suffix=kind, dir=path.parent)
    except OSError as error:
        raise InputError("the file cannot be written", where=str(path), got=error.strerror or "") from None
    try:
        with open(handle, "wb") as file:
            write(file)
        os.chmod(part, 0o644)
        os.replace(part, path)
    except BaseException:
        os.unlink(part)
        raise
    return path


def picture_format(path: Path) -> str:
    """The ending of a file that can be written there."""
    kind = path.suffix.lower()
    if kind not in OUTPUT_SUFFIXES:
        raise InputError("unsupported file type", got=path.name, expected=", ".join(OUTPUT_SUFFIXES))
    if path.is_dir():
        raise InputError("the path is a folder, not a file", where=str(path))
    if not path.parent.is_dir():
        raise InputError("folder not found", where=str(path), got=str(path.parent), fix="create the folder first")
    return kind


def page(found: Trace[Any]) -> Callable[[IO[bytes]], None]:
    """The page of ``regard serve`` with this look in it: it opens from disk, and asks nobody for anything."""

    def write(file: IO[bytes]) -> None:
        file.write(
            standalone_page(embedded_document(found, about(found)), f"{headline(found)} · regard").encode(
                "utf-8", "replace"
            )
        )

    return write


def about(found: Trace[Any]) -> About:
    """As far as a trace knows its model."""
    family = type(found.net).__name__
    size, source = sum(x.numel() for x in found.net.parameters()), "shipped" if found.model else ""
    return About(found.model or family, family, None, size, input_kind(example_of_trace(found).media), source=source)


def numbers(found: Trace[Any], site: str | None, head: int | None) -> Callable[[IO[bytes]], None]:
    """Each map, (heads, rows, columns), under its site's name; "about" is JSON: input, answer, changes, words."""
    wanted = [model_title(name, i, found.sites[name]) for name, i in sites(found)] if site is None else [site]
    told: dict[str, Any] = {
        "input": example_of_trace(found).record(),
        "answer": answer_data(found.answer),
        "changes": [change_data(change) for change in found.changes],
        "axes": {name: axes(found, name) for name in wanted},
    }

    def write(file: IO[bytes]) -> None:
        maps = {name: map_weights(found, name) for name in wanted}
        chosen = {name: x if head is None else head_map(x, head)[None] for name, x in maps.items()}
        arrays = {"about": np.array(json.dumps(told)), **{name: x.numpy() for name, x in chosen.items()}}
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]

    return write


def axes(found: Trace[Any], name: str) -> dict[str, Any]:
    site, _ = find_site(found, name)
    return {
        part: {"kind": axis.kind, "labels": axis.labels, "grid": axis.grid}
        for part, axis in (("rows", site.rows), ("columns", site.columns))
    }


def drawn(found: Trace[Any], kind: str, site: str | None, head: int | None) -> Callable[[IO[bytes]], None]:
    from regard import style
    from regard.glyphs import supply_glyphs

    from .drawing import draw_alignment

    def write(file: IO[bytes]) -> None:
        with style.font_family():
            own = example_of_trace(found).sheet
            if site is None and own is not None:
                page = own(found)
            elif site is None:
                page = all_heads(
                    found, headline(found), f"{asked(found)}All heads of all sites; rows are queries, columns are keys."
                )
            else:
                one, _ = find_site(found, site)
                weights = head_map(map_weights(found, site), head)
                rows, columns = (
                    position_names(axis.labels, size)
                    for axis, size in zip((one.rows, one.columns), weights.shape, strict=True)
                )
                which = "mean of heads" if head is None else f"head {head}"
                note = f"{asked(found)}{site}, {which}. Rows are queries, columns are keys."
                page = draw_alignment(weights, rows, columns, headline(found), note)
            supply_glyphs(page)
            page.savefig(file, format=kind[1:])

    return write


def asked(found: Trace[Any]) -> str:
    """The text that was looked at, if the headline does not say it; a line of its own."""
    texts = example_of_trace(found).texts
    return f"“{texts[0]}”\n" if texts and texts[0] != headline(found) else ""


def headline(found: Trace[Any]) -> str:
    """What the model said."""
    said = "" if found.answer is None else found.answer.headline()
    return said or (example_of_trace(found).texts[0] if example_of_trace(found).texts else "an image")
