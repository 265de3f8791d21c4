"""Leaving out: which words an answer rests on, found by taking them away one at a time.

Understanding Neural Networks through Representation Erasure (Li, Monroe and Jurafsky, 2016),
https://arxiv.org/abs/1612.08220
    a(i) = y(x) - y(x without token i)
It is to a text what covering (``look.occlusion``) is to an image. There are two ways to be without a token: nobody
looks at it (``unseen``), or another stands in its place, as a mask does (``replaced``). The first needs no token that
was never seen there; the second works with any net.

Nobody looks at a token when its column is 0 in every map and each row sums to 1 again, which for a softmax is the same
as a mask on that key: exp(s_j) / sum over the others of exp(s). A row that may look at nothing else is 0. The token's
own stream goes on: what is read at its own place is still made from it. What carries it by another way than attention
(a recurrent encoder, a convolution) still does, and what mixes without weights is refused.

It does not tell of tokens that stand in for each other: of two that say the same, each is worth nothing alone.

Shapes: b batch, h heads, q rows, k columns, n tokens.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.nn.tap import listen

from .maps import attention_name, axes_of, matching_taps
from .rollout import CLOSE

EQUATION = "a(i) = y(x) − y(x without token i)"
LIMIT = "It does not show the effect of redundant tokens, and a text with a masked token is unlike the training data."

AT_ONCE = 64  # texts in one batch


@torch.inference_mode()
def unseen(
    net: nn.Module, run: Callable[[], Tensor], axis: str, size: int, table: Mapping[str, tuple[str, str]]
) -> Tensor:
    """Decrease of the answer of ``run``, one number per row of a batch, (b,), or a single one, (), if a token is
    masked; for each of the ``size`` tokens of an axis (``without``).  -> (b, n) or (n,)
    """
    lost = []
    with without(net, [], axis, table):  # on the same path as the others, so that what changes nothing is worth 0
        before = run()
    for i in range(size):
        with without(net, [i], axis, table):
            lost.append(before - run())
    return torch.stack(lost, -1) if lost else before.new_zeros(*before.shape, 0)


@torch.inference_mode()
def replaced(answer: Callable[[Tensor], Tensor], ids: Tensor, other: int) -> Tensor:
    """Decrease of the answer if a token is replaced by another, such as a mask token; for each token of a text.
    ``answer`` returns one number for each of several texts, (b, n) -> (b,).

    (n,) -> (n,)
    """
    if ids.ndim != 1:
        raise InputError("expected a single text", got=f"shape {tuple(ids.shape)}", expected="(n,)")
    before, found = answer(ids[None])[0], []
    for some in torch.arange(len(ids), device=ids.device).split(AT_ONCE):
        texts = ids.repeat(len(some), 1)
        texts[torch.arange(len(some), device=ids.device), some] = other
        found.append(before - answer(texts))
    return torch.cat(found)


@contextmanager
def without(
    net: nn.Module, positions: Sequence[int], axis: str, table: Mapping[str, tuple[str, str]]
) -> Iterator[list[str]]:
    """Mask positions of an axis inside the context: ``with without(net, [3], "source", transformer.AXES)``. The axes of
    a model's maps are named in its file's ``AXES``. Yields the names of the attentions over this axis.

    While a text is generated, a position may appear later than the first token; it is an error if it never does.
    """
    if min(positions, default=0) < 0:
        raise InputError("the positions must be at least 0", got=f"{list(positions)}")
    names = looking_at(net, axis, table)
    longest = [0]

    def hear(name: str, weights: Tensor) -> Tensor:
        longest.append(weights.shape[-1])
        return unlooked(weights, positions, attention_name(name))

    with ExitStack() as listening:
        for name in names:
            listening.enter_context(listen(net, f"{name}.weights", hear))
        yield names
    last = max(positions, default=-1)
    if len(longest) > 1 and last >= max(longest):
        raise InputError("position out of range", got=str(last), expected=f"below {max(longest)}")


def unlooked(weights: Tensor, positions: Sequence[int], name: str) -> Tensor:
    """(b, h, q, k), whose rows sum to 1 or are empty, before and after"""
    sums = weights.sum(-1)  # in half precision too, in which what they miss is rounded off
    if bool((weights < -CLOSE).any()) or bool((((sums - 1).abs() > CLOSE) & (sums != 0)).any()):
        raise InputError(
            "masking needs attention rows that sum to 1",
            where=name,
            fix="replace the token by another one",
        )
    there = [i for i in positions if i < weights.shape[-1]]
    rest = weights.index_fill(-1, torch.tensor(there, dtype=torch.long, device=weights.device), 0.0)
    total = rest.sum(-1, keepdim=True)
    return rest / total.where(total > 0, 1)


def looking_at(net: nn.Module, axis: str, table: Mapping[str, tuple[str, str]]) -> list[str]:
    """The attentions whose columns are this axis; at least one, and nothing beside them that mixes without weights."""
    kinds = matching_taps(net, "*")
    columns = {tap: axes_of(attention_name(tap), table)[1] for tap in kinds}
    names = [attention_name(tap) for tap, kind in kinds.items() if kind == "weights" and columns[tap] == axis]
    blind = [attention_name(tap) for tap, kind in kinds.items() if kind != "weights" and columns[tap] == axis]
    blind = [name for name in blind if not any(other.startswith(f"{name}.") for other in names)]
    if blind:
        raise InputError(
            "masking needs attention weights, which this mixer does not have",
            got=", ".join(blind),
            fix="replace the token by another one",
        )
    if not names:
        raise InputError("unknown axis", got=axis, expected=", ".join(sorted(set(columns.values()))))
    return names
