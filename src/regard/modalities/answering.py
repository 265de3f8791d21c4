"""What a model says to several examples at once: each gets the answer that it would get alone."""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.look.answers import Answer
from regard.look.examples import Example

from .inputs import ModelView


def answer_all(model: ModelView, several: Sequence[Example]) -> list[Answer | None]:
    """One pass for all whose inputs have the same shapes."""
    found: dict[int, Answer | None] = {}
    shapes = [shapes_of(one) for one in several]
    for shape in dict.fromkeys(shapes):
        same = [i for i, own in enumerate(shapes) if own == shape]
        first = several[same[0]]
        inputs = [torch.cat(column) for column in zip(*(several[i].inputs for i in same), strict=True)]
        named = {name: torch.cat([several[i].named[name] for i in same]) for name in first.named}
        output = model.net(*inputs, **named)
        if not isinstance(output, Tensor) and len(same) > 1:  # of several parts, which only their model knows to split
            found |= {i: several[i].tell(several[i].run(model.net)) for i in same}
            continue
        found |= {
            i: several[i].tell(output[j : j + 1] if isinstance(output, Tensor) else output) for j, i in enumerate(same)
        }
    return [found[i] for i in range(len(several))]


def shapes_of(example: Example) -> tuple[tuple[str, torch.Size], ...]:
    """Of each input, with its name if the net takes it by name."""
    return tuple(("", x.shape) for x in example.inputs) + tuple((name, x.shape) for name, x in example.named.items())
