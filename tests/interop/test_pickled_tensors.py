"""Pickled tensors that lie, and the zip around them."""

import os
import struct
import warnings
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard.errors import CheckpointError
from regard.interop import pickled
from tests.interop.pickles import SIX, ask, everything, refused, tensor, text, through, zipped


def test_the_tensor_by_hand_is_a_good_one(tmp_path: Path) -> None:
    assert through(zipped(tmp_path / "x.pt", tensor(), SIX))["w"].tolist() == [[0, 1, 2], [3, 4, 5]]
    found = through(zipped(tmp_path / "x.pt", tensor(shape=(2, 2), stride=(1, 3), offset=1), SIX))
    assert found["w"].tolist() == [[1, 4], [2, 5]]
    free = tensor(shape=(1, 6), stride=(2**62, 1))  # the stride of an axis of one means nothing
    assert through(zipped(tmp_path / "x.pt", free, SIX))["w"].tolist() == [[0, 1, 2, 3, 4, 5]]
    nothing = tensor(shape=(0, 6), stride=(2**62, 2**62), offset=2**62)
    assert through(zipped(tmp_path / "x.pt", nothing, SIX))["w"].shape == (0, 6)


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        ({"offset": 1}, "reads element 6 of a storage of 6 elements"),
        ({"offset": 2**62}, "reads element"),
        ({"offset": -1}, "with arguments that no state dict needs"),
        ({"offset": 2**63}, "with arguments"),
        ({"shape": (3, 3)}, "reads element 8"),
        ({"shape": (-2, 3)}, "with arguments"),
        ({"shape": (2, 2**63)}, "with arguments"),
        ({"shape": (2**40, 2**40), "stride": (0, 0)}, "invalid shape"),
        ({"shape": (2**40,), "stride": (0,)}, "need 4398046511104 bytes"),
        ({"shape": (2**62, 0, 2**62), "stride": (0, 0, 0)}, "invalid shape"),
        ({"stride": (3, 2)}, "reads element 7"),
        ({"stride": (-3, 1)}, "with arguments"),
        ({"stride": (2**62, 1)}, "reads element"),
        ({"stride": (3,)}, "2 dimensions and 1 strides"),
        ({"stride": (3, 1, 1)}, "2 dimensions and 3 strides"),
        ({"shape": (1,) * 33, "stride": (1,) * 33}, "33 dimensions"),
        ({"shape": (2**62,) * 5000, "stride": (1,) * 5000}, "5000 dimensions"),
        ({"count": 7}, "needs 28 bytes in the storage '0', which has 24"),
        ({"count": 5}, "needs 20 bytes in the storage '0', which has 24"),
        ({"count": 2**62}, "bytes in the storage '0', which has 24"),
        ({"count": -6}, "unknown form of storage reference"),
        ({"count": 2**64}, "unknown form of storage reference"),
        ({"storage": "DoubleStorage"}, "needs 48 bytes in the storage '0', which has 24"),
        ({"storage": "QInt8Storage"}, "torch.QInt8Storage"),
        ({"storage": "UntypedStorage"}, "torch.UntypedStorage"),
        ({"key": "1"}, "which is missing in the file"),
        ({"key": "../data.pkl"}, "which is missing in the file"),
        ({"key": "/etc/passwd"}, "which is missing in the file"),
        ({"key": ""}, "which is missing in the file"),
    ],
    ids=str,
)
def test_a_tensor_that_lies_is_refused_by_name(tmp_path: Path, lie: dict[str, Any], reason: str) -> None:
    message = refused(lambda: through(zipped(tmp_path / "x.pt", tensor(**lie), SIX)))
    assert reason in message
    assert "tensor 'w'" in message or "the pickle program" in message or "the tensors" in message


def test_many_copies_of_a_large_tensor_are_refused_before_they_are_written(tmp_path: Path) -> None:
    x = torch.zeros(2**20)
    torch.save({str(i): x for i in range(30)}, tmp_path / "x.pt")
    assert "far more than the file size of" in refused(lambda: through(tmp_path / "x.pt"))
    torch.save({str(i): x for i in range(4)}, tmp_path / "x.pt")
    assert len(through(tmp_path / "x.pt")) == 4


def test_hooks_metadata_and_other_arguments_are_refused(tmp_path: Path) -> None:
    good = tensor()
    hooks = ask("collections", "OrderedDict") + b")R"
    filled = b"}" + text("hook") + b"K\x01s"
    for program in (
        good.replace(hooks, filled),
        good.replace(hooks + b"t", hooks + filled + b"t"),
        good.replace(b"\x89" + hooks, b"K\x00" + hooks),
        good.replace(hooks + b"tRs.", hooks + b"}\x86Rs."),
    ):
        assert program != good
        assert refused(lambda program=program: through(zipped(tmp_path / "x.pt", program, SIX)))
    lazy = torch.randn(2, dtype=torch.complex64).conj()
    torch.save({"w": lazy}, tmp_path / "x.pt")
    assert "_rebuild_tensor_v2 with arguments" in refused(lambda: through(tmp_path / "x.pt")).replace("'", "")


def test_what_is_not_a_pytorch_zip_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    for data in (b"", b"P", b"PK", b"hello", b"\x89HDF", b"\0" * 100):
        path.write_bytes(data)
        assert "not a PyTorch file" in refused(lambda: through(path))
    path.write_bytes(b"PK\x03\x04")
    assert "the zip archive is corrupt" in refused(lambda: through(path))
    path.write_bytes(b"PK\x05\x06" + b"\0" * 18)  # an empty zip
    assert "not a PyTorch file" in refused(lambda: through(path))
    assert "not found" in refused(lambda: through(tmp_path / "missing.pt"))
    assert "not a regular file" in refused(lambda: through(tmp_path))
    os.mkfifo(tmp_path / "pipe.pt")
    assert "not a regular file" in refused(lambda: through(tmp_path / "pipe.pt"))


def archive_with(path: Path, *entries: tuple[str, bytes, int]) -> Path:
    with zipfile.ZipFile(path, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of a name that stands twice
        for name, data, method in entries:
            archive.writestr(name, data, method)
    return path


def test_compressed_doubled_missing_and_foreign_entries_are_refused(tmp_path: Path) -> None:
    stored, packed, path = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, tmp_path / "x.pt"
    program, data = ("x/data.pkl", tensor(), stored), ("x/data/0", SIX["0"], stored)
    assert through(archive_with(path, program, data))
    bomb = ("x/data/1", b"\0" * 2**24, packed)
    for entries, reason in (
        ((program, data, bomb), "'x/data/1' is compressed"),
        ((("x/data.pkl", tensor(), packed), data), "'x/data.pkl' is compressed"),
        ((("x/data.pkl", tensor(), zipfile.ZIP_LZMA), data), "is compressed"),
        ((program, data, data), "duplicate zip entry 'x/data/0'"),
        ((program, program, data), "duplicate zip entry 'x/data.pkl'"),
        ((program, data, ("y/data.pkl", tensor(), stored)), "2 entries */data.pkl"),
        ((data,), "0 entries */data.pkl"),
        ((("data.pkl", tensor(), stored), data), "0 entries */data.pkl"),
        ((("a/b/data.pkl", tensor(), stored),), "0 entries */data.pkl"),
        ((program, data, ("x/constants.pkl", b"", stored)), "TorchScript"),
        ((program, data, ("x/byteorder", b"big", stored)), "big-endian"),
        ((program, ("y/data/0", SIX["0"], stored)), "which is missing in the file"),
    ):
        assert reason in refused(lambda entries=entries: through(archive_with(path, *entries)))


def test_limits_of_the_zip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = zipped(tmp_path / "x.pt", tensor(), SIX)
    assert through(path)
    monkeypatch.setattr(pickled, "ENTRIES", 1)
    assert "2 entries, more than the limit of 1" in refused(lambda: through(path))
    monkeypatch.setattr(pickled, "ENTRIES", 2)
    monkeypatch.setattr(pickled, "PROGRAM_BYTES", 10)
    assert "more than the limit of 10" in refused(lambda: through(path))


def patched(data: bytes, signature: bytes, offset: int, form: str, value: int, at: int = -1) -> bytes:
    """The file with one field of its last (or another) record changed."""
    place = data.rfind(signature) if at < 0 else at
    raw = bytearray(data)
    struct.pack_into(form, raw, place + offset, value)
    return bytes(raw)


CENTRAL, LOCAL, END = b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06"


@pytest.mark.parametrize(
    ("signature", "offset", "form", "value"),
    [
        (CENTRAL, 8, "<H", 1),  # encrypted
        (CENTRAL, 10, "<H", 8),  # deflated
        (CENTRAL, 10, "<H", 99),
        (CENTRAL, 16, "<I", 0x12345678),  # checksum
        (CENTRAL, 20, "<I", 2**31),  # packed size
        (CENTRAL, 24, "<I", 2**31),  # size
        (CENTRAL, 24, "<I", 23),
        (CENTRAL, 24, "<I", 2**32 - 1),  # zip64, but no such field
        (CENTRAL, 28, "<H", 60000),  # length of the name
        (CENTRAL, 42, "<I", 2**31),  # place of the entry
        (CENTRAL, 42, "<I", 1),
        (LOCAL, 0, "<I", 0),
        (LOCAL, 26, "<H", 60000),
        (END, 12, "<I", 2**31),  # size of the list
        (END, 16, "<I", 2**31),  # place of the list
        (END, 10, "<H", 0),
    ],
)
def test_a_zip_whose_records_lie_is_refused(
    tmp_path: Path, signature: bytes, offset: int, form: str, value: int
) -> None:
    path = zipped(tmp_path / "x.pt", tensor(), SIX)
    data = path.read_bytes()
    path.write_bytes(patched(data, signature, offset, form, value))
    if (signature, offset) in ((END, 10), (CENTRAL, 28)):  # not needed by the last record, and the data is whole
        assert through(path)
    else:
        assert refused(lambda: through(path))


def test_entries_that_claim_more_than_the_file_are_refused_before_reading(tmp_path: Path) -> None:
    path = zipped(tmp_path / "x.pt", tensor(count=2**28), SIX)
    data = path.read_bytes()
    data = patched(data, CENTRAL, 20, "<I", 2**30)
    path.write_bytes(patched(data, CENTRAL, 24, "<I", 2**30))
    assert "entries declare" in refused(lambda: through(path))


def test_a_damaged_storage_is_refused_by_its_checksum(tmp_path: Path) -> None:
    path = zipped(tmp_path / "x.pt", tensor(), SIX)
    data = path.read_bytes()
    place = data.index(SIX["0"]) + 9
    path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
    assert "'x/data/0' is corrupt" in refused(lambda: through(path))


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    path = zipped(tmp_path / "x.pt", tensor(), SIX)
    data = path.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        assert refused(lambda: through(path))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 6000), st.integers(0, 4), st.binary(max_size=4)), min_size=1, max_size=3))
def test_random_changes_of_the_file_are_refused_or_harmless(
    tmp_path: Path, whole: bytes, edits: list[tuple[int, int, bytes]]
) -> None:
    data = whole
    for place, removed, added in edits:
        place %= len(data)
        data = data[:place] + added + data[place + removed :]
    (tmp_path / "x.pt").write_bytes(data)
    try:
        found = through(tmp_path / "x.pt")
    except CheckpointError:
        return
    assert sum(x.nbytes for x in found.values()) <= pickled.output_limit(len(data))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("whole") / "x.pt"
    torch.save({name: x.detach() for name, x in list(everything().items())[:8]}, path)
    return path.read_bytes()
