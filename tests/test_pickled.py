"""The restricted reader of PyTorch files: good ones come back equal, hostile ones run nothing and are named."""

import io
import json
import os
import pickle  # only as the trusting reader that the hostile files are aimed at
import struct
import subprocess
import sys
import warnings
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from regard.errors import CheckpointError
from regard.interop import opcodes, pickled
from regard.interop.files import weights_in
from regard.interop.opcodes import interpret
from regard.interop.pickled import read_pickled, rewrite

# Whatever starts a program, runs code, opens a connection or resolves a pickled name is noted while ``armed``.
WATCHED = (
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
    "subprocess.Popen",
    "pickle.find_class",
    "exec",
    "compile",
)
HEARD: list[str] = []
ARMED = [False]


def listen(event: str, _: tuple[Any, ...]) -> None:
    if ARMED[0] and (event in WATCHED or event.startswith("socket.")):
        HEARD.append(event)


sys.addaudithook(listen)
for codec in ("ascii", "cp437", "raw_unicode_escape", "unicode_escape", "latin-1"):
    "".encode(codec)  # a codec is a module, and the first use of one would be heard as an exec


def through(path: Path) -> dict[str, Tensor]:
    """The child's work, in this process."""
    target = path.with_name(f"{path.name}.out")
    target.unlink(missing_ok=True)
    HEARD.clear()
    ARMED[0] = True
    try:
        rewrite(path, target)
    finally:
        ARMED[0] = False
        assert HEARD == []
    return weights_in(target).read()


def same(one: dict[str, Tensor], two: dict[str, Tensor]) -> bool:
    alike = one.keys() == two.keys() and all(one[name].dtype == two[name].dtype for name in one)
    return alike and all(torch.equal(one[name], two[name]) for name in one)


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(CheckpointError) as caught:
        call()
    return str(caught.value)


def zipped(path: Path, program: bytes, storages: dict[str, bytes] | None = None, **more: bytes) -> Path:
    """A PyTorch file by hand."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("x/data.pkl", program)
        for key, data in (storages or {}).items():
            archive.writestr(f"x/data/{key}", data)
        for name, data in more.items():
            archive.writestr(f"x/{name}", data)
    return path


# ------------------------------------------------------------------------------------------------------- good files


def everything() -> "OrderedDict[str, Tensor]":
    torch.manual_seed(0)
    x = torch.randn(4, 6)
    return OrderedDict(
        plain=x,
        shared=x,
        transposed=x.T,
        window=x[1:3, ::2],
        row=x[2],
        number=x[3, 5],
        permuted=torch.randn(2, 3, 4, 5).permute(3, 1, 0, 2),
        wide=torch.randn(1, 3).expand(5, 3),
        empty=torch.empty(0, 3),
        half=torch.randn(3).half(),
        brain=torch.randn(3).bfloat16().reshape(3, 1),
        double=torch.randn(3).double(),
        long=torch.tensor([-1, 2**40]),
        int=torch.arange(3, dtype=torch.int32),
        short=torch.arange(3, dtype=torch.int16),
        char=torch.tensor([-1, 1], dtype=torch.int8),
        byte=torch.tensor([255, 1], dtype=torch.uint8),
        bool=torch.tensor([True, False]),
        complex=torch.randn(2, dtype=torch.complex64),
        parameter=nn.Parameter(torch.randn(2)),
        frozen=nn.Parameter(torch.randn(2), requires_grad=False),
        image=torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last),
    )


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_all_that_a_state_dict_can_hold_comes_back_equal(tmp_path: Path, protocol: int) -> None:
    torch.save(everything(), tmp_path / "x.pt", pickle_protocol=protocol)
    assert same(through(tmp_path / "x.pt"), {name: x.detach() for name, x in everything().items()})


def test_the_state_dict_of_a_module_with_its_metadata(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Embedding(5, 2))
    torch.save(net.state_dict(), tmp_path / "x.bin")
    assert same(through(tmp_path / "x.bin"), dict(net.state_dict()))


def test_a_plain_dict_and_names_of_any_script(tmp_path: Path) -> None:
    state = {"größe.重み": torch.ones(2), "a b": torch.zeros(1)}
    torch.save(state, tmp_path / "x.pt")
    assert same(through(tmp_path / "x.pt"), state)


@pytest.mark.parametrize("key", ["state_dict", "model"])
def test_a_nested_state_dict_is_found_among_other_things(tmp_path: Path, key: str) -> None:
    net = nn.Linear(3, 2)
    optimizer = torch.optim.Adam(net.parameters())
    net(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    others = {
        "epoch": 3,
        "best": 0.5,
        "done": False,
        "note": None,
        "history": [1, (2, "x")],
        "optimizer": optimizer.state_dict(),
    }
    torch.save({**others, key: net.state_dict()}, tmp_path / "x.pt")
    assert same(through(tmp_path / "x.pt"), dict(net.state_dict()))


def test_a_state_dict_that_is_not_alone_or_not_one_is_refused_with_its_keys(tmp_path: Path) -> None:
    path, one = tmp_path / "x.pt", {"w": torch.ones(1)}
    for value, wanted in (
        ({"state_dict": one, "model": one}, ("has two under", "'state_dict': a dict of 1", "'model': a dict of 1")),
        ({"weights": one, "epoch": 3}, ("has none under", "'weights': a dict of 1", "'epoch': int")),
        ({"w": torch.ones(1), "epoch": 3}, ("'w': a tensor", "'epoch': int")),
        ({"model": {"w": torch.ones(1), "n": 1}}, ("'model': a dict of 2",)),
        ({"model": {"deeper": one}}, ("'model': a dict of 1",)),
        ({"model": {}}, ("'model': a dict of 0",)),
        ({}, ("no keys",)),
        ([torch.ones(1)], ("holds a list",)),
        (torch.ones(1), ("holds a View",)),
        ({1: torch.ones(1)}, ("cannot be a tensor's name",)),
        ({"": torch.ones(1)}, ("cannot be a tensor's name",)),
        ({"__metadata__": torch.ones(1)}, ("'__metadata__' cannot be",)),
        ({"\x1b[2J": torch.ones(1)}, ("'\\x1b[2J' cannot be",)),
        ({"\ud800": torch.ones(1)}, ("'\\ud800' cannot be",)),
        ({"n" * 1001: torch.ones(1)}, ("cannot be a tensor's name",)),
    ):
        torch.save(value, path)
        text = refused(lambda: through(path))
        assert all(x in text for x in wanted), text


shapes = st.lists(st.integers(0, 4), max_size=4)
dtypes = st.sampled_from([torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_views_of_any_storages_come_back_equal(tmp_path: Path, data: st.DataObject) -> None:
    state: dict[str, Tensor] = {}
    for i in range(data.draw(st.integers(1, 4))):
        shape = data.draw(shapes)
        base = (torch.randn(shape) * 3).to(data.draw(dtypes))
        for j in range(data.draw(st.integers(1, 3))):
            view = base.permute(data.draw(st.permutations(range(base.ndim))))
            for axis in range(view.ndim):
                start = data.draw(st.integers(0, view.shape[axis]))
                step = data.draw(st.integers(1, 3))
                view = view[(slice(None),) * axis + (slice(start, None, step),)]
            state[f"{i}.{j}"] = view
    torch.save(state, tmp_path / "x.pt")
    assert same(through(tmp_path / "x.pt"), state)


# --------------------------------------------------------------------------------------------------- hostile programs


def text(value: str) -> bytes:
    raw = value.encode()
    return b"X" + struct.pack("<I", len(raw)) + raw


def ask(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode()


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
    ("torch._utils", "_rebuild_tensor"),
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


def programs(module: str, name: str, argument: bytes) -> dict[str, bytes]:
    """All the ways in which a program can call something with one text."""
    both, call = text(module) + text(name), ask(module, name) + argument + b"\x85R"
    ordered = ask("collections", "OrderedDict") + b")R"
    return {
        "reduce": b"\x80\x02" + ask(module, name) + argument + b"\x85R.",
        "stack global": b"\x80\x04" + both + b"\x93" + argument + b"\x85R.",
        "short stack global": b"\x80\x04"
        + b"".join(b"\x8c" + bytes([len(x)]) + x.encode() + b"\x94" for x in (module, name))
        + b"\x93\x94"
        + argument
        + b"\x85\x94R.",
        "inst": b"\x80\x02(" + argument + f"i{module}\n{name}\n.".encode(),
        "obj": b"\x80\x02(" + ask(module, name) + argument + b"o.",
        "newobj": b"\x80\x02" + ask(module, name) + argument + b"\x85\x81.",
        "newobj ex": b"\x80\x04" + ask(module, name) + argument + b"\x85}\x92.",
        "build": b"\x80\x02" + ask(module, name) + b"}" + text("__setstate__") + argument + b"sb.",
        "memo": b"\x80\x02" + ask(module, name) + b"q\x07" + b"0h\x07" + argument + b"\x85R.",
        "hidden": b"\x80\x02}" + text("w") + ask(module, name) + argument + b"\x85Rs.",
        "dropped": b"\x80\x02}" + ask(module, name) + argument + b"\x85R0.",
        "in the metadata": b"\x80\x02" + ordered + b"}" + text("_metadata") + call + b"sb.",
        "as hooks": b"\x80\x02" + ask("torch._utils", "_rebuild_parameter") + call + b"\x89}\x87R.",
        "as persistent": b"\x80\x02" + ask(module, name) + argument + b"\x85RQ.",
    }


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
        (b"", "damaged"),
        (b".", "does not end with one value"),
        (b"\x80\x02", "damaged"),
        (b"\x80\x02}", "damaged"),
        (b"\x80\x00}.", "protocol 0"),
        (b"\x80\x06}.", "protocol 6"),
        (b"\x80\xff}.", "protocol 255"),
        (b"\x80\x02}}.", "does not end with one value"),
        (b"\x80\x02(}.", "does not end with one value"),
        (b"\x80\x02}.}", "bytes after its end"),
        (b"\x80\x02}.\x80\x02}.", "bytes after its end"),
        (b"\x80\x02t.", "a mark where none is"),
        (b"\x80\x02u.", "a mark where none is"),
        (b"\x80\x02R.", "a value where none is"),
        (b"\x80\x02\x86.", "a value where none is"),
        (b"\x80\x02}(\x86.", "a value where none is"),
        (b"\x80\x02q\x00.", "a value where none is"),
        (b"\x80\x04\x94.", "a value where none is"),
        (b"\x80\x02h\x05.", "entry 5 of its memo"),
        (b"\x80\x02j\xff\xff\xff\xff.", "entry 4294967295 of its memo"),
        (b"\x80\x02}K\x01a.", "appends to a dict"),
        (b"\x80\x02]K\x01K\x02s.", "sets an item of a list"),
        (b"\x80\x02}(K\x01u.", "sets an item of a dict"),
        (b"\x80\x02}K\x01K\x02sK\x01K\x03s.", "is set twice"),
        (b"\x80\x02})K\x01s.", "a tuple as a key"),
        (b"\x80\x02}]K\x01s.", "a list as a key"),
        (b"\x80\x02})" + b"\x85" * 100_000 + b"K\x01s.", "a tuple as a key"),
        (b"\x80\x02)" + b"\x85" * 100_000 + b".", "holds a tuple"),
        (b"\x80\x02]" + b"q\x00h\x00a" * 50_000 + b".", "holds a list"),
        (b"\x80\x02" + b"(" * 100_000 + b".", "does not end with one value"),
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
        (b"\x80\x02U\x01x.", "opcode SHORT_BINSTRING"),
        (b"\x80\x03C\x01x.", "opcode SHORT_BINBYTES"),
        (b"\x80\x04\x8f.", "opcode EMPTY_SET"),
        (b"\x80\x05\x97.", "opcode NEXT_BUFFER"),
        (b"\x80\x05\x96" + b"\xff" * 8 + b".", "damaged"),
        (b"\x80\x02X\xff\xff\xff\xff.", "damaged"),
        (b"\x80\x04\x8d" + b"\xff" * 8 + b".", "damaged"),
        (b"\x80\x02X\x01\x00\x00\x00\xff.", "damaged"),
        (b"\x80\x02\x8b\xff\xff\xff\x7f.", "damaged"),
        (b"\x80\x02I" + b"9" * 5000 + b"\n.", "damaged"),
        (b"\x80\x02cos\n", "damaged"),
        (b"\x80\x02c\xff\n\xff\n.", "damaged"),
        (b"\x80\x02\xfe.", "damaged"),
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
        assert "sets the attributes of a" in message


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


# ------------------------------------------------------------------------------------------------ tensors that lie


def number(value: int) -> bytes:
    raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(raw)]) + raw


def numbers(values: tuple[int, ...]) -> bytes:
    return b"(" + b"".join(map(number, values)) + b"t"


def tensor(
    count: int = 6,
    offset: int = 0,
    shape: tuple[int, ...] = (2, 3),
    stride: tuple[int, ...] = (3, 1),
    key: str = "0",
    storage: str = "FloatStorage",
) -> bytes:
    """The program of {"w": a tensor}."""
    identity = b"(" + text("storage") + ask("torch", storage) + text(key) + text("cpu") + number(count) + b"tQ"
    hooks = ask("collections", "OrderedDict") + b")R"
    arguments = b"(" + identity + number(offset) + numbers(shape) + numbers(stride) + b"\x89" + hooks + b"t"
    return b"\x80\x02}" + text("w") + ask("torch._utils", "_rebuild_tensor_v2") + arguments + b"Rs."


SIX = {"0": struct.pack("<6f", *range(6))}


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
        ({"offset": 1}, "reaches element 6 of a storage of 6"),
        ({"offset": 2**62}, "reaches element"),
        ({"offset": -1}, "with arguments that no state dict needs"),
        ({"offset": 2**63}, "with arguments"),
        ({"shape": (3, 3)}, "reaches element 8"),
        ({"shape": (-2, 3)}, "with arguments"),
        ({"shape": (2, 2**63)}, "with arguments"),
        ({"shape": (2**40, 2**40), "stride": (0, 0)}, "impossible shape"),
        ({"shape": (2**40,), "stride": (0,)}, "would take 4398046511104 bytes"),
        ({"shape": (2**62, 0, 2**62), "stride": (0, 0, 0)}, "impossible shape"),
        ({"stride": (3, 2)}, "reaches element 7"),
        ({"stride": (-3, 1)}, "with arguments"),
        ({"stride": (2**62, 1)}, "reaches element"),
        ({"stride": (3,)}, "2 sizes and 1 strides"),
        ({"stride": (3, 1, 1)}, "2 sizes and 3 strides"),
        ({"shape": (1,) * 33, "stride": (1,) * 33}, "33 sizes"),
        ({"shape": (2**62,) * 5000, "stride": (1,) * 5000}, "5000 sizes"),
        ({"count": 7}, "of 28 bytes, the zip has 24"),
        ({"count": 5}, "of 20 bytes, the zip has 24"),
        ({"count": 2**62}, "the zip has 24"),
        ({"count": -6}, "a storage in an unknown way"),
        ({"count": 2**64}, "a storage in an unknown way"),
        ({"storage": "DoubleStorage"}, "of 48 bytes, the zip has 24"),
        ({"storage": "QInt8Storage"}, "torch.QInt8Storage"),
        ({"storage": "UntypedStorage"}, "torch.UntypedStorage"),
        ({"key": "1"}, "which the zip does not have"),
        ({"key": "../data.pkl"}, "which the zip does not have"),
        ({"key": "/etc/passwd"}, "which the zip does not have"),
        ({"key": ""}, "which the zip does not have"),
    ],
    ids=str,
)
def test_a_tensor_that_lies_is_refused_by_name(tmp_path: Path, lie: dict[str, Any], reason: str) -> None:
    message = refused(lambda: through(zipped(tmp_path / "x.pt", tensor(**lie), SIX)))
    assert reason in message
    assert "tensor 'w'" in message or "the program" in message or "the tensors" in message


def test_many_copies_of_a_large_tensor_are_refused_before_they_are_written(tmp_path: Path) -> None:
    x = torch.zeros(2**20)
    torch.save({str(i): x for i in range(30)}, tmp_path / "x.pt")
    assert "far more than the file's" in refused(lambda: through(tmp_path / "x.pt"))
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


# ------------------------------------------------------------------------------------------------------ the zip itself


def test_what_is_not_a_pytorch_zip_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    torch.save({"w": torch.ones(1)}, path, _use_new_zipfile_serialization=False)
    message = refused(lambda: through(path))
    assert "before version 1.6" in message
    assert "save it again" in message
    for data in (b"", b"P", b"PK", b"hello", b"\x89HDF", b"\0" * 100):
        path.write_bytes(data)
        assert "is not a PyTorch file" in refused(lambda: through(path))
    path.write_bytes(b"PK\x03\x04")
    assert "the zip is damaged" in refused(lambda: through(path))
    path.write_bytes(b"PK\x05\x06" + b"\0" * 18)  # an empty zip
    assert "is not a PyTorch file" in refused(lambda: through(path))
    assert "is not there" in refused(lambda: through(tmp_path / "missing.pt"))
    assert "no regular file" in refused(lambda: through(tmp_path))
    os.mkfifo(tmp_path / "pipe.pt")
    assert "no regular file" in refused(lambda: through(tmp_path / "pipe.pt"))


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
        ((program, data, data), "'x/data/0' stands twice"),
        ((program, program, data), "'x/data.pkl' stands twice"),
        ((program, data, ("y/data.pkl", tensor(), stored)), "2 entries */data.pkl"),
        ((data,), "0 entries */data.pkl"),
        ((("data.pkl", tensor(), stored), data), "0 entries */data.pkl"),
        ((("a/b/data.pkl", tensor(), stored),), "0 entries */data.pkl"),
        ((program, data, ("x/constants.pkl", b"", stored)), "TorchScript"),
        ((program, data, ("x/byteorder", b"big", stored)), "big-endian"),
        ((program, ("y/data/0", SIX["0"], stored)), "which the zip does not have"),
    ):
        assert reason in refused(lambda entries=entries: through(archive_with(path, *entries)))


def test_limits_of_the_zip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = zipped(tmp_path / "x.pt", tensor(), SIX)
    assert through(path)
    monkeypatch.setattr(pickled, "ENTRIES", 1)
    assert "2 entries, more than 1" in refused(lambda: through(path))
    monkeypatch.setattr(pickled, "ENTRIES", 2)
    monkeypatch.setattr(pickled, "PROGRAM_BYTES", 10)
    assert "more than 10" in refused(lambda: through(path))


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
    assert "entries claim" in refused(lambda: through(path))


def test_a_damaged_storage_is_refused_by_its_checksum(tmp_path: Path) -> None:
    path = zipped(tmp_path / "x.pt", tensor(), SIX)
    data = path.read_bytes()
    place = data.index(SIX["0"]) + 9
    path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
    assert "'x/data/0' is damaged" in refused(lambda: through(path))


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


# -------------------------------------------------------------------------------------------------- the child process


def test_a_file_is_read_through_the_child(tmp_path: Path) -> None:
    torch.save(everything(), tmp_path / "x.pt")
    found = read_pickled(tmp_path / "x.pt")
    assert same(found, {name: x.detach() for name, x in everything().items()})
    found["plain"].zero_()  # its own memory


def test_a_hostile_file_is_refused_through_the_child_with_its_reason(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    canary = tmp_path / "canary"
    zipped(tmp_path / "x.pt", programs("os", "system", text(f"touch {canary}"))["reduce"])
    message = refused(lambda: read_pickled(tmp_path / "x.pt"))
    assert "x.pt: the program asks for 'os.system'" in message
    assert f"where: {tmp_path / 'x.pt'}" in message
    assert "what to do" in message
    assert not canary.exists()
    assert capfd.readouterr() == ("", "")


def test_modules_beside_the_file_are_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    canary = tmp_path / "canary"
    for name in ("zipfile", "numpy", "pickletools", "regard", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text(f"open({str(canary)!r}, 'w')\n")
    torch.save({"w": torch.ones(1)}, tmp_path / "x.pt")
    monkeypatch.chdir(tmp_path)
    assert read_pickled(Path("x.pt"))["w"].tolist() == [1]
    assert not canary.exists()


def test_the_child_needs_no_torch(tmp_path: Path) -> None:
    torch.save({"w": torch.ones(1)}, tmp_path / "x.pt")
    code = (
        "import sys; from regard.interop.pickled import main; "
        f"code = main([{str(tmp_path / 'x.pt')!r}, {str(tmp_path / 'y')!r}, {str(tmp_path / 'z')!r}]); "
        "import resource; limits = [resource.getrlimit(x)[0] for x in (resource.RLIMIT_AS, resource.RLIMIT_CPU)]; "
        "print(code, 'torch' in sys.modules, max(limits) < 2**32)"
    )
    root = str(Path(pickled.__file__).parents[2])
    env = {**os.environ, "PYTHONPATH": root, "OPENBLAS_NUM_THREADS": "1"}
    out = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout
    assert out.split() == ["0", "False", "True"]
    assert weights_in(tmp_path / "y").read()["w"].tolist() == [1]


class Ended:
    """What a child leaves that died without a word."""

    returncode = -9


def test_a_child_that_dies_hangs_or_cannot_start_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.save({"w": torch.ones(1)}, tmp_path / "x.pt")

    def outcome(value: Any) -> str:
        def run(command: list[str], **options: Any) -> Any:
            assert options["stdout"] == options["stderr"] == subprocess.DEVNULL
            assert "-P" in command  # nor may the working folder be a place to import from
            assert Path(options["cwd"]) not in (tmp_path, Path.cwd())
            if isinstance(value, Exception):
                raise value
            return value

        monkeypatch.setattr(subprocess, "run", run)
        return refused(lambda: read_pickled(tmp_path / "x.pt"))

    assert "code -9" in outcome(Ended())
    assert "longer than 120 seconds" in outcome(subprocess.TimeoutExpired("x", 1))
    assert "could not be started" in outcome(OSError(12, "Cannot allocate memory"))


def test_the_childs_own_failures_become_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, target, report = (tmp_path / x for x in ("x.pt", "out", "report"))
    zipped(path, tensor(), SIX)
    monkeypatch.setattr(pickled, "confine", lambda size: None)

    def outcome() -> str:
        target.unlink(missing_ok=True)
        assert pickled.main([str(path), str(target), str(report)]) == 1
        parts = json.loads(report.read_text())
        assert "where" not in parts
        return str(parts["what"])

    def fail(error: Exception) -> Callable[..., Any]:
        def call(*_: Any) -> Any:
            raise error

        return call

    monkeypatch.setattr(pickled, "gather", fail(MemoryError()))
    assert "more memory" in outcome()
    monkeypatch.setattr(pickled, "gather", fail(OSError(28, "No space left on device")))
    assert "its tensors could not be written: No space left on device" in outcome()
    assert "24 bytes free" in report.read_text()
    path.unlink()
    assert "x.pt: cannot be read: No such file" in outcome()


# --------------------------------------------------------------------------------------------------------- folders


@pytest.fixture
def near(monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders are found the same way without the child, and faster."""
    monkeypatch.setattr(pickled, "read_one", through)


@pytest.mark.usefixtures("near")
def test_a_folder_is_searched_for_its_weights(tmp_path: Path) -> None:
    assert "no PyTorch weights" in refused(lambda: read_pickled(tmp_path))
    assert "is not there" in refused(lambda: read_pickled(tmp_path / "missing"))
    torch.save({"a": torch.ones(1)}, tmp_path / "model.pt")
    assert read_pickled(tmp_path).keys() == {"a"}
    torch.save({"b": torch.ones(1)}, tmp_path / "optimizer.pt")
    message = refused(lambda: read_pickled(tmp_path))
    assert "'model.pt', 'optimizer.pt'" in message
    assert "path of the file itself" in message
    torch.save({"c": torch.ones(1)}, tmp_path / "pytorch_model.bin")
    assert read_pickled(tmp_path).keys() == {"c"}


@pytest.mark.usefixtures("near")
def test_shards_are_read_by_their_index(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(1), "b": torch.ones(2)}, tmp_path / "one.bin")
    torch.save({"c": torch.ones(3)}, tmp_path / "two.bin")
    index = tmp_path / "pytorch_model.bin.index.json"

    def write(weight_map: dict[str, str]) -> None:
        index.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))

    write({"a": "one.bin", "c": "two.bin", "b": "one.bin"})
    found = read_pickled(tmp_path)
    assert [(name, len(x)) for name, x in found.items()] == [("a", 1), ("c", 3), ("b", 2)]
    write({"a": "one.bin", "c": "two.bin", "d": "two.bin"})
    message = refused(lambda: read_pickled(tmp_path))
    assert "'b': in one.bin, but not in the index" in message
    assert "'d': missing from two.bin" in message
    for name in ("../two.bin", "/two.bin", "two.safetensors", "three.bin"):
        write({"a": "one.bin", "b": "one.bin", "c": name})
        assert f"the shard '{name}'" in refused(lambda: read_pickled(tmp_path))
