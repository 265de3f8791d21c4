"""A foreign config, read so that no key goes unnoticed: each is taken, known to be irrelevant, or an error.

A key that is absent means what the reference assumes (``defaults``), never a default of ours.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from regard.nn.config import fits_type, type_words
from regard.storage.untrusted import quote_name

from .defaults import ReferenceDefaults
from .retired import HARMLESS, equals, is_harmless

T = TypeVar("T", bool, int, float, str)

SAME = {"max_sequence_length": "max_position_embeddings"}  # older names, written beside the newer ones
LARGEST_SIDE = 1 << 16  # of an image, in pixels
ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_python_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_accurate": "gelu_tanh",
    "quick_gelu": "quick_gelu",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}
THEIR_ACTIVATIONS = {x: x for x in ("gelu", "quick_gelu", "relu", "silu", "tanh")} | {"gelu_tanh": "gelu_new"}


class ForeignConfig:
    """Reads a foreign config.json key by key and collects every problem for one error.

    ``tensors`` is how many tensors there are beside it, if that is known: no config has more layers.
    """

    def __init__(self, given: Mapping[str, Any], tensors: int | None = None) -> None:
        self.given, self.tensors = given, tensors
        self.data = dict(given)  # and what the reference assumes where nothing is given
        self.assumed: Mapping[str, Any] = {}
        self.read: set[str] = set()
        self.sizes: dict[str, int] = {}
        self.pairs: list[tuple[str, str]] = []  # sizes of which one must divide the other
        self.wrong: set[str] = set()  # keys whose value could not be taken
        self.problems: list[str] = []
        self.guessed = False  # a value could not be taken, so whatever follows from the config is wrong

    def assume(self, defaults: ReferenceDefaults) -> None:
        """What the reference assumes of keys that are absent; call it before any key is read."""
        self.assumed = defaults.keys
        self.data = {**defaults.keys, **self.given}
        for alias, key in defaults.aliases.items():
            if alias in self.given:
                self.read.add(alias)
                value = self.data.setdefault(key, self.given[alias])
                if not equals(value, self.given[alias]):
                    told = f"{alias} = {self.given[alias]!r}"[:100]
                    self.guess(f"{told} is another name of {key}, which is {value!r}"[:200])

    def take(self, key: str, kind: type[T]) -> T:
        return self.checked(key, kind, lambda value: True, "")

    def size(self, key: str, *, least: int = 1) -> int:
        """A positive integer, at least ``least``."""
        self.sizes[key] = self.checked(key, int, lambda value: value >= least, f"at least {least}")
        return self.sizes[key]

    def optional_size(self, key: str) -> int | None:
        """The same, or None where nothing is told."""
        self.read.add(key)
        return None if self.data.get(key) is None else self.size(key)

    def side(self, key: str) -> int:
        """The side of a square image or patch, as one number or as two equal ones."""
        value: Any = self.data.get(key)
        if isinstance(value, list | tuple) and len(value) == 2 and equals(value[0], value[1]):
            self.data[key] = value[0]
        return self.pixels(key)

    def pixels(self, key: str) -> int:
        """The side of an image, as one number."""
        found = self.size(key)
        if found > LARGEST_SIDE:
            self.wrong.add(key)
            self.guess(f"{key} = {found} must be at most {LARGEST_SIDE} pixels")
        return found

    def depth(self, key: str) -> int:
        """The number of layers, at most the number of tensors of the checkpoint."""
        value = self.size(key)
        if self.tensors is not None and value > self.tensors:
            self.guess(f"{key} = {value} is more layers than the checkpoint has tensors, {self.tensors}")
        return value

    def several(self, key: str, *, stages: int | None = None) -> tuple[int, ...]:
        """A list of positive integers, one for each of ``stages`` stages, or of any number of stages."""
        self.read.add(key)
        value: Any = self.data.get(key)
        plain = isinstance(value, list | tuple) and 0 < len(value) <= 100 and stages in (None, len(value))
        if not plain or not all(type(x) is int and 1 <= x < 1 << 40 for x in value):
            self.wrong.add(key)
            many = "integers" if stages is None else f"{stages} integers"
            self.guess(f"{key} = {value!r}"[:100] + f" is not a list of {many}, each at least 1")
            return (1,) * (stages or 1)
        return tuple(value)

    def depths(self, key: str, *, stages: int | None = None) -> tuple[int, ...]:
        """The number of layers of each stage, in all at most the number of tensors of the checkpoint."""
        value = self.several(key, stages=stages)
        if self.tensors is not None and sum(value) > self.tensors:
            self.guess(
                f"{key} = {list(value)}"[:100] + f" is more layers than the checkpoint has tensors, {self.tensors}"
            )
        return value

    def times(self, key: str, dim: int) -> int:
        """The number of hidden units, given as a multiple of the hidden size."""
        found = self.above_zero(key) * dim
        if not 1 <= found < 1 << 40 or found != int(found):
            self.guess(f"{key} = {self.data.get(key)!r}"[:100] + f" times {dim} is not an integer")
            return 1
        return int(found)

    def classes(self, *, least: int = 0) -> int:
        """The number of classes, from their names or their count: two where neither is told."""
        self.read.update(("id2label", "num_labels"))
        labels, count = self.data.get("id2label"), self.data.get("num_labels")
        if not isinstance(labels, dict):
            self.data["num_labels"] = 2 if count is None else count
            return self.size("num_labels", least=least)
        if count is not None and not equals(count, len(labels)):
            self.guess(f"num_labels = {count!r}"[:100] + f", but id2label has {len(labels)} names")
        return len(labels)

    def architecture(self) -> str:
        """The name of the class that the weights were saved from; empty where there is none."""
        told = self.data.get("architectures")
        return str(told[0]) if isinstance(told, list) and told else ""

    def share(self, key: str) -> float:
        """A probability."""
        return self.checked(key, float, lambda value: 0 <= value < 1, "at least 0 and less than 1")

    def above_zero(self, key: str) -> float:
        return self.checked(key, float, lambda value: value > 0, "greater than 0")

    def divides(self, part: str, whole: str) -> None:
        """The size ``whole`` must be a multiple of ``part``; looked at when both were read."""
        self.pairs.append((part, whole))

    def checked(self, key: str, kind: type[T], right: Callable[[T], bool], wanted: str) -> T:
        self.read.add(key)
        value: Any = self.data.get(key)
        fitting = fits_type(value, kind)
        if fitting and right(kind(value)):
            return kind(value)
        self.wrong.add(key)
        told = f"{key} = {value!r}"[:100] + (f" must be {wanted}" if fitting else f" is not {type_words(kind)}")
        self.guess(f"{key} is missing" if value is None else told)
        return kind(1)  # never used: an error follows

    def guess(self, problem: str) -> None:
        self.problems.append(problem)
        self.guessed = True

    def expect(self, key: str, *values: object) -> None:
        """A key that must be absent or have one of the supported values."""
        self.read.add(key)
        if key in self.data and not any(equals(self.data[key], value) for value in values):
            allowed = " or ".join(repr(value) for value in values)
            self.problems.append(f"{key} = {self.data[key]!r}"[:100] + f" is not supported, expected {allowed}")

    def same(self, key: str, other: str, *values: object) -> None:
        """A key that, like ``expect``, must have the size that was read from another one."""
        self.expect(key, self.data.get(key) if other in self.wrong else self.sizes[other], *values)

    def activation(self, key: str) -> str:
        theirs = self.take(key, str)
        if theirs not in ACTIVATIONS and key not in self.wrong:
            self.problems.append(f"{key} = {theirs[:60]!r} is not supported, expected {', '.join(ACTIVATIONS)}")
        return ACTIVATIONS.get(theirs, "gelu")

    def ignore(self, *keys: str) -> None:
        """Keys of this kind of model that change nothing it computes."""
        self.read.update(keys)

    def finish(self) -> list[str]:
        """All problems, by key; call it once, when all keys were read."""
        for part, whole in self.pairs:
            if not self.wrong & {part, whole} and self.sizes[whole] % self.sizes[part]:
                self.guess(f"{whole} = {self.sizes[whole]} is not a multiple of {part} = {self.sizes[part]}")
        return self.problems + [self.unread(key) for key in self.given if not self.is_passed_over(key)]

    def is_passed_over(self, key: str) -> bool:
        value = self.given[key]
        usual = key in self.assumed and equals(value, self.assumed[key])
        same = key in SAME and equals(value, self.given.get(SAME[key]))
        return key in self.read or usual or same or is_harmless(key, value)

    def unread(self, key: str) -> str:
        """A key that no reader knows, or only with its usual value."""
        usual = [self.assumed[key]] if key in self.assumed else HARMLESS.get(key, ())
        if not usual:
            return f"unknown key {quote_name(key)} = {str(self.given[key])[:60]!r}"
        allowed = " or ".join(repr(value) for value in usual)
        return f"{key} = {self.given[key]!r}"[:100] + f" is not supported, expected {allowed}"


def default_labels(classes: int) -> dict[str, Any]:
    """The names that they give to classes that have none."""
    labels = {str(i): f"LABEL_{i}" for i in range(classes)}
    return {"id2label": labels, "label2id": {label: int(i) for i, label in labels.items()}}
