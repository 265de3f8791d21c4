"""Any net, asked with random inputs: what its forward takes, and which of its outputs is the answer."""

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from .family import Family

ANY_SIZE = 8  # of images for a net that takes any


def random_images(row: Family, config: Any, batch: int, n: int) -> Tensor:
    """-> (b, channels, height, width), of the size that the config tells, if it does"""
    side = row.get(config, "image") or ANY_SIZE
    return torch.randn(batch, config.channels, side, side, dtype=torch.float64)


def random_tokens(row: Family, config: Any, batch: int, n: int) -> Tensor:
    """-> (b, n)"""
    return torch.randint(config.vocab, (batch, n))


def random_values(row: Family, config: Any, batch: int, n: int) -> Tensor:
    """-> (b, n)"""
    return torch.randn(batch, n, dtype=torch.float64)


RANDOM_TENSORS = {"image": random_images, "text": random_tokens, "series": random_values}


def random_inputs(row: Family, config: Any, batch: int = 3, n: int = 6) -> dict[str, Tensor]:
    """What the family's forward asks for, by name: a tensor for each medium that it takes, in order; each sequence is
    longer than the one before."""
    if row.inputs is not None:
        return dict(row.inputs(config, batch))
    parameters = inspect.signature(row.net.forward).parameters  # type: ignore[attr-defined]
    names = [name for name, one in parameters.items() if name != "self" and one.default is inspect.Parameter.empty]
    if len(names) != len(row.takes) or not RANDOM_TENSORS.keys() >= set(row.takes):
        got = f"its forward asks for {', '.join(names) or 'nothing'}, and it takes {', '.join(row.takes)}"
        raise ValueError(f"no random inputs are known for the family: {got}; define them with Family(inputs=...)")
    return {name: RANDOM_TENSORS[row.takes[i]](row, config, batch, n + i) for i, name in enumerate(names)}


def as_floats(given: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: x.float() if x.is_floating_point() else x for name, x in given.items()}


def tensors(output: object) -> dict[str, Tensor]:
    """An output as named tensors, whether it is one or a dataclass of some; a number of the batch is none."""
    if isinstance(output, Tensor):
        return {"": output}
    return {name: x for name, x in vars(output).items() if isinstance(x, Tensor) and x.ndim}


def answers_of(row: Family, output: object) -> dict[str, Tensor]:
    """What it answers, of all that it gives, by name: of a net without a head, the first of its tensors."""
    found = tensors(output)
    return {name: found[name] for name in row.answers if name in found} or dict(list(found.items())[:1])


def logits_of(row: Family, output: object) -> Tensor:
    """The first of its answers."""
    return next(iter(answers_of(row, output).values()))
