"""A machine for the programs inside PyTorch's files, which builds plain values and descriptions of tensors.

Such a program (a pickle) has opcodes that may call anything. This machine knows dicts, lists, tuples, plain values and
the few names that a state dict of tensors needs; those names are compared as text and never imported.
"""

import io
import pickletools
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from regard.errors import CheckpointError
from regard.storage.untrusted import is_integer, quote_name, refuse_file

OPCODES = 2_000_000
# What the standard library's readers raise for bytes that make no sense.
DAMAGE = (zipfile.BadZipFile, struct.error, ValueError, NotImplementedError, EOFError, RuntimeError, OverflowError)

ORDERED = "collections OrderedDict"
TENSOR, OLD_TENSOR = "torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_tensor"
PARAMETER = "torch._utils _rebuild_parameter"


@dataclass(frozen=True)
class ElementType:
    """An element type: its name in safetensors and its bytes."""

    name: str
    size: int


STORAGES = {
    "torch DoubleStorage": ElementType("F64", 8),
    "torch FloatStorage": ElementType("F32", 4),
    "torch HalfStorage": ElementType("F16", 2),
    "torch BFloat16Storage": ElementType("BF16", 2),
    "torch LongStorage": ElementType("I64", 8),
    "torch IntStorage": ElementType("I32", 4),
    "torch ShortStorage": ElementType("I16", 2),
    "torch CharStorage": ElementType("I8", 1),
    "torch ByteStorage": ElementType("U8", 1),
    "torch BoolStorage": ElementType("BOOL", 1),
    "torch ComplexFloatStorage": ElementType("C64", 8),
}


@dataclass(frozen=True)
class Global:
    """A name that the program asked for. It is only ever compared, never looked up."""

    name: str


@dataclass(frozen=True)
class Storage:
    """A flat run of elements, in the zip entry ``data/key``, or behind the programs of an older file."""

    kind: ElementType
    key: str
    count: int


@dataclass(frozen=True)
class View:
    """A tensor: a strided window on a storage."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]

    @property
    def size(self) -> int:
        """In bytes."""
        return prod(self.shape) * self.storage.kind.size


def interpret(program: bytes, source: Path) -> object:
    """What a program would build, if it asks only for what a state dict needs, and there is nothing behind it."""
    stream = io.BytesIO(program)
    found = interpret_next(stream, source)
    if stream.tell() != len(program):
        refuse_file(source, "the pickle program has bytes after its end")
    return found


def interpret_next(stream: io.BytesIO, source: Path) -> object:
    """The same of the next of several programs; the stream then stands behind it."""
    machine = Machine(source)
    try:
        for count, (opcode, argument, _) in enumerate(pickletools.genops(stream)):
            if count >= OPCODES:
                refuse_file(source, f"the pickle program has more than {OPCODES} opcodes")
            if (step := STEPS.get(opcode.name)) is None:
                refuse_file(source, f"the pickle program has the opcode {opcode.name}, which no state dict needs")
            step(machine, argument)
    except CheckpointError:
        raise
    except DAMAGE as error:
        refuse_file(source, f"the pickle program is corrupt: {ascii(str(error))[1:-1][:200]}")
    if len(machine.stack) != 1 or machine.marks:
        refuse_file(source, "the pickle program does not end with exactly one value")
    return machine.stack[0]


class Machine:
    """A stack, marks and a memo. It builds plain values and descriptions of tensors, and calls nothing."""

    def __init__(self, source: Path) -> None:
        self.source = source
        self.stack: list[object] = []
        self.marks: list[list[object]] = []  # the stacks that lie under each mark
        self.memo: dict[int, object] = {}

    def push(self, value: object) -> None:
        self.stack.append(value)

    def protocol(self, version: int) -> None:
        if version not in (2, 3, 4, 5):
            refuse_file(self.source, f"unsupported pickle protocol {version}", expected="2 to 5")

    def mark(self) -> None:
        self.marks.append(self.stack)
        self.stack = []

    def top(self) -> object:
        if not self.stack:
            refuse_file(self.source, "the pickle program pops from an empty stack")
        return self.stack[-1]

    def pop(self) -> object:
        value = self.top()
        self.stack.pop()
        return value

    def pop_to_mark(self) -> list[object]:
        if not self.marks:
            refuse_file(self.source, "the pickle program pops to a mark that does not exist")
        items, self.stack = self.stack, self.marks.pop()
        return items

    def pop_several(self, count: int) -> list[object]:
        """The last ones, in the order in which they were pushed."""
        if len(self.stack) < count:
            refuse_file(self.source, "the pickle program pops from an empty stack")
        items = self.stack[-count:]
        del self.stack[-count:]
        return items

    def push_tuple(self, items: list[object]) -> None:
        self.stack.append(tuple(items))

    def put(self, place: int) -> None:
        self.memo[place] = self.top()

    def get(self, place: int) -> None:
        if place not in self.memo:
            refuse_file(self.source, f"the pickle program reads memo entry {place}, which does not exist")
        self.stack.append(self.memo[place])

    def append(self, items: list[object]) -> None:
        target = self.top()
        if not isinstance(target, list):
            refuse_file(self.source, f"the pickle program appends to a {type(target).__name__}")
        target.extend(items)

    def set_items(self, items: list[object]) -> None:
        target = self.top()
        if not isinstance(target, dict) or len(items) % 2:
            refuse_file(self.source, f"the pickle program sets an item of a {type(target).__name__}")
        for key, value in zip(items[::2], items[1::2], strict=True):
            # Plain keys only: the hash of a tuple nested a million deep would break the interpreter itself.
            if not isinstance(key, str | int | float | None):
                refuse_file(self.source, f"the pickle program uses a {type(key).__name__} as a dict key")
            if key in target:
                refuse_file(self.source, f"the dict key {quote_name(key)} is set twice")
            target[key] = value

    def ask(self, name: str) -> None:
        if name not in (ORDERED, TENSOR, OLD_TENSOR, PARAMETER) and name not in STORAGES:
            refuse_file(
                self.source,
                f"the pickle program imports {quote_name(name.replace(' ', '.', 1))}, which no state dict needs",
                expected="tensors, parameters and plain values only",
                fix="do not load this file with other tools; use safetensors, or save only the state dict",
            )
        self.stack.append(Global(name))

    def ask_by_stack(self) -> None:
        attribute, module = self.pop(), self.pop()
        if not isinstance(attribute, str) or not isinstance(module, str):
            refuse_file(self.source, "the pickle program imports an object whose name is not a string")
        self.ask(f"{module} {attribute}")

    def storage(self, identity: object) -> Storage:
        match identity:
            case ("storage", Global(name), str(key), str(), count) if name in STORAGES and is_integer(count):
                return Storage(STORAGES[name], key, count)
            case ("storage", Global(name), str(key), str(), count, None) if name in STORAGES and is_integer(count):
                return Storage(STORAGES[name], key, count)  # of older files, whose storages may be views of others
        refuse_file(self.source, "the pickle program has an unknown form of storage reference")

    def call(self, function: object, arguments: object) -> object:
        """Return what three supported functions would return. None of them is called."""
        match function, arguments:
            case Global(name), () if name == ORDERED:
                return OrderedDict()
            case Global(name), (
                Storage() as storage,
                int(offset),
                tuple(shape),
                tuple(stride),
                bool(),
                dict(hooks),
            ) if name == TENSOR and not hooks and all(is_integer(x) for x in (offset, *shape, *stride)):
                return View(storage, offset, shape, stride)
            case Global(name), (Storage() as storage, int(offset), tuple(shape), tuple(stride)) if (
                name == OLD_TENSOR and all(is_integer(x) for x in (offset, *shape, *stride))
            ):
                return View(storage, offset, shape, stride)
            case Global(name), (View() as view, bool(), dict(hooks)) if name == PARAMETER and not hooks:
                return view
        name = (
            quote_name(function.name.replace(" ", ".", 1)) if isinstance(function, Global) else type(function).__name__
        )
        refuse_file(self.source, f"the pickle program calls {name} with arguments that no state dict needs")

    def build(self, state: object) -> None:
        """Module.state_dict() hangs its `_metadata` on the dict as an attribute: known, and not needed."""
        target = self.top()
        if type(target) is not OrderedDict or not isinstance(state, dict) or list(state) != ["_metadata"]:
            refuse_file(self.source, f"the pickle program sets attributes of a {type(target).__name__}")


# All the opcodes that there are, for this reader.
STEPS: dict[str, Callable[[Machine, Any], None]] = {
    "PROTO": Machine.protocol,
    "FRAME": lambda machine, _: None,
    "STOP": lambda machine, _: None,
    "NONE": lambda machine, _: machine.push(None),
    "NEWTRUE": lambda machine, _: machine.push(True),
    "NEWFALSE": lambda machine, _: machine.push(False),
    "BININT": Machine.push,
    "BININT1": Machine.push,
    "BININT2": Machine.push,
    "LONG1": Machine.push,
    "BINFLOAT": Machine.push,
    "BINSTRING": Machine.push,
    "SHORT_BINSTRING": Machine.push,
    "BINUNICODE": Machine.push,
    "SHORT_BINUNICODE": Machine.push,
    "BINUNICODE8": Machine.push,
    "EMPTY_DICT": lambda machine, _: machine.push({}),
    "EMPTY_LIST": lambda machine, _: machine.push([]),
    "EMPTY_TUPLE": lambda machine, _: machine.push(()),
    "MARK": lambda machine, _: machine.mark(),
    "TUPLE": lambda machine, _: machine.push_tuple(machine.pop_to_mark()),
    "TUPLE1": lambda machine, _: machine.push_tuple(machine.pop_several(1)),
    "TUPLE2": lambda machine, _: machine.push_tuple(machine.pop_several(2)),
    "TUPLE3": lambda machine, _: machine.push_tuple(machine.pop_several(3)),
    "APPEND": lambda machine, _: machine.append(machine.pop_several(1)),
    "APPENDS": lambda machine, _: machine.append(machine.pop_to_mark()),
    "SETITEM": lambda machine, _: machine.set_items(machine.pop_several(2)),
    "SETITEMS": lambda machine, _: machine.set_items(machine.pop_to_mark()),
    "BINPUT": Machine.put,
    "LONG_BINPUT": Machine.put,
    "MEMOIZE": lambda machine, _: machine.put(len(machine.memo)),
    "BINGET": Machine.get,
    "LONG_BINGET": Machine.get,
    "GLOBAL": Machine.ask,
    "STACK_GLOBAL": lambda machine, _: machine.ask_by_stack(),
    "BINPERSID": lambda machine, _: machine.push(machine.storage(machine.pop())),
    "REDUCE": lambda machine, _: machine.push(machine.call(*machine.pop_several(2))),
    "BUILD": lambda machine, _: machine.build(machine.pop()),
}
