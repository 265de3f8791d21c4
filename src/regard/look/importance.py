"""Head importance: what an answer loses when one head says nothing.

Are Sixteen Heads Really Better than One? (Michel, Levy and Neubig, 2019), https://arxiv.org/abs/1905.10650
    MHA(x) = sum over h of xi_h head_h(x),    importance_h = y(xi_h = 1) - y(xi_h = 0)
Exactly, by one pass for every head (``ablated``); or all at once, from one backward pass, to first order (``slopes``):
y(1) - y(0) is dy/dxi_h where y is linear in the head. The paper's estimate is the mean of |dL/dxi_h| over examples
(``expected``). How two answers are compared is an object: what an answer loses (``fall``), what a loss gains
(``rise``), or how far what is thought likely moves (``divergence``).

What a head brings is heard before the last projection (``mixed``), whose bias stays. A layer that runs several times is
silenced every time.

It does not tell what heads do together: of two that say the same each is worth nothing alone.

Shapes: b batch, h heads, n positions, f width of a head.
"""

from collections.abc import Callable
from contextlib import ExitStack
from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.nn.tap import Tap, TapCallback, listen, plain_name

from .gradient import sloped
from .maps import attention_name

Compare = Callable[[Tensor, Tensor], Tensor]  # before and after, (b, ...) or () each -> (b,) or ()

EQUATION = "I_h = y − y(without head h) ≈ ∂y/∂ξ_h"
LIMIT = "It does not show joint effects of heads: two redundant heads each have an importance of zero."


def fall(before: Tensor, after: Tensor) -> Tensor:
    """Decrease of a score, a logit or a probability."""
    return before - after


def rise(before: Tensor, after: Tensor) -> Tensor:
    """Increase of a loss."""
    return after - before


def divergence(before: Tensor, after: Tensor) -> Tensor:
    """KL(before || after) of logits in nats, averaged over positions.  (b, ..., v) -> (b,)"""
    likely, then = before.log_softmax(-1), after.log_softmax(-1)
    each = (likely.exp() * (likely - then)).where(likely > -torch.inf, 0.0).sum(-1)
    return each.reshape(len(each), -1).mean(1)


@torch.inference_mode()
def ablated(net: nn.Module, run: Callable[[], Tensor], compare: Compare, pattern: str = "*") -> dict[str, Tensor]:
    """Head importance by ablation: one forward pass for each head of each attention that matches the pattern, in the
    order in which they run. ``compare`` takes the results of ``run`` without and with the ablation.

    -> (b, h) or (h,) each
    """
    heads: dict[str, int] = {}

    def count(tap: str, x: Tensor) -> None:
        heads[tap] = x.shape[-3]

    with ExitStack() as listening:
        for tap in speaking(net, pattern):
            listening.enter_context(listen(net, tap, count, records=True))
        before = run()
    found = {}
    for tap, number in heads.items():
        worth = []
        for head in range(number):
            with listen(net, tap, silent(head)):
                worth.append(compare(before, run()))
        found[attention_name(tap)] = torch.stack(worth, -1)
    return found


def silent(head: int) -> TapCallback:
    """For ``listen``: what a head brings is nothing.  (b, h, n, f)"""
    return lambda _, x: x.index_fill(-3, torch.tensor(head, device=x.device), 0.0)


def slopes(net: nn.Module, run: Callable[[], Tensor], pattern: str = "*") -> dict[str, Tensor]:
    """Gradient head importance: dy/dxi of every head, the first-order estimate of the answer's decrease without the
    head. The answer is one number per row of a batch, (b,), or a single one, (). Dropout must be off (``net.eval()``).

    -> (b, h) or (h,) each
    """
    found = sloped(net, speaking(net, pattern), run)
    answer = found.answer
    if answer.ndim > 1:
        raise InputError("the answer must be one number per row", got=f"{tuple(answer.shape)}", expected="(b,) or ()")
    rows = len(answer) if answer.ndim else 1
    each = {
        attention_name(tap): sum((by_row(one.value * one.slope, rows) for one in passed), torch.zeros(()))
        for tap, passed in found.at.items()
    }
    return each if answer.ndim else {name: one[0] for name, one in each.items()}


def by_row(products: Tensor, rows: int) -> Tensor:
    """Summed over all but rows and heads; the windows of an image are its own.  (b*w, h, n, f) -> (b, h)"""
    return products.sum((-2, -1)).unflatten(0, (rows, -1)).sum(1)


def expected(slope: Tensor) -> Tensor:
    """The paper's estimate: mean absolute gradient over examples.  (b, h) -> (h,)"""
    return slope.abs().mean(0)


def speaking(net: nn.Module, pattern: str) -> list[str]:
    """The taps at which heads of the attentions that a pattern names are heard; at least one."""
    taps = [plain_name(name) for name, module in net.named_modules() if isinstance(module, Tap)]
    taps = [tap for tap in taps if tap.rpartition(".")[2] == "mixed"]
    wanted = [tap for tap in taps if fnmatchcase(attention_name(tap), pattern)]
    if not wanted:
        what = "no attention of this model matches this name" if taps else "this model has no heads"
        raise InputError(what, got=pattern, expected=", ".join(map(attention_name, taps)))
    return wanted
