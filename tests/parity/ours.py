"""How a model of ours is run to be compared, and what is compared: outputs, maps, and gradients of what went in.

No reference is imported here, so that frozen outputs can be compared where none is installed.
"""

import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields

import torch
from torch import Tensor, nn

from regard.nn.attention import MultiHeadAttention
from regard.nn.tap import capture

RTOL, ATOL = 1e-4, 1e-5  # float32
EXACT = 1e-10  # float64

Inputs = Mapping[str, Tensor]
Tensors = dict[str, Tensor]


@dataclass(frozen=True, eq=False)
class Run:
    """One pass. What stands at padding is zero, since nobody says what it should be."""

    outputs: Tensors
    maps: Tensors
    entered: list[Tensor]  # what the embedding gave, in the order of its calls; or the images

    def backward(self) -> None:
        """One fixed linear function of all outputs, pulled back."""
        sum((y * cotangent(name, y)).sum() for name, y in self.outputs.items()).backward()  # type: ignore[union-attr]


def cotangent(name: str, like: Tensor) -> Tensor:
    """Random, but the same for a name and a shape in every run, dtype and place."""
    draw = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    return torch.randn(like.shape, generator=draw).to(like) / like.shape[0]


def gpt(net: nn.Module, inputs: Inputs) -> Tensors:
    return {"logits": net(inputs["ids"], keys=inputs.get("keys"))}


def bert(net: nn.Module, inputs: Inputs) -> Tensors:
    out = net(inputs["ids"], segments=inputs.get("segments"), keys=inputs.get("keys"))
    found = {field.name: getattr(out, field.name) for field in fields(out)}
    return {name: x for name, x in found.items() if x is not None}


def vit(net: nn.Module, inputs: Inputs) -> Tensors:
    if net.config.classes:
        return {"logits": net(inputs["images"])}
    states = {"states": net.features(inputs["images"])}
    pooled = getattr(net.config, "representation", None)
    return states | ({"pooled": net(inputs["images"])} if pooled else {})


def deit(net: nn.Module, inputs: Inputs) -> Tensors:
    images = inputs["images"]
    if not net.config.classes:
        return {"states": net.features(images)} | ({"logits": net(images)} if net.config.pool == "both" else {})
    if net.config.pool == "class":
        return {"logits": net(images)}
    said = net.answers(images)
    return {"logits": net(images), "label": said.label, "teacher": said.teacher}


def mixer(net: nn.Module, inputs: Inputs) -> Tensors:
    return {"states": net.features(inputs["images"]), "logits": net(inputs["images"])}


def grid(net: nn.Module, inputs: Inputs) -> Tensors:
    if net.config.classes:
        return {"logits": net(inputs["images"])}
    states = net.features(inputs["images"])
    return {"states": states, "pooled": states.mean(1)}


def perceiver(net: nn.Module, inputs: Inputs) -> Tensors:
    return {"logits": net(inputs["images"])}


def resnet(net: nn.Module, inputs: Inputs) -> Tensors:
    if net.config.classes:
        return {"logits": net(inputs["images"])}
    return {"states": net.features(inputs["images"])}


def detr(net: nn.Module, inputs: Inputs) -> Tensors:
    out = net(inputs["images"], inputs.get("sizes"))
    return {"logits": out.logits, "boxes": out.boxes}


def translator(net: nn.Module, inputs: Inputs) -> Tensors:
    source_keys, keys = inputs.get("source_keys"), inputs.get("keys")
    memory = net.encode(inputs["source"], source_keys)
    return {"memory": memory, "logits": net.decode(inputs["target"], memory, source_keys=source_keys, keys=keys)}


def switch(net: nn.Module, inputs: Inputs) -> Tensors:
    source_keys, keys = inputs.get("source_keys"), inputs.get("keys")
    memory = net.encode(inputs["source"], source_keys)
    return {"memory": memory.x, "logits": net.decode(inputs["target"], memory, source_keys=source_keys, keys=keys)}


def switchlm(net: nn.Module, inputs: Inputs) -> Tensors:
    return {"logits": net(inputs["ids"], keys=inputs.get("keys")).logits}


def reformer(net: nn.Module, inputs: Inputs) -> Tensors:
    return {"logits" if net.config.head == "words" else "states": net(inputs["ids"], keys=inputs.get("keys"))}


def cliptext(net: nn.Module, inputs: Inputs) -> Tensors:
    states = net.features(inputs["ids"], inputs.get("keys"))
    pooled = net.pooled(states, inputs["ids"], inputs.get("keys"))
    made = {"pooled": pooled} if net.projection is None else {"embedding": net.projection(pooled)}
    return {"states": states} | made


def clip(net: nn.Module, inputs: Inputs) -> Tensors:
    found = net(inputs["images"], inputs["ids"], keys=inputs.get("keys"))
    return {"logits": found.logits(), "image": found.image, "text": found.text}


OURS: dict[str, Callable[[nn.Module, Inputs], Tensors]] = {
    "gpt": gpt,
    "bert": bert,
    "vit": vit,
    "deit": deit,
    "cait": vit,
    "volo": vit,
    "swin": grid,
    "swinv2": grid,
    "levit": grid,
    "mixer": mixer,
    "resnet": resnet,
    "detr": detr,
    "perceiver": perceiver,
    "perceiverlm": gpt,
    "transformer": translator,
    "rnn": translator,
    "t5": translator,
    "switch": switch,
    "switchlm": switchlm,
    "reformer": reformer,
    "cliptext": cliptext,
    "clip": clip,
}
LATENT = ("perceiver", "perceiverlm")  # whose layers are all run again, and have no row for each word
BY_SOURCE = ("memory", "encoder.")  # what has a row for each source word, not for each target word


def run(family: str, net: nn.Module, inputs: Inputs) -> Run:
    """The outputs by the fast path, and the maps by a second pass that listens."""
    with entering(inputs, getattr(net, "embed", None)) as entered:
        outputs = OURS[family](net, inputs)
    maps, seen = {}, {}
    if any(isinstance(module, MultiHeadAttention) for module in net.modules()):
        with capture(net) as seen, torch.no_grad():
            OURS[family](net, inputs)
    for name, calls in seen.items():
        for i, weights in enumerate(calls):  # a layer that is applied several times is several
            place = name.removesuffix(".weights")
            again = f"{place} {i}" if family in LATENT else place.replace(".0.", f".{i}.")
            maps[again if i else place] = weights
    inner = {place: x for place, x in maps.items() if family in LATENT and place.startswith("latents.")}
    real = at_real({place: x for place, x in maps.items() if place not in inner}, inputs, rows=-2)
    return Run(at_real(outputs, inputs), inner | real, entered)


def some(**tensors: Tensor | None) -> Tensors:
    return {name: x for name, x in tensors.items() if x is not None}


@contextmanager
def entering(inputs: Inputs, *embeddings: nn.Module | None) -> Iterator[list[Tensor]]:
    """What the embeddings give, ready to be asked for its gradient; of images, the images themselves."""
    entered: list[Tensor] = []

    def keep(module: nn.Module, given: object, y: Tensor) -> None:
        if y.requires_grad:
            y.retain_grad()
        entered.append(y)

    if "images" in inputs:
        entered.append(inputs["images"])
    handles = [module.register_forward_hook(keep) for module in embeddings if module is not None]
    try:
        yield entered
    finally:
        for handle in handles:
            handle.remove()


def at_real(tensors: Mapping[str, Tensor], inputs: Inputs, rows: int = 1) -> Tensors:
    """Zero where the row stands for padding; ``rows`` is the axis of positions."""
    found = {}
    for name, x in tensors.items():
        keys = inputs.get("source_keys" if name.startswith(BY_SOURCE) else "keys")
        keys = None if name.startswith("image.") else keys  # of a tower that sees
        if keys is not None and x.ndim > 2:  # what has two axes is one vector for each sentence
            shape = [len(keys)] + [1] * (x.ndim - 1)
            shape[rows] = keys.shape[1]
            x = torch.where(keys.reshape(shape), x, 0.0)
        found[name] = x
    return found


def assert_close(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor], *, exact: bool = False) -> None:
    """The same names, and each tensor within the tolerance of its dtype, by the size of its largest number."""
    assert ours.keys() == theirs.keys()
    for name, wanted in theirs.items():
        largest = max(1.0, float(wanted.detach().abs().max()) if wanted.numel() else 1.0)
        rtol, atol = (EXACT, EXACT) if exact else (RTOL, ATOL * largest)

        def named(text: str, name: str = name) -> str:
            return f"{name}: {text}"

        torch.testing.assert_close(ours[name], theirs[name], rtol=rtol, atol=atol, msg=named)


@torch.no_grad()
def difference(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> float:
    """The largest difference, relative to the largest number of all."""
    assert ours.keys() == theirs.keys()
    if not theirs:  # a model without maps
        return 0.0
    scale = max(float(x.abs().max()) for x in theirs.values())
    return max(float((ours[name] - theirs[name]).abs().max()) for name in theirs) / scale
