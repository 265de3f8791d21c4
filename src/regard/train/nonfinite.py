"""A number that is none: the layer that made it first, and the error that names it."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import InputError

from .shards import is_shard


class NotFiniteError(InputError):
    """A loss, a gradient or a weight that is no number."""


def first_in(parts: Mapping[str, nn.Module], part: str, again: Callable[[], object] | None) -> str:
    """Where it began: a weight, else a layer, which is asked by computing the loss ``again``, else a gradient; empty
    where all is well in this process."""
    if weights := bad_weights(parts[part]):
        return f"the weight {weights[0]}"
    if again is not None and (layer := first_bad_layer(parts, again)):
        return f"the output of {layer}"
    gradients = bad_gradients(parts[part])
    return f"the gradient of {gradients[0]}" if gradients else ""


def first_bad_layer(parts: Mapping[str, nn.Module], run: Callable[[], object]) -> str:
    """Run once more and name the first innermost module whose output is not finite; empty when all are."""
    found: list[str] = []

    def watch(name: str) -> Callable[[nn.Module, Any, Any], None]:
        def look(module: nn.Module, inputs: Any, output: Any) -> None:
            if not found and not finite(output):
                bad_inputs = not finite(inputs)
                found.append(
                    f"{name} ({type(module).__name__}{', whose input was already non-finite' if bad_inputs else ''})"
                )

        return look

    with ExitStack() as hooks:
        for part, module in parts.items():
            for name, layer in module.named_modules():
                path = ".".join(filter(None, (part if len(parts) > 1 else "", name)))
                handle = layer.register_forward_hook(watch(path or part))
                hooks.callback(handle.remove)
        run()
    return found[0] if found else ""


def bad_weights(part: nn.Module) -> list[str]:
    """The weights that are not finite themselves."""
    return [name for name, x in part.named_parameters() if not finite(x)]


def bad_gradients(part: nn.Module) -> list[str]:
    """The weights whose gradient is not finite, the one nearest to the output first."""
    return [name for name, x in part.named_parameters() if x.grad is not None and not finite(x.grad)][::-1]


def finite(x: Any) -> bool:
    """Of a tensor, or of all tensors in what a module returned."""
    if is_shard(x):
        return finite(x.to_local())  # each process looks at its own share
    if isinstance(x, Tensor):
        return not x.is_floating_point() or bool(torch.isfinite(x).all())
    if isinstance(x, Mapping):
        return all(map(finite, x.values()))
    if isinstance(x, tuple | list):
        return all(map(finite, x))
    return all(map(finite, vars(x).values())) if hasattr(x, "__dataclass_fields__") else True
