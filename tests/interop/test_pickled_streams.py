"""PyTorch's files from before version 1.6, programs and storages in a row, are read without running them."""

import pickle
import struct
from collections import OrderedDict
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from regard.errors import CheckpointError
from regard.interop.storages import MAGIC, VERSION
from tests.interop.pickles import ask, everything, numbers, programs, refused, same, tensor, text, through


def streamed(path: Path, state: object, **how: int) -> Path:
    torch.save(state, path, _use_new_zipfile_serialization=False, **how)
    return path


def row(path: Path, program: bytes, keys: object = ("0",), *storages: bytes, machine: object = None) -> Path:
    """Such a file by hand."""
    told = {"protocol_version": VERSION, "little_endian": True} if machine is None else machine
    parts = [pickle.dumps(x, 2) for x in (MAGIC, VERSION, told)]
    path.write_bytes(b"".join([*parts, program, pickle.dumps(list(keys) if keys else keys, 2), *storages]))
    return path


SIX = struct.pack("<q", 6) + struct.pack("<6f", *range(6))


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_all_that_a_state_dict_can_hold_comes_back_equal(protocol: int, tmp_path: Path) -> None:
    path = streamed(tmp_path / "x.pt", everything(), pickle_protocol=protocol)
    assert same(through(path), {name: x.detach() for name, x in everything().items()})


def test_the_state_dict_of_a_module_nested_and_alone(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    for state in (net.state_dict(), {"epoch": 3, "state_dict": net.state_dict()}):
        assert same(through(streamed(tmp_path / "x.bin", state)), dict(net.state_dict()))


def test_the_first_form_of_a_tensor_and_a_text(tmp_path: Path) -> None:
    """Before version 0.4, and as Python 2 wrote it."""
    identity = b"(" + b"U\x07storage" + ask("torch", "FloatStorage") + b"U\x010U\x03cpu" + b"K\x06NtQ"
    arguments = b"(" + identity + b"K\x00" + numbers((2, 3)) + numbers((3, 1)) + b"t"
    program = b"\x80\x02}U\x01w" + ask("torch._utils", "_rebuild_tensor") + arguments + b"Rs."
    found = through(row(tmp_path / "x.pt", program, ("0",), SIX))
    assert found["w"].tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


@pytest.mark.parametrize(
    ("keys", "storages", "words"),
    [
        (("0",), (), "storage '0' is missing"),
        (("0",), (SIX[:-1],), "claims 24 bytes, but the file ends before"),
        (("0",), (SIX, b"x"), "1 bytes after its last storage"),
        (("0",), (struct.pack("<q", 1 << 60),), "but the file ends before"),
        (("0",), (struct.pack("<q", 5) + SIX[8:-4],), "needs 24 bytes in the storage '0', which has 20"),
        (("1",), (SIX,), "no tensor refers to the storage '1'"),
        (("0", "0"), (SIX, SIX), "a storage is named twice"),
        (None, (SIX,), "names of the storages"),
        ((1,), (SIX,), "names of the storages"),
        (("0", "1"), (SIX, SIX), "no tensor refers to the storage '1'"),
    ],
)
def test_storages_that_lie_are_refused(keys: object, storages: tuple[bytes, ...], words: str, tmp_path: Path) -> None:
    path = row(tmp_path / "x.pt", tensor(), keys, *storages)
    assert words in refused(lambda: through(path))


def test_other_programs_are_refused(tmp_path: Path) -> None:
    path, good = tmp_path / "x.pt", tensor()
    assert "big-endian" in refused(lambda: through(row(path, good, ("0",), SIX, machine={"little_endian": False})))
    for first in (b"", pickle.dumps(MAGIC + 1, 2), pickle.dumps({}, 2)):
        path.write_bytes(first + row(tmp_path / "y.pt", good, ("0",), SIX).read_bytes())
        if first:
            assert refused(lambda: through(path))
    other = b"(" + text("storage") + ask("torch", "FloatStorage") + text("0") + text("cpu") + b"\x8a\x01\x06"
    view = good.replace(other + b"tQ", other + b"(" + text("1") + b"K\x00K\x06ttQ")
    assert view != good
    assert "unknown form of storage reference" in refused(lambda: through(row(path, view, ("0",), SIX)))


@pytest.mark.parametrize(("module", "name"), [("os", "system"), ("builtins", "eval"), ("torch", "load")])
def test_no_program_in_a_row_calls_anything(module: str, name: str, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    for form, program in programs(module, name, text(f"touch {canary}")).items():
        for place in range(5):
            parts = [pickle.dumps(x, 2) for x in (MAGIC, VERSION, {"little_endian": True}, OrderedDict(), ["0"])]
            parts[place] = program
            (tmp_path / "x.pt").write_bytes(b"".join(parts) + SIX)
            assert refused(lambda: through(tmp_path / "x.pt")), (form, place)
            assert not canary.exists(), (form, place)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    edits=st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 30), st.binary(max_size=9)), min_size=1, max_size=3)
)
def test_random_changes_are_refused_or_harmless(tmp_path: Path, edits: list[tuple[int, int, bytes]]) -> None:
    raw = streamed(tmp_path / "whole.pt", {"a": torch.ones(2, 3), "b": torch.arange(4)}).read_bytes()
    for at, gone, new in edits:
        start = at % len(raw)
        raw = raw[:start] + new + raw[start + gone :]
    path = tmp_path / "x.pt"
    path.write_bytes(raw)
    try:
        found = through(path)
    except CheckpointError:
        return
    assert all(isinstance(name, str) for name in found)
