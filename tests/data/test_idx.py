"""idx files: a header that fits the file, or an error."""

import gzip
import lzma
import os
import random
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.errors import InputError
from regard.modalities.images.idx import IdxImages, open_idx, read_idx
from regard.modalities.images.processor import Images

GREY = Images(size=None, channels=1)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))


def idx(kind: int, shape: tuple[int, ...], body: bytes) -> bytes:
    return bytes([0, 0, kind, len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + body


def pair(folder: Path, images: np.ndarray, labels: list[int], split: str = "train", suffix: str = "") -> Path:
    pack = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}[suffix]
    folder.mkdir(exist_ok=True)
    (folder / f"{split}-images-idx3-ubyte{suffix}").write_bytes(pack(idx(8, images.shape, images.tobytes())))
    (folder / f"{split}-labels-idx1-ubyte{suffix}").write_bytes(pack(idx(8, (len(labels),), bytes(labels))))
    return folder


PIXELS = np.arange(4 * 3 * 2, dtype=np.uint8).reshape(4, 3, 2)


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
def test_images_and_labels(tmp_path: Path, suffix: str) -> None:
    rows = open_idx(pair(tmp_path / "d", PIXELS, [1, 0, 3, 1], suffix=suffix), "train", GREY)
    assert (len(rows), rows.labels, list(rows.faults), rows.lengths) == (4, ("0", "1", "2", "3"), [], None)
    for i, label in enumerate([1, 0, 3, 1]):
        assert torch.equal(rows[i].image, torch.from_numpy(PIXELS[i])[None])
        assert rows[i].label == label
    assert rows.where(3) == f"{tmp_path}/d/train-images-idx3-ubyte{suffix}:4"
    for wrong in (-1, 4):
        with pytest.raises(IndexError):
            rows[wrong]


def test_a_row_is_a_copy_and_may_be_scaled_and_coloured(tmp_path: Path) -> None:
    folder = pair(tmp_path / "d", PIXELS, [0, 1, 2, 3])
    rows = open_idx(folder, "train", GREY)
    rows[0].image.zero_()
    assert rows[1].image.sum() > 0
    assert torch.equal(rows[0].image[0], torch.from_numpy(PIXELS[0]))
    assert open_idx(folder, "train", Images(size=8))[0].image.shape == (3, 8, 8)


def test_labels_without_a_name_are_faults(tmp_path: Path) -> None:
    rows = open_idx(pair(tmp_path / "d", PIXELS, [1, 0, 2, 1]), "train", GREY, labels=("cat", "dog"))
    assert [rows[i].label for i in range(len(rows))] == [1, 0, 1]
    assert torch.equal(rows[2].image[0], torch.from_numpy(PIXELS[3]))
    assert rows.where(2).endswith(":4")
    assert [str(fault) for fault in rows.faults] == [
        f"{tmp_path}/d/train-labels-idx1-ubyte:3: label 2 is out of range for 2 labels"
    ]


@pytest.mark.parametrize(
    ("kind", "code", "values"),
    [(9, "b", [-1, 5]), (11, ">h", [-300, 7]), (12, ">i", [1 << 20, -1]), (13, ">f", [0.5, -2])],
)
def test_all_kinds_of_numbers(tmp_path: Path, kind: int, code: str, values: list[float]) -> None:
    path = tmp_path / "x"
    path.write_bytes(idx(kind, (2,), b"".join(struct.pack(code, value) for value in values)))
    assert read_idx(path).tolist() == values


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\0\0\x08",
        b"PK\x03\x04" + bytes(20),
        idx(7, (1,), b"x"),
        bytes([0, 0, 8, 0]),
        bytes([0, 0, 8, 3, 0, 0]),
        bytes([0, 0, 8, 200]) + struct.pack(">I", 1) * 200 + b"x",
        idx(8, (2, 2), b"xxx"),
        idx(8, (2, 2), b"xxxxx"),
        idx(8, (0, 5), b""),
        idx(8, (0,), b""),
        idx(8, (1 << 31, 1 << 31, 1 << 31), b"x" * 100),
        idx(8, (0xFFFFFFFF,) * 30, b"x"),
        idx(14, (2,), bytes(8)),
    ],
)
def test_a_lying_header_is_refused(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "liar-idx"
    path.write_bytes(raw)
    with pytest.raises(InputError, match="liar-idx") as caught:
        read_idx(path)
    assert caught.value.where == str(path)
    assert caught.value.got


def test_the_error_tells_both_lengths(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(idx(8, (10, 28, 28), bytes(7000)))
    with pytest.raises(InputError) as caught:
        read_idx(tmp_path / "x")
    assert caught.value.got == "7016 bytes"
    assert caught.value.expected == "7856 bytes: a header of 16, then 10 x 28 x 28 1-byte values"


def test_nothing_is_allocated_for_a_large_file(tmp_path: Path) -> None:
    """A sparse file of 8 GB: read into memory it would not fit."""
    path = tmp_path / "large"
    path.write_bytes(idx(8, (1 << 21, 64, 64), b""))
    os.truncate(path, 16 + (1 << 33))
    assert read_idx(path)[(1 << 21) - 1].sum() == 0


def test_files_that_do_not_belong_together(tmp_path: Path) -> None:
    folder = pair(tmp_path / "d", PIXELS, [1, 2, 3])
    with pytest.raises(InputError, match="4 images and 3 labels"):
        open_idx(folder, "train", GREY)
    images, labels = folder / "train-images-idx3-ubyte", folder / "train-labels-idx1-ubyte"
    with pytest.raises(InputError, match="does not contain images"):
        IdxImages(labels, images, GREY)
    with pytest.raises(InputError, match="does not contain labels"):
        IdxImages(images, images, GREY)
    labels.write_bytes(idx(12, (4,), bytes(16)))
    with pytest.raises(InputError, match="1-dimensional int32"):
        open_idx(folder, "train", GREY)


def test_files_are_found_by_their_split(tmp_path: Path) -> None:
    folder = pair(tmp_path / "d", PIXELS, [0, 0, 0, 0], "train25k")
    pair(folder, PIXELS[:2], [1, 1], "t10k", ".gz")
    assert (len(open_idx(folder, "train", GREY)), len(open_idx(folder, "test", GREY))) == (4, 2)
    assert len(open_idx(folder, "t10k", GREY)) == 2
    with pytest.raises(InputError, match="no idx file of images found for the split 'dev'"):
        open_idx(folder, "dev", GREY)
    with pytest.raises(InputError, match="no idx file"):
        open_idx(tmp_path / "gone", "train", GREY)
    with pytest.raises(InputError, match="no idx file"):
        open_idx(folder, ".*", GREY)
    pair(folder, PIXELS, [0, 0, 0, 0], "train5k")
    with pytest.raises(InputError, match="more than one"):
        open_idx(folder, "train", GREY)


def test_broken_files_are_refused_or_read(tmp_path: Path) -> None:
    luck = random.Random(0)
    good = idx(8, (4, 3, 2), PIXELS.tobytes())
    read = 0
    for _ in range(120):
        raw = bytearray(good)
        for _ in range(luck.choice([1, 2, 4])):
            raw[luck.randrange(20)] = luck.choice([0, 1, 2, 3, 4, 6, 8, 12, 24, 255])
        (tmp_path / "x").write_bytes(raw)
        try:
            assert read_idx(tmp_path / "x").nbytes <= len(raw)
            read += 1
        except InputError:
            pass
    assert 5 < read < 115


def test_mnist(shared_data: Path) -> None:
    rows = open_idx(shared_data / "mnist", "test", Images(size=28, channels=1))
    assert (len(rows), len(rows.labels), len(rows.faults)) == (10_000, 10, 0)
    assert [rows[i].label for i in range(8)] == [7, 2, 1, 0, 4, 1, 4, 9]
    assert np.bincount(rows.targets).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert rows[0].image.shape == (1, 28, 28)
    ink = torch.stack([rows[i].image.float().mean() for i in range(500)])
    labels = torch.tensor([rows[i].label for i in range(500)])
    assert ink[labels == 0].mean() > 1.8 * ink[labels == 1].mean()  # so images and labels belong together


def test_fashion(shared_data: Path) -> None:
    rows = open_idx(shared_data / "fashion_mnist_30k", "test", Images(size=28, channels=1))
    assert (len(rows), len(rows.faults), rows[0].image.shape) == (5000, 0, (1, 28, 28))
    assert np.bincount(rows.targets).tolist() == [500] * 10
