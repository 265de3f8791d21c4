"""What a model file says of its family: its parts, what it takes, what it can learn and do, how a lens reads it.

Everything above the models asks this row and knows no family by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal

from regard.deprecation import resolve_renamed

if TYPE_CHECKING:  # a row names its net without it
    from torch import Tensor, nn


def always(_: nn.Module) -> bool:
    return True


def with_keys(config: Any, changes: Mapping[str, Any]) -> Any:
    return replace(config, **changes)


@dataclass(frozen=True)
class Lens:
    """What follows the last block of a net, which the logit lens applies after each block."""

    streams: Callable[[Any], str]  # the net's taps after its blocks
    read: Callable[[Any, Tensor], Tensor]  # the net and a stream, (b, n, d) -> (b, n, v) or (b, c)
    headed: Callable[[Any], bool] = always  # whether this net has the head that reads
    beside: Callable[[Any], str] | None = None  # the tap of what is read after the stream, and no longer changes


@dataclass(frozen=True, kw_only=True)
class Family:
    """A model family. ``takes``: the media of the inputs, in order. ``tasks``: the training tasks that it supports.
    ``verbs``: what a model with this config, trained for this task, can do."""

    config: type
    net: Callable[[Any], nn.Module]
    presets: Mapping[str, Any]
    axes: Mapping[str, tuple[str, str]]  # what the rows and columns of its maps stand for
    paper: str
    link: str
    takes: tuple[str, ...]
    tasks: tuple[str, ...]
    verbs: Callable[[Any, str | None], tuple[str, ...]]
    example: Callable[[], Any]  # a small config, quick to build and to train
    lens: Lens | None = None  # none where a stack of blocks does not end in one head
    papers: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # of presets that have another
    offered: Mapping[str, int] = field(default_factory=dict)  # presets that the page offers untrained, and their sizes
    tagged: Literal["first", "last"] = "first"  # the piece of a word that has read all of it
    grid: Callable[[Any], tuple[int, int]] | None = None  # of its config: rows and columns of learned ``positions``
    reconfigured: Callable[[Any, Mapping[str, Any]], Any] = with_keys  # its config for trained weights, keys changed
    compared: str = ""  # how it is put to work by `regard compare`: "package.module:function", if it can be
    inputs: Callable[[Any, int], Mapping[str, Tensor]] | None = None  # of a config, a random batch of so many by name
    answers: tuple[str, ...] = ("", "logits")  # what its heads give, in the net's output; "" is an output of one tensor

    def has(self, key: str) -> bool:
        """Whether its config has this key."""
        return any(one.name == key for one in fields(self.config))

    def get(self, config: Any, key: str) -> Any:
        """The value of a key that not every config has, or None."""
        return getattr(config, key) if self.has(key) else None


def translator_verbs(config: Any, task: str | None) -> tuple[str, ...]:
    """The verbs of an encoder-decoder model, unless it was trained for another task."""
    return ("translate",) if task in (None, "translate") else ()


def generator_verbs(config: Any, task: str | None) -> tuple[str, ...]:
    return ("generate",)


def classifier_verbs(config: Any, task: str | None) -> tuple[str, ...]:
    """The verbs of a classifier; without classes, only features."""
    return ("classify",) if config.classes else ()


def no_verbs(config: Any, task: str | None) -> tuple[str, ...]:
    return ()


def has_head(net: Any) -> bool:
    return net.head is not None


def class_logits(net: Any, stream: Tensor) -> Tensor:
    """The classes of an image, from its tokens after a block."""
    found: Tensor = net.classified(net.norm(stream))
    return found


def block_streams(_: nn.Module) -> str:
    return "blocks.*.stream"


def decoder_streams(_: nn.Module) -> str:
    return "decoder.*.stream"


def look_streams(_: nn.Module) -> str:
    return "looks.*.stream"


def last_stage(net: Any) -> str:
    """Earlier ones are of another width, or what follows them is no sum."""
    return f"stages.{len(net.stages) - 1}.blocks.*.stream"


def apply_norm(norm: nn.Module | None, stream: Tensor) -> Tensor:
    """Post-norm ends in a norm by itself."""
    found: Tensor = stream if norm is None else norm(stream)
    return found


def __getattr__(name: str) -> object:
    return resolve_renamed(__name__, name, {"classifies": "regard.models.family.classifier_verbs"})
