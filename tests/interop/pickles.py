"""Pickled files made for the tests, honest ones and others."""

import struct
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from regard.errors import CheckpointError
from regard.interop.pickled import rewrite
from regard.storage.tensors import weights_in

HEARD: list[str] = []


ARMED = [False]


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


def text(value: str) -> bytes:
    raw = value.encode()
    return b"X" + struct.pack("<I", len(raw)) + raw


def ask(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode()


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
