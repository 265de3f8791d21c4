"""The law of every kernel, forward(q, k, v) == weights(q, k) @ v, and what any attention on q, k and v must keep."""

import re
from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

from regard.nn.attention import Kernel
from regard.nn.cache import Slot
from regard.nn.mask import ALL, Bias, Mask, TensorBias
from regard.nn.mechanisms import Traits

from .report import BrokenError, Contract, demand, demand_close
from .samples import HEADS, MASKS, WIDTH, asked_by, gradients, numbers, ragged, spelled

SIZES = [(5, 5), (3, 7), (1, 6), (1, 1)]  # queries, keys


def heads_of(sizes: tuple[int, int], *, groups: int = HEADS, values: int = WIDTH) -> list[Tensor]:
    q, k = sizes
    return [
        numbers(3, HEADS, q, WIDTH, grad=True),
        numbers(3, groups, k, WIDTH, grad=True),
        numbers(3, groups, k, values, grad=True),
    ]


def law(
    attention: Kernel, traits: Traits, size: tuple[int, int], mask: Mask, bias: Bias | None = None, where: str = ""
) -> None:
    """Of outputs and gradients; nothing on what may not be looked at; zeros where there is nothing to look at."""
    q, k, v = heads_of(size)
    where = f"{where or 'no mask'}, {size[0]} queries and {size[1]} keys"
    weights = attention.weights(q, k, mask, bias)
    allowed = spelled(mask, 3, *size)
    shape, wanted_shape = tuple(weights.shape), (3, HEADS, *size)
    demand(shape == wanted_shape, f"weights(q, k) has the shape {shape}, expected {wanted_shape} ({where})")
    forbidden = weights.detach().abs().masked_fill(allowed, 0.0)
    demand(
        not forbidden.any(),
        f"a masked key has a nonzero weight: up to {float(forbidden.max()):.3g}, expected 0 ({where})",
    )
    sums, nobody = weights.sum(-1), ~allowed.any(-1)
    if traits.sums == "less":
        demand(
            bool((sums <= 1 + 1e-12).all()),
            f"a row of weights sums to {float(sums.detach().max()):.6g}, above 1 ({where})",
        )
    elif traits.sums == "one":
        rows = f"the sum of each row of weights ({where})"
        demand_close(sums, (~nobody).double(), rows, "1, or 0 for fully masked rows")
    y, wanted = attention(q, k, v, mask, bias), weights @ v
    demand(
        not y[nobody].any(),
        f"a fully masked row outputs {float(y.detach()[nobody].abs().sum()):.3g}, expected 0 ({where})",
    )
    demand_close(y, wanted, f"forward(q, k, v) ({where})", "weights(q, k) @ v")
    names, inputs = zip(*named_inputs(attention, q, k, v), strict=True)
    for name, found, expected in zip(names, gradients(y, *inputs), gradients(wanted, *inputs), strict=True):
        demand(bool(found.isfinite().all()), f"the gradient of {name} is not finite ({where})")
        demand_close(
            found, expected, f"the gradient of {name} through forward ({where})", "the gradient through weights @ v"
        )


def named_inputs(attention: Kernel, q: Tensor, k: Tensor, v: Tensor) -> list[tuple[str, Tensor]]:
    return [("q", q), ("k", k), ("v", v), *attention.named_parameters()]


def law_of_mask(attention: Kernel, traits: Traits, name: str) -> None:
    """At every size in evaluation, at one in training."""
    for size in SIZES:
        law(attention.eval(), traits, size, MASKS[name](3, *size), where=f"mask {name!r}")
    law(attention.train(), traits, (3, 7), MASKS[name](3, 3, 7), where=f"mask {name!r}, in training")


def refusal(attention: Kernel, name: str, word: str) -> None:
    """A mask that cannot be honoured is refused by the definition, by the fast way and while decoding alike."""
    (q, k, v), mask = heads_of((3, 5)), MASKS[name](3, 3, 5)
    refused_by(lambda: attention.weights(q, k, mask), word, f"weights, with the mask {name!r}")
    refused_by(lambda: attention(q, k, v, mask), word, f"forward, with the mask {name!r}")
    new = (k[:, :, :3], v[:, :, :3])
    refused_by(lambda: attention.step(Slot(0), q, *new, mask), word, f"step, with the mask {name!r}")


def refusal_of_bias(attention: Kernel) -> None:
    (q, k, v), bias = heads_of((3, 3)), TensorBias(numbers(HEADS, 3, 3))
    refused_by(lambda: attention.weights(q, k, ALL, bias), "bias", "weights, with a bias")
    refused_by(lambda: attention(q, k, v, ALL, bias), "bias", "forward, with a bias")
    refused_by(lambda: attention.step(Slot(0), q, k, v, ALL, bias), "bias", "step, with a bias")


def refused_by(call: Callable[[], object], word: str, where: str) -> None:
    try:
        call()
    except ValueError as error:
        demand(re.search(word, str(error)) is not None, f"{where}: the error does not mention {word!r}: {error}")
        return
    raise BrokenError(f"{where}: neither supported nor rejected with a ValueError")


def later_keys(attention: Kernel) -> None:
    """Not if they are huge, either; and each query alone sees the keys up to its own place."""
    q, k, v = heads_of((3, 7))
    mask = Mask(causal=True, start=2)
    y = attention(q, k, v, mask)
    for i in range(3):
        later = (torch.arange(7) > 2 + i)[:, None]
        moved = attention(q, torch.where(later, 1e4, k), torch.where(later, -1e4, v), mask)
        what = f"with later keys changed, the output of the queries up to {i} (causal mask, 3 queries, 7 keys)"
        demand_close(moved[:, :, : i + 1], y[:, :, : i + 1], what, "the original output")
        alone = attention(q[:, :, i : i + 1], k[:, :, : 3 + i], v[:, :, : 3 + i], Mask(causal=True, start=2 + i))
        demand_close(
            alone[:, :, 0],
            y[:, :, i],
            f"the output of query {i} alone, without later keys",
            "its row in the full output",
        )


def padding(attention: Kernel, side: str) -> None:
    """As if it were not there."""
    q, k, v = heads_of((4, 9))
    keys = ragged(3, 9, side)
    y = attention(q, k, v, Mask(keys=keys))
    huge = torch.where(keys[:, None, :, None], v, 1e6)
    what = f"with huge values in the {side} padding, the output"
    demand_close(attention(q, k, huge, Mask(keys=keys)), y, what, "the original output")
    for row in range(3):
        real = keys[row]
        alone = attention(q[row : row + 1], k[row : row + 1, :, real], v[row : row + 1, :, real])[0]
        what = f"row {row} with {side} padding ({int(real.sum())} of 9 keys are not padding)"
        demand_close(y[row], alone, what, "the same row without padding")


def groups_of_heads(attention: Kernel, groups: int, name: str) -> None:
    """Head i looks at group i // (heads / groups): the same as with each group's keys written out."""
    (q, k, v), mask = heads_of((3, 5), groups=groups, values=6), MASKS[name](3, 3, 5)
    order = [i // (HEADS // groups) for i in range(HEADS)]
    y, wanted = attention(q, k, v, mask), attention(q, k[:, order], v[:, order], mask)
    where = f"{HEADS} heads sharing {groups} groups of keys (mask {name!r})"
    demand_close(y, wanted, f"the output of {where}", "the output with repeated keys")
    demand_close(attention.weights(q, k, mask) @ v[:, order], wanted, f"weights @ v of {where}", "the output")
    for which, found, expected in zip("qkv", gradients(y, q, k, v), gradients(wanted, q, k, v), strict=True):
        demand_close(found, expected, f"the gradient of {which} for {where}", "the gradient with repeated keys")


def own_heads(attention: Kernel) -> None:
    """What any head reads of keys and values at all, each reads of its own."""
    q, k, v = heads_of((3, 5))
    y = attention(q, k, v)
    for name, read in (("keys", k), ("values", v)):
        own = [
            float(torch.autograd.grad(y[:, i].sum(), read, retain_graph=True)[0][:, i].abs().sum())
            for i in range(HEADS)
        ]
        dead = [i for i, slope in enumerate(own) if slope == 0]
        demand(
            len(dead) in (0, HEADS), f"the output of head {dead[0] if dead else 0} does not depend on its own {name}"
        )


def bias_counts(attention: Kernel) -> None:
    """One that is accepted and changes nothing was ignored."""
    q, k, v = heads_of((5, 5))
    plain = attention(q, k, v).detach()
    for where, found in (
        ("forward", attention(q, k, v, ALL, TensorBias(numbers(HEADS, 5, 5)))),
        ("weights", attention.weights(q, k, ALL, TensorBias(numbers(HEADS, 5, 5))) @ v),
    ):
        demand(not torch.equal(found.detach(), plain), f"{where} ignores the bias: the output is the same without it")


def other_widths(attention: Kernel, values: int) -> None:
    q, k, v = heads_of((3, 5), values=values)
    where = f"with values of size {values} and heads of size {WIDTH}"
    demand_close(attention(q, k, v), attention.weights(q, k) @ v, f"forward {where}", "weights @ v")


def mixture(attention: Kernel, traits: Traits) -> None:
    """Linear in v; where rows sum to 1, within the hull of v, and one key alone gives its own value."""
    q, k, v = heads_of((3, 6))
    other = numbers(3, HEADS, 6, WIDTH)
    found, wanted = attention(q, k, 2 * v - 3 * other), 2 * attention(q, k, v) - 3 * attention(q, k, other)
    demand_close(found, wanted, "forward(q, k, 2 v - 3 w)", "2 forward(q, k, v) - 3 forward(q, k, w)")
    if traits.sums != "one":
        return
    for _ in range(10):
        direction = numbers(WIDTH, 1)
        along, ends = attention(q, k, v) @ direction, v @ direction
        inside = (along <= ends.amax(-2, keepdim=True) + 1e-12) & (along >= ends.amin(-2, keepdim=True) - 1e-12)
        demand(
            bool(inside.all()),
            "an output lies outside the convex hull of the values although rows sum to 1: some weight is negative",
        )
    alone = attention(q, k[:, :, :1], v[:, :, :1])
    demand_close(alone, v[:, :, :1].expand(3, HEADS, 3, WIDTH), "the output for a single key", "the value of that key")


def contracts(attention: Kernel, traits: Traits, refuses: set[str]) -> Iterator[Contract]:
    """All of them, for a kernel that refuses these of: causal, pairs, bias."""
    for name, make in MASKS.items():
        if word := "|".join(word for word in asked_by(make(2, 2, 2)) if word in refuses):
            yield Contract(
                f"the mask {name!r} is rejected with an explanation", partial(refusal, attention, name, word)
            )
        else:
            says = f"forward equals weights @ v and masked keys have weight 0, with the mask {name!r}"
            yield Contract(says, partial(law_of_mask, attention, traits, name))
    if "bias" in refuses:
        yield Contract("a bias is rejected with an explanation", partial(refusal_of_bias, attention))
    else:
        yield Contract("forward equals weights @ v with a bias", partial(law_with_bias, attention, traits))
        yield Contract("a bias changes the output", partial(bias_counts, attention))
    if "causal" not in refuses:
        yield Contract("causality: later keys do not change the output", partial(later_keys, attention))
    for side in ("left", "right") if not traits.placed else ():
        yield Contract(f"{side} padding has no effect", partial(padding, attention, side))
    yield Contract("each head uses its own keys and values", partial(own_heads, attention))
    yield Contract("grouped heads share keys", partial(groups_of_heads, attention, 2, "left"))
    yield Contract("values may have a different size", partial(other_widths, attention, 3))
    yield Contract("the output is a linear combination of the values", partial(mixture, attention, traits))


def law_with_bias(attention: Kernel, traits: Traits) -> None:
    for name in ("none", "left"):
        for size in ((5, 5), (3, 7)):
            bias = TensorBias(numbers(HEADS, *size))
            law(attention, traits, size, MASKS[name](3, *size), bias, f"mask {name!r} and a bias")
