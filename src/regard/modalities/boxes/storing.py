"""Images with boxes given in Python, written as an archive of the images and a list of the boxes."""

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.data.given_tables import as_text, described, table_of
from regard.errors import InputError
from regard.modalities.images.storing import image_file
from regard.modalities.splits import SPLITS
from regard.storage.atomic import sync_to_disk, write_file

FORM = '{"image": image, "boxes": [[left, top, right, bottom], ...], "labels": [...]}, in pixels'
PAIR = "(image, [(label, left, top, right, bottom), ...])"


def store_boxes(splits: Mapping[str, Any], asked: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Of each split the images as they are, and the boxes beside them."""
    if others := [name for name in (*SPLITS, "images") if name not in splits and asked.get(name)]:
        fix = "give all of them in memory, or all as files"
        raise InputError("images in memory and files cannot be mixed", where=f"data.{others[0]}", fix=fix)
    for split, given in splits.items():
        rows = boxed_rows(given, f"data.{split}")
        listed = []
        with zipfile.ZipFile(folder / f"{split}.zip", "x", zipfile.ZIP_STORED) as archive:
            for i, (image, boxes) in enumerate(rows):
                content, suffix = image_file(image, f"data.{split}, row {i + 1}")
                name = f"{i:07d}{suffix}"
                archive.writestr(zipfile.ZipInfo(name), content)
                listed.append({"image": name, "boxes": boxes})
        sync_to_disk(folder / f"{split}.zip")
        write_file(folder / f"{split}.json", json.dumps(listed).encode())
    archives = [folder / f"{split if split in splits else 'train'}.zip" for split in SPLITS]
    return {split: str(folder / f"{split}.json") for split in splits} | {"images": [str(path) for path in archives]}


def boxed_rows(given: Any, where: str) -> list[tuple[Any, list[list[Any]]]]:
    table = table_of(given, where)
    places = [table.columns.index(name) for name in ("image", "boxes", "labels") if name in table.columns]
    if not places and len(table.columns) in (2, 3):
        places = list(range(len(table.columns)))
    if len(places) < 2:
        got = ", ".join(table.columns)
        raise InputError("these are no images with boxes", where=where, got=got, expected=f"{FORM}; or {PAIR}")
    found = []
    for number, row in enumerate(table.rows, 1):
        image, boxes, *labels = (row[place] for place in places)
        found.append((image, labelled_boxes(boxes, labels, f"{where}, row {number}")))
    return found


def labelled_boxes(boxes: Any, labels: list[Any], where: str) -> list[list[Any]]:
    if labels and len(labels[0]) != len(boxes):
        got = f"{len(boxes)} boxes and {len(labels[0])} labels"
        raise InputError("each box needs one label", where=where, got=got)
    rows = [[name, *box] for name, box in zip(labels[0], boxes, strict=True)] if labels else [list(x) for x in boxes]
    if wrong := [row for row in rows if len(row) != 5 or not as_text(row[0])]:
        raise InputError("a box is not understood", where=where, got=described(wrong[0]), expected=f"{FORM}; or {PAIR}")
    try:
        return [[as_text(name), *map(float, corners)] for name, *corners in rows]
    except (TypeError, ValueError):
        raise InputError("a box has corners that are no numbers", where=where, expected=f"{FORM}; or {PAIR}") from None
