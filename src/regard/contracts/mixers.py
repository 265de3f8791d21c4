"""Every attention or mixer at its place in a block and in a model: what it is asked for it serves or refuses in words;
gradients, the future, the cache, padding, maps, save and load."""

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.models.family import Family
from regard.nn.attention import Mixer, MultiHeadAttention
from regard.nn.block import Block
from regard.nn.cache import Cache
from regard.nn.feedforward import FeedForward
from regard.nn.mask import ALL, CAUSAL, Mask, TensorBias
from regard.nn.mechanisms import Choice, Traits, build_mixer, can_drop
from regard.nn.residual import Branch, Placement, build_residual
from regard.nn.site import Site
from regard.nn.tap import Tap, capture
from regard.zoo import FAMILIES, empty_net

from . import kernels
from .families import learned, saved_and_loaded, writes_on
from .report import BrokenError, Contract, NothingError, demand, demand_close
from .samples import DIM, HEADS, gradients, numbers, ragged, some_pairs, stirred

SITES: dict[str, dict[str, Any]] = {
    "causal": {"causal": True},
    "context": {"cross": True},
    "dropout": {"dropout": 0.1},
    "length": {"length": None},
}


def built(choice: Choice) -> Mixer:
    return stirred(build_mixer(choice, Site(dim=DIM, heads=HEADS, length=128)))


def refusals(choice: Choice) -> set[str]:
    """What it refuses, found by asking: causal, context, dropout, length, pairs, bias."""
    found = set()
    for what, changes in SITES.items():
        try:
            build_mixer(choice, Site(**{"dim": DIM, "heads": HEADS, "length": 64} | changes))
        except ValueError:
            found.add(what)
    mixer, x = built(choice).eval(), numbers(2, 4, DIM)
    for what, mask, bias in (
        ("pairs", Mask(pairs=some_pairs(2, 4, 4)), None),
        ("bias", ALL, TensorBias(numbers(HEADS, 4, 4))),
    ):
        try:
            mixer(x, mask=mask, bias=bias)
        except ValueError:
            found.add(what)
    return found


def site_refusal(choice: Choice, what: str) -> None:
    """Refused when a model is built, not when it runs, by an error that says what."""
    word = "longest input|length" if what == "length" else what
    try:
        build_mixer(choice, Site(**{"dim": DIM, "heads": HEADS, "length": 64} | SITES[what]))
    except ValueError as error:
        said = re.search(f"attention '.*': .*({word})", str(error), re.DOTALL)
        demand(said is not None, f"the error does not mention {what!r}: {error}")
        return
    raise BrokenError(f"not rejected: {what}")


def block(
    choice: Choice, *, placement: Placement = "pre", dropout: float = 0.0, causal: bool = False, cross: bool = False
) -> Block:
    site = Site(dim=DIM, heads=HEADS, length=16, causal=causal, dropout=dropout)
    beyond = Site(dim=DIM, heads=HEADS, length=16, cross=True, dropout=dropout)
    return Block(
        build_mixer(choice, site),
        FeedForward(DIM, 24),
        lambda: build_residual(placement, nn.LayerNorm(DIM), Branch(DIM), DIM),
        cross=build_mixer(choice, beyond) if cross else None,
    )


def shape_and_gradients(choice: Choice, cross: bool) -> None:
    """Every weight and every position takes part; with a context too."""
    layer = stirred(block(choice, cross=cross))
    x, context = numbers(2, 9, DIM, grad=True), numbers(2, 7, DIM, grad=True)
    keys = ragged(2, 7, "right")
    y = layer(x, context, context_mask=Mask(keys=keys)) if cross else layer(x)
    demand(y.shape == x.shape, f"the output shape of a block is {tuple(y.shape)}, expected {tuple(x.shape)}")
    names, parameters = zip(*layer.named_parameters(), strict=True)
    of_x, of_context, *found = gradients(y, x, context, *parameters)
    for name, gradient in zip(names, found, strict=True):
        demand(bool(gradient.isfinite().all()), f"the gradient of {name} is not finite")
        unseen = name.endswith(".k.bias")  # a softmax does not see that one
        demand(unseen or bool(gradient.abs().sum() > 0), f"the gradient of {name} is 0: the parameter is unused")
    demand(bool(of_x.abs().sum(-1).all()), "the gradient of a position is 0: the position is unused")
    if cross:
        looked = of_context.abs().sum(-1) > 0
        demand(not looked[~keys].any(), "the gradient of padding in the context is not 0")
        demand(bool(looked.any(-1).all()), "the gradient of a context is 0: the context is unused")


def no_future(choice: Choice) -> None:
    """Of a block at a causal place: what comes later moves nothing, whatever it is."""
    layer, x = stirred(block(choice, causal=True)).eval(), numbers(2, 7, DIM)
    y = layer(x, mask=CAUSAL)
    for i in range(6):
        later = torch.arange(7)[:, None] > i
        moved = layer(torch.where(later, 3 * numbers(2, 7, DIM), x), mask=CAUSAL)
        what = f"with the positions after position {i} changed, the output up to it (causal, 7 positions)"
        demand_close(moved[:, : i + 1], y[:, : i + 1], what, "the original output", 1e-9)


def cached(choice: Choice, steps: tuple[int, ...]) -> None:
    """Step by step with a cache is all at once; or a cache is refused at the first step."""
    layer, x, keys = stirred(block(choice, causal=True)).eval(), numbers(2, 6, DIM), ragged(2, 6, "left")
    full, cache, parts, start = layer(x, mask=Mask(causal=True, keys=keys)), Cache(), list[Tensor](), 0
    try:
        for n in steps:
            part = slice(start, start + n)
            parts.append(layer(x[:, part], mask=cache.take(n, keys[:, part]), cache=cache))
            start += n
    except ValueError as error:
        demand(not parts, f"a cache is rejected after {len(parts)} steps instead of at the first: {error}")
        return
    what = f"the output of decoding {' + '.join(map(str, steps))} positions with a cache"
    demand_close(torch.cat(parts, 1)[keys], full[keys], what, "the full forward pass")


def padded(choice: Choice, side: str, causal: bool) -> None:
    """A row is what it is alone, whatever stands at the padding, a NaN included."""
    layer, x, keys = stirred(block(choice, causal=causal)).eval(), numbers(3, 6, DIM), ragged(3, 6, side)
    y = layer(x, mask=Mask(causal=causal, keys=keys))
    for row in range(3):
        alone = layer(x[row : row + 1, keys[row]], mask=Mask(causal=causal))
        what = f"row {row} with {side} padding ({int(keys[row].sum())} of 6 positions are not padding)"
        demand_close(y[row, keys[row]], alone[0], what, "the same row without padding", 1e-9)
    bad = torch.where(keys[..., None], x, 1e3)
    found = layer(bad, mask=Mask(causal=causal, keys=keys))
    demand_close(
        found[keys], y[keys], f"with large numbers in the {side} padding, the unpadded output", "the original output"
    )


def one_of_many(choice: Choice) -> None:
    layer, x = stirred(block(choice)).eval(), numbers(3, 6, DIM)
    many = layer(x)
    for row in range(3):
        demand_close(
            layer(x[row : row + 1])[0],
            many[row],
            f"row {row}, run as a batch of one",
            "the same row in the full batch",
            1e-9,
        )


def looked_at(choice: Choice, causal: bool) -> None:
    """Who looks moves nothing, and sees the weights that the definition gives."""
    layer, x = (
        stirred(build_mixer(choice, Site(dim=DIM, heads=HEADS, length=16, causal=causal))).eval(),
        numbers(2, 6, DIM),
    )
    mask = Mask(causal=causal)
    plain = layer(x, mask=mask)
    if not any(isinstance(module, Tap) for module in layer.modules()):
        raise BrokenError(
            "nothing can be captured: add a tap, such as influence (regard.nn.influence.compute_with_influence)"
        )
    with capture(layer, "*") as seen:
        looked = layer(x, mask=mask)
    demand_close(looked, plain, "the output while capturing", "the output without capturing", 1e-8)
    if isinstance(layer, MultiHeadAttention):
        demand("weights" in seen, f"no tap for the attention weights; its taps are {', '.join(seen)}")
        wanted = layer.kernel.weights(seen["queries"][0], seen["keys"][0], mask)
        demand_close(seen["weights"][0], wanted, "the captured attention map", "weights(q, k)", 1e-9)


def without_memory(choice: Choice, causal: bool) -> None:
    with torch.device("meta"):
        layer, x = block(choice, causal=causal), torch.empty(2, 5, DIM)
        y = layer(x, mask=Mask(causal=causal, keys=torch.ones(2, 5, dtype=torch.bool)))
    demand(
        y.device.type == "meta", "the output is not on the meta device, which is used to measure models without memory"
    )


def dropped(choice: Choice) -> None:
    layer, x = stirred(block(choice, dropout=0.5)), numbers(2, 6, DIM)
    demand(not torch.allclose(layer.train()(x), layer(x)), "with dropout, two training passes give equal outputs")
    demand(torch.equal(layer.eval()(x), layer(x)), "two evaluation passes are not bit-identical")


def in_model(choice: Choice, family: str) -> None:
    """Built, saved, loaded and run; it learns one batch. Dropout of weights is off for one that has none to drop."""
    row = FAMILIES[family]
    config = row.reconfigured(row.example(), {"attention": choice, "depth": 1} | undropped(choice, row))
    try:
        empty_net(family, config)
    except ConfigError as error:
        raise NothingError(f"not supported by {family}: {error.got}") from None
    saved_and_loaded(family, row, config)
    start, end = learned(row, config, 30, 0.5)
    told = f"in 30 steps on one batch the loss of a {family} went from {start:.3g} to {end:.3g}"
    demand(end < 0.5 * start, f"{told}, not below 50%")


def undropped(choice: Choice, row: Family) -> dict[str, float]:
    return {"attention_dropout": 0.0} if row.has("attention_dropout") and not can_drop(choice) else {}


def tried_in() -> list[str]:
    """The first of each kind of families for comparisons that take one input: one writes on with a text, one reads
    a text, one reads an image."""
    kinds: dict[Any, str] = {}
    for name, row in FAMILIES.items():
        if row.compared and len(row.takes) == 1:
            kinds.setdefault((row.takes, writes_on(row)), name)
    return list(kinds.values())


def contracts(choice: Choice, traits: Traits) -> Iterator[Contract]:
    """All of them, those of a kernel first where it is one."""
    mixer, refuses = built(choice), refusals(choice)
    causal = "causal" not in refuses
    if isinstance(mixer, MultiHeadAttention):
        yield from kernels.contracts(mixer.kernel, traits, refuses)
    for what in SITES:
        if what in refuses:
            yield Contract(
                f"an unsupported use is rejected with an explanation: {what}", partial(site_refusal, choice, what)
            )
    yield Contract("every parameter and position gets a gradient", partial(shape_and_gradients, choice, False))
    if "context" not in refuses:
        yield Contract("every parameter gets a gradient with a context", partial(shape_and_gradients, choice, True))
    if causal:
        yield Contract("causality: no block output depends on later positions", partial(no_future, choice))
        for steps in ((2, 3, 1), (1,) * 6):
            says = f"decoding with a cache equals the full forward pass, or a cache is rejected, in {len(steps)} steps"
            yield Contract(says, partial(cached, choice, steps))
    for side in ("left", "right"):
        yield Contract(f"{side} padding does not change unpadded outputs", partial(padded, choice, side, causal))
    yield Contract("a batch of one equals its row in a larger batch", partial(one_of_many, choice))
    yield Contract("the captured attention map equals weights(q, k)", partial(looked_at, choice, causal))
    yield Contract("it runs on the meta device", partial(without_memory, choice, causal))
    if "dropout" not in refuses:
        yield Contract("dropout is active in training only", partial(dropped, choice))
    for family in tried_in():
        yield Contract(f"a {family} with it can be saved, loaded and trained", partial(in_model, choice, family))
