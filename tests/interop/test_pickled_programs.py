"""Pickled programs that mean harm are refused."""

import io
import pickle  # only as the trusting reader that the hostile files are aimed at
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import CheckpointError
from regard.interop import opcodes
from regard.interop.opcodes import interpret
from tests.interop.pickles import ARMED, HEARD, ask, everything, programs, refused, text, through, zipped

CALLABLES = [
    ("os", "system"),
    ("posix", "system"),
    ("nt", "system"),
    ("os", "popen"),
    ("os", "execv"),
    ("os", "remove"),
    ("subprocess", "Popen"),
    ("subprocess", "check_output"),
    ("builtins", "eval"),
    ("builtins", "exec"),
    ("builtins", "compile"),
    ("builtins", "getattr"),
    ("builtins", "__import__"),
    ("builtins", "open"),
    ("__builtin__", "eval"),
    ("importlib", "import_module"),
    ("runpy", "run_path"),
    ("pty", "spawn"),
    ("socket", "socket"),
    ("webbrowser", "open"),
    ("ctypes", "CDLL"),
    ("pickle", "loads"),
    ("marshal", "loads"),
    ("types", "FunctionType"),
    ("operator", "attrgetter"),
    ("functools", "partial"),
    ("code", "interact"),
    ("bdb", "Bdb"),
    ("torch", "load"),
    ("torch.hub", "load"),
    ("torch.jit", "load"),
    ("torch.storage", "_load_from_bytes"),
    ("torch.serialization", "load"),
    ("torch._utils", "_rebuild_sparse_tensor"),
    ("torch._tensor", "_rebuild_from_type_v2"),
    ("torch.utils._config_module", "load_config"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy.testing._private.utils", "runstring"),
    ("collections", "OrderedDict.__class__"),
    ("collections", "defaultdict"),
    ("torch", "FloatStorage.__init__.__globals__"),
    ("torch._utils", "_rebuild_tensor_v2.__globals__"),
    ("torch", "FloatStorage "),
    ("torch ", "FloatStorage"),
    ("Torch", "FloatStorage"),
]


@pytest.mark.parametrize(("module", "name"), CALLABLES, ids=lambda x: x)
def test_no_program_calls_anything(tmp_path: Path, module: str, name: str) -> None:
    canary = tmp_path / "canary"
    argument = text(
        f"__import__('pathlib').Path({str(canary)!r}).touch()" if name in ("eval", "exec") else f"touch {canary}"
    )
    for form, program in programs(module, name, argument).items():
        message = refused(lambda program=program: through(zipped(tmp_path / "x.pt", program)))
        assert not canary.exists(), form
        asked = ascii(f"{module} {name}".replace(" ", ".", 1))
        assert asked in message or form == "inst", (form, message)
        assert (tmp_path / "x.pt.out").exists() is False


def test_there_are_hundreds_of_hostile_programs() -> None:
    assert len(CALLABLES) * len(programs("os", "system", b"")) >= 200


@pytest.mark.parametrize(
    "form", ["reduce", "stack global", "short stack global", "inst", "obj", "memo", "hidden", "dropped"]
)
def test_these_programs_do_harm_in_a_reader_that_trusts_them(tmp_path: Path, form: str) -> None:
    canary = tmp_path / "canary"
    program = programs("os", "system", text(f"touch {canary}"))[form]
    pickle.loads(program)
    assert canary.exists()


def test_several_steps_are_no_way_around(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    command = text(f"touch {canary}")
    getattr_, import_ = ask("builtins", "getattr"), ask("builtins", "__import__")
    ordered = ask("collections", "OrderedDict") + b")R"
    tensor = ask("torch._utils", "_rebuild_tensor_v2")
    for program in (
        getattr_ + import_ + text("os") + b"\x85R" + text("system") + b"\x86R" + command + b"\x85R.",
        ordered + b"}" + text("__reduce__") + ask("os", "system") + b"sb.",
        ordered + b"}" + text("__class__") + text("x") + b"sb.",
        ordered + b"}" + text("_metadata") + b"}s" + text("more") + b"}sb.",
        ordered + b"N}" + text("_metadata") + b"}s\x86b.",
        ordered + b")R.",
        ordered + command + b"\x85R.",
        ask("collections", "OrderedDict") + b"(]" + command + b"a" + b"tR.",
        ask("collections", "OrderedDict") + b"}b.",
        ask("torch", "FloatStorage") + b")R.",
        ask("torch", "FloatStorage") + command + b"\x85R.",
        tensor + b")R.",
        tensor + command + b"\x85R.",
        tensor + b"}" + text("__call__") + command + b"sb.",
        tensor + tensor + b"\x85R.",
        b"]" + text("x") + b"b.",
        b"}" + text("_metadata") + b"}sb.",
        command + b"Q.",
        b"Ppersistent\n.",
        b"\x82\x01.",
        b"\x83\x01\x00.",
        b"\x84\x01\x00\x00\x00.",
        text("os.system") + command + b"\x85R.",
        text("os") + b"N\x93.",
    ):
        assert refused(lambda program=program: through(zipped(tmp_path / "x.pt", b"\x80\x02" + program)))
        assert not canary.exists()


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (b"", "corrupt"),
        (b".", "does not end with exactly one value"),
        (b"\x80\x02", "corrupt"),
        (b"\x80\x02}", "corrupt"),
        (b"\x80\x00}.", "protocol 0"),
        (b"\x80\x06}.", "protocol 6"),
        (b"\x80\xff}.", "protocol 255"),
        (b"\x80\x02}}.", "does not end with exactly one value"),
        (b"\x80\x02(}.", "does not end with exactly one value"),
        (b"\x80\x02}.}", "bytes after its end"),
        (b"\x80\x02}.\x80\x02}.", "bytes after its end"),
        (b"\x80\x02t.", "a mark that does not exist"),
        (b"\x80\x02u.", "a mark that does not exist"),
        (b"\x80\x02R.", "pops from an empty stack"),
        (b"\x80\x02\x86.", "pops from an empty stack"),
        (b"\x80\x02}(\x86.", "pops from an empty stack"),
        (b"\x80\x02q\x00.", "pops from an empty stack"),
        (b"\x80\x04\x94.", "pops from an empty stack"),
        (b"\x80\x02h\x05.", "memo entry 5, which does not exist"),
        (b"\x80\x02j\xff\xff\xff\xff.", "memo entry 4294967295, which does not exist"),
        (b"\x80\x02}K\x01a.", "appends to a dict"),
        (b"\x80\x02]K\x01K\x02s.", "sets an item of a list"),
        (b"\x80\x02}(K\x01u.", "sets an item of a dict"),
        (b"\x80\x02}K\x01K\x02sK\x01K\x03s.", "is set twice"),
        (b"\x80\x02})K\x01s.", "a tuple as a dict key"),
        (b"\x80\x02}]K\x01s.", "a list as a dict key"),
        (b"\x80\x02})" + b"\x85" * 100_000 + b"K\x01s.", "a tuple as a dict key"),
        (b"\x80\x02)" + b"\x85" * 100_000 + b".", "contains a tuple"),
        (b"\x80\x02]" + b"q\x00h\x00a" * 50_000 + b".", "contains a list"),
        (b"\x80\x02" + b"(" * 100_000 + b".", "does not end with exactly one value"),
        (b"\x80\x02}0.", "opcode POP"),
        (b"\x80\x02}2.", "opcode DUP"),
        (b"\x80\x02(1}.", "opcode POP_MARK"),
        (b"\x80\x02(d.", "opcode DICT"),
        (b"\x80\x02(l.", "opcode LIST"),
        (b"\x80\x02I1\n.", "opcode INT"),
        (b"\x80\x02L1L\n.", "opcode LONG"),
        (b"\x80\x02F1\n.", "opcode FLOAT"),
        (b"\x80\x02S'x'\n.", "opcode STRING"),
        (b"\x80\x02Vx\n.", "opcode UNICODE"),
        (b"\x80\x03C\x01x.", "opcode SHORT_BINBYTES"),
        (b"\x80\x04\x8f.", "opcode EMPTY_SET"),
        (b"\x80\x05\x97.", "opcode NEXT_BUFFER"),
        (b"\x80\x05\x96" + b"\xff" * 8 + b".", "corrupt"),
        (b"\x80\x02X\xff\xff\xff\xff.", "corrupt"),
        (b"\x80\x04\x8d" + b"\xff" * 8 + b".", "corrupt"),
        (b"\x80\x02X\x01\x00\x00\x00\xff.", "corrupt"),
        (b"\x80\x02\x8b\xff\xff\xff\x7f.", "corrupt"),
        (b"\x80\x02I" + b"9" * 5000 + b"\n.", "corrupt"),
        (b"\x80\x02cos\n", "corrupt"),
        (b"\x80\x02c\xff\n\xff\n.", "corrupt"),
        (b"\x80\x02\xfe.", "corrupt"),
    ],
    ids=lambda x: repr(x[:20]) if isinstance(x, bytes) else x,
)
def test_a_program_that_makes_no_sense_is_refused(tmp_path: Path, program: bytes, reason: str) -> None:
    assert reason in refused(lambda: through(zipped(tmp_path / "x.pt", program)))


def test_attributes_are_set_on_nothing_but_for_the_known_one() -> None:
    ordered, metadata = ask("collections", "OrderedDict") + b")R", text("_metadata")
    assert interpret(b"\x80\x02" + ordered + b"}" + metadata + b"}sb.", Path("x")) == OrderedDict()
    for program in (
        ordered + b"}" + text("__class__") + b"}sb.",
        ordered + b"}" + metadata + b"}s" + text("keys") + b"}sb.",
        ordered + b"}b.",
        ordered + b"Nb.",
        ordered + b"}" + metadata + b"}sN\x86b.",
        b"}}" + metadata + b"}sb.",
        b"]}" + metadata + b"}sb.",
        ask("torch", "FloatStorage") + b"}" + metadata + b"}sb.",
    ):
        message = refused(lambda program=program: interpret(b"\x80\x02" + program, Path("x")))
        assert "sets attributes of a" in message


def test_a_program_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opcodes, "OPCODES", 100)
    assert "more than 100 opcodes" in refused(lambda: interpret(b"\x80\x02" + b"N" * 200 + b".", Path("x")))
    assert interpret(b"\x80\x02}" + b"K\x01K\x02s.", Path("x")) == {1: 2}


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_random_programs_give_plain_values_or_are_refused(data: st.DataObject) -> None:
    good = program_of(everything())
    place = data.draw(st.integers(0, len(good)))
    cut = data.draw(st.integers(0, 8))
    changed = good[:place] + data.draw(st.binary(max_size=6)) + good[place + cut :]
    HEARD.clear()
    ARMED[0] = True
    try:
        found = interpret(changed, Path("x"))
    except CheckpointError:
        return
    finally:
        ARMED[0] = False
        assert HEARD == []
    assert type(found) in (dict, OrderedDict, list, tuple, str, int, float, bool, type(None), *MACHINE)


MACHINE = (opcodes.Global, opcodes.Storage, opcodes.View)


def program_of(state: Any) -> bytes:
    file = io.BytesIO()
    torch.save(state, file)
    with zipfile.ZipFile(file) as archive:
        return archive.read("archive/data.pkl")
