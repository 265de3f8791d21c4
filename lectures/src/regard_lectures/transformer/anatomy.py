"""What a Transformer is made of, read off its module tree while it runs: the diagrams are drawn from this.

A dictionary for each of the two columns: how many layers, and the parts of a layer in the order in which they are
called; for each part its kind, whether its norm comes before or after it, whether it hides the future, and whether it
looks at the encoder. The run is on the meta device, where a model of any size costs nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.models.transformer import Config, Transformer
from regard.nn.attention import Mixer
from regard.nn.block import Block
from regard.nn.mask import ALL, Mask
from regard.nn.mixers.fourier import Fourier
from regard_lectures.figure import Numbers

ATTENTION, FOURIER, FEED_FORWARD = "attention", "Fourier", "feed-forward"


@dataclass(frozen=True, eq=False)
class Call:
    name: str  # of the module, in the tree
    module: nn.Module
    context: Tensor | None
    causal: bool


def dissect(config: Config) -> Numbers:
    """Both columns of the Transformer of this config, and the number of its weights."""
    with torch.device("meta"):
        model = Transformer(config)
        words = torch.zeros(1, 5, dtype=torch.long)
        memory = model.encode(words)
        calls = watch(model, lambda: (model.encode(words), model.decode(words, memory)))
    contexts = [call.context is memory for call in calls if isinstance(call.module, Block) and "decoder" in call.name]
    return {
        "encoder": column(calls, "encoder", model.encoder_norm is not None),
        "decoder": column(calls, "decoder", model.decoder_norm is not None),
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "residuals": len([name for name, _ in model.named_modules() if name.endswith("_residual")]),
        "norms": len([module for module in model.modules() if isinstance(module, nn.LayerNorm)]),
        "memory": contexts.count(True),  # decoder layers that are given the encoder's last output itself
    }


def watch(model: nn.Module, run: Callable[[], object]) -> list[Call]:
    """Every module in the order of its call."""
    calls: list[Call] = []

    def note(name: str, module: nn.Module, inputs: tuple[object, ...], options: dict[str, object]) -> None:
        context, mask = inputs[1] if len(inputs) > 1 else None, options.get("mask", ALL)
        causal = isinstance(mask, Mask) and mask.causal
        calls.append(Call(name, module, context if isinstance(context, Tensor) else None, causal))

    hooks = [
        module.register_forward_pre_hook(lambda m, a, k, name=name: note(name, m, a, k), with_kwargs=True)
        for name, module in model.named_modules()
    ]
    run()
    for hook in hooks:
        hook.remove()
    return calls


def column(calls: list[Call], stack: str, final: bool) -> Numbers:
    """The first layer of a stack, part by part."""
    names = [call.name for call in calls]
    depth = len([call for call in calls if isinstance(call.module, Block) and call.name.startswith(stack)])
    parts = []
    for i, call in enumerate(calls):
        if call.name not in (f"{stack}.0.{name}" for name in ("mixer", "cross", "ffn")):
            continue
        norm = names.index(f"{call.name}_residual.norm")
        part: Numbers = {"kind": kind(call.module)}
        part |= {"norm": "before" if norm < i else "after", "causal": call.causal, "cross": call.context is not None}
        parts.append(part)
    return {"depth": depth, "parts": parts, "final": final}


def kind(module: nn.Module) -> str:
    if isinstance(module, Fourier):
        return FOURIER
    return ATTENTION if isinstance(module, Mixer) else FEED_FORWARD
