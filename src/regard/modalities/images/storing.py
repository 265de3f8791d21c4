"""Labelled images given in Python, written as an archive that a run reads."""

import io
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from regard.data.given_tables import as_text, described, is_path, picked_columns, table_of
from regard.errors import InputError
from regard.storage.atomic import sync_to_disk

TABLE = "labels.tsv"
ROLES = ("image", "label")


def store_images(splits: Mapping[str, Any], asked: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """An archive for each split: the pixels as they are, and a table of the labels."""
    found: dict[str, Any] = {}
    for split, given in splits.items():
        path = folder / f"{split}.zip"
        write_archive(path, labelled_images(given, f"data.{split}"))
        found[split] = str(path)
    return found


def write_archive(path: Path, rows: Iterator[tuple[bytes, str, str]]) -> None:
    lines = []
    with zipfile.ZipFile(path, "x", zipfile.ZIP_STORED) as archive:
        for number, (content, suffix, label) in enumerate(rows):
            name = f"{number:07d}{suffix}"
            archive.writestr(zipfile.ZipInfo(name), content)  # a fixed date: the same images give the same file
            lines.append(f"{name}\t{label}\n")
        archive.writestr(zipfile.ZipInfo(TABLE), "".join(lines))
    sync_to_disk(path)


def labelled_images(given: Any, where: str) -> Iterator[tuple[bytes, str, str]]:
    """The file, its ending and the label of each image."""
    if isinstance(given, tuple) and len(given) == 2 and all(hasattr(x, "__len__") for x in given):
        given = dict(zip(ROLES, given, strict=True))
    for number, (image, label) in enumerate(picked_columns(table_of(given, where), ROLES, [], where), 1):
        here = f"{where}, row {number}"
        name = as_text(label)
        if name is None or not name.strip() or not name.isprintable():
            raise InputError(
                "an image has no usable label", where=here, got=described(label), expected="a text or number"
            )
        content, suffix = image_file(image, here)
        yield content, suffix, name.strip()


def image_file(image: Any, where: str) -> tuple[bytes, str]:
    """The bytes of a file; pixels become a PNG, which keeps each of them."""
    if isinstance(image, str | Path):
        try:
            return Path(image).read_bytes(), Path(image).suffix.lower()
        except OSError as error:
            raise InputError("an image cannot be read", where=where, got=f"{image}: {error.strerror}") from None
    if isinstance(image, Mapping) and image.get("bytes"):  # a Hugging Face table that does not decode them
        return bytes(image["bytes"]), ".png"
    file = io.BytesIO()
    picture = image if isinstance(image, Image.Image) else Image.fromarray(pixels_of(image, where))
    picture.save(file, "png", compress_level=1)
    return file.getvalue(), ".png"


def pixels_of(image: Any, where: str) -> Any:
    """(h, w), (h, w, 1 or 3) or (1 or 3, h, w), bytes or shares of 1 -> (h, w) or (h, w, 3), bytes"""
    pixels = np.asarray(image.detach().cpu() if hasattr(image, "detach") else image)
    if pixels.ndim == 3 and pixels.shape[0] in (1, 3) and pixels.shape[2] not in (1, 3):
        pixels = pixels.transpose(1, 2, 0)
    pixels = pixels[..., 0] if pixels.ndim == 3 and pixels.shape[2] == 1 else pixels
    if pixels.ndim not in (2, 3) or (pixels.ndim == 3 and pixels.shape[2] != 3) or 0 in pixels.shape:
        raise InputError(
            "the array is not an image",
            where=where,
            got=f"an array of shape {pixels.shape}",
            expected="height x width, with 1 or 3 channels",
        )
    if pixels.dtype == np.uint8:
        return np.ascontiguousarray(pixels)
    if pixels.dtype == bool:
        return pixels.astype(np.uint8) * 255
    least, most = float(pixels.min()), float(pixels.max())
    if np.issubdtype(pixels.dtype, np.integer) and least >= 0 and most <= 255:
        return pixels.astype(np.uint8)
    if np.issubdtype(pixels.dtype, np.floating) and least >= 0 and most <= 1:
        return np.round(pixels * 255).astype(np.uint8)
    raise InputError(
        "the pixels are neither bytes nor shares of 1",
        where=where,
        got=f"{pixels.dtype} from {least:g} to {most:g}",
        expected="integers from 0 to 255, or floats from 0 to 1",
    )


def are_images(given: Any) -> bool:
    """Arrays of pixels or pictures, or rows or columns of them; a folder or an archive."""
    if is_path(given):
        return isinstance(given, str | Path) and Path(given).suffix in ("", ".zip")
    if isinstance(given, Mapping):
        return any(are_images(column) for column in given.values())
    if hasattr(given, "column_names") and hasattr(given, "features"):  # a Hugging Face table
        return any(type(one).__name__ == "Image" for one in (given.features or {}).values())
    if not isinstance(given, list | tuple) or not given:
        return axes_of(given) >= 3
    first = given[0]
    row = list(first.values()) if isinstance(first, Mapping) else first if isinstance(first, list | tuple) else [first]
    return axes_of(first) >= 3 or any(isinstance(x, Image.Image) or axes_of(x) in (2, 3) for x in row)


def axes_of(given: Any) -> int:
    """Of an array of numbers."""
    numbers = getattr(getattr(given, "dtype", None), "kind", "f") in "biuf"
    return int(getattr(given, "ndim", 0)) if numbers else 0
