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
    shapes = [tuple(x.shape for x in one.inputs) for one in several]
    for shape in dict.fromkeys(shapes):
        same = [i for i, own in enumerate(shapes) if own == shape]
        inputs = [torch.cat(column) for column in zip(*(several[i].inputs for i in same), strict=True)]
        output = model.net(*inputs)
        if not isinstance(output, Tensor) and len(same) > 1:  # of several parts, which only their model knows to split
            found |= {i: several[i].tell(model.net(*several[i].inputs)) for i in same}
            continue
        found |= {
            i: several[i].tell(output[j : j + 1] if isinstance(output, Tensor) else output) for j, i in enumerate(same)
        }
    return [found[i] for i in range(len(several))]
