"""What a model looks at, with the words and patches of its input on the axes of its maps."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from regard.look.changes import Change, apply_changes
from regard.look.maps import look_at
from regard.look.trace import Trace, record_run
from regard.nn.axis import Axis
from regard.zoo import FAMILIES

from .inputs import ModelView, Picture
from .verbs import example_maker


def output_and_maps(model: ModelView, pattern: str, inputs: Sequence[Tensor], named: Mapping[str, Any]) -> Any:
    """Of tensors; the words of a single text stand on its axis."""
    axes: dict[str, Axis] = dict(model.net.axes(*inputs))  # type: ignore[operator]
    axes |= {name: labelled(model, axes[name], x) for name, x in zip(tuple(axes), inputs, strict=False)}
    table = FAMILIES[model.family].axes
    return look_at(model.net, pattern, lambda: model.net(*inputs, **named), table=table, axes=axes)


def labelled(model: ModelView, axis: Axis, ids: Tensor) -> Axis:
    words = None if model.processor is None else model.processor.media.get("text")
    if axis.kind != "text" or words is None or len(ids) != 1:
        return axis
    return replace(axis, labels=words.labels(ids[0].tolist()))


def trace_inputs(
    model: ModelView, given: Sequence[Picture], pattern: str, changes: Sequence[Change], name: str
) -> Trace[Any]:
    """Of texts or images, with what the model answers."""
    table = FAMILIES[model.family].axes
    with apply_changes(model.net, changes, table, {}):
        example = example_maker(model)(model, given)
    axes: dict[str, Axis] = dict(model.net.axes(*example.inputs))  # type: ignore[operator]
    for own, words in example.words.items():
        axes[own] = replace(axes[own], labels=words) if own in axes else Axis("text", len(words), words)
    with torch.inference_mode():
        found = record_run(model.net, pattern, lambda: example.run(model.net), table=table, axes=axes, changes=changes)
    return replace(
        found,
        example=example,
        answer=example.tell(found.output),
        model=name,
        again=lambda other: trace_inputs(model, given, pattern, other, name),
    )
