"""The loss of predicting words, of which there are so many that all logits together would fill the memory.

Label smoothing (Szegedy et al., 2016), https://arxiv.org/abs/1512.00567, section 7: the target gets 1 - s of the
probability, and s is spread over all words.

Shapes: n positions, c of them at a time, d width, v vocabulary.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

LOGITS = {"cpu": 1 << 21}  # that stand in memory at once: few enough for a processor's cache
LOGITS_ELSEWHERE = 1 << 26  # on other devices, which want large products
FEWEST = 128  # positions at a time: fewer would read the weights more often than it pays


@dataclass(frozen=True, eq=False)
class CrossEntropy:
    """Summed cross-entropy over the real positions, with their number, for the mean."""

    sum: Tensor  # of -log p(target), smoothed: the only one with a gradient
    plain: Tensor  # the same without smoothing: exp(plain / n) is the perplexity
    right: Tensor  # how many targets have the largest logit


def cross_entropy(
    x: Tensor,
    weight: Tensor,
    target: Tensor,
    *,
    bias: Tensor | None = None,
    smoothing: float = 0.0,
    real: Tensor | None = None,
) -> CrossEntropy:
    """-log softmax(x W^T + b) at the target.  (..., d), (v, d), (...) -> three numbers

    The logits are made for some positions at a time and turned at once into their share of the gradient, so that no
    product is made twice and nothing of size n x v is kept. ``real`` is False where a position does not count; its
    target may be any number.
    """
    check(x, weight, target, bias, smoothing, real)
    if torch.compiler.is_compiling():
        return dense_cross_entropy(x, weight, target, bias, smoothing, real)
    if real is not None:
        x, target = x[real], target[real]
    x, target = x.reshape(-1, x.shape[-1]), target.reshape(-1).long()
    outside = (target < 0) | (target >= len(weight))
    if outside.any():
        wrong = int(target[outside][0])
        raise ValueError(
            f"target {wrong} is out of range for a vocabulary of {len(weight)}; set real to False where the "
            "target is ignored"
        )
    learned = [part is not None and part.requires_grad and torch.is_grad_enabled() for part in (x, weight, bias)]
    if any(learned):
        return CrossEntropy(*ChunkedCrossEntropy.apply(x, weight, bias, target, smoothing))  # type: ignore[no-untyped-call]
    with torch.no_grad():
        return Sweep(x, weight, bias, smoothing, learned).run(target)


def check(
    x: Tensor, weight: Tensor, target: Tensor, bias: Tensor | None, smoothing: float, real: Tensor | None
) -> None:
    if x.shape[:-1] != target.shape or (real is not None and real.shape != target.shape):
        masked = "" if real is None else f", real {tuple(real.shape)}"
        raise ValueError(f"shapes do not match: x {tuple(x.shape)}, target {tuple(target.shape)}{masked}")
    if real is not None and real.dtype != torch.bool:
        raise ValueError(f"real must be bool (True: the position counts), got {real.dtype}")
    if weight.ndim != 2 or weight.shape[1] != x.shape[-1] or (bias is not None and bias.shape != weight.shape[:1]):
        added = "" if bias is None else f", bias {tuple(bias.shape)}"
        raise ValueError(f"shapes do not match: x {tuple(x.shape)}, weight {tuple(weight.shape)}{added}")
    if not 0 <= smoothing < 1:
        raise ValueError(f"smoothing must be at least 0 and less than 1, got {smoothing}")


def dense_cross_entropy(
    x: Tensor, weight: Tensor, target: Tensor, bias: Tensor | None, smoothing: float, real: Tensor | None
) -> CrossEntropy:
    """Cross-entropy with all logits at once, for torch.compile."""
    logits = F.linear(x, weight, bias).flatten(0, -2)
    target = (target if real is None else target.masked_fill(~real, -100)).flatten().long()
    loss = F.cross_entropy(logits, target, reduction="sum", label_smoothing=smoothing)
    seen = logits.detach()
    plain = F.cross_entropy(seen, target, reduction="sum")
    return CrossEntropy(loss, plain, (seen.argmax(-1) == target).sum())


class ChunkedCrossEntropy(torch.autograd.Function):
    """Chunked cross-entropy: the gradient is computed with the loss; the backward pass only scales it."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, smoothing: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        sweep = Sweep(x, weight, bias, smoothing, list(ctx.needs_input_grad[:3]))
        found = sweep.run(target)
        ctx.save_for_backward(*sweep.gradients())
        ctx.mark_non_differentiable(found.plain, found.right)
        return found.sum, found.plain, found.right

    @staticmethod
    def backward(ctx: Any, factor: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # create_graph=True, where a missing part would be silently zero
            raise RuntimeError(
                "this loss stores its gradient instead of its logits, so it does not support second derivatives"
            )
        return *(None if part is None else part * factor for part in ctx.saved_tensors), None, None


class Sweep:
    """One pass over all positions, some at a time.

    With p the softmax of a row of logits, its gradient is p - (1 - s) [at the target] - s / v. The last part is the
    same for every word and every position, so it is taken off the sums at the end instead of off every logit.
    """

    def __init__(self, x: Tensor, weight: Tensor, bias: Tensor | None, smoothing: float, learned: list[bool]) -> None:
        kind = x.device.type
        lower = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype
        self.precise = torch.promote_types(lower, torch.float32)  # of all but the factors of the products
        self.types = x.dtype, weight.dtype, None if bias is None else bias.dtype
        self.x, self.weight, self.smoothing = x.to(lower), weight.to(lower), smoothing
        self.bias = None if bias is None else bias.to(self.precise)
        self.by_x, self.by_weight, self.by_bias = (
            torch.zeros_like(part, dtype=self.precise) if part is not None and wanted else None
            for part, wanted in zip((x, weight, bias), learned, strict=True)
        )

    def run(self, target: Tensor) -> CrossEntropy:
        """(n,) -> three numbers"""
        n, words = len(target), len(self.weight)
        rows = max(LOGITS.get(target.device.type, LOGITS_ELSEWHERE) // words, FEWEST)
        total, own = (torch.empty(n, dtype=self.precise, device=target.device) for _ in range(2))
        right = torch.zeros((), dtype=torch.int64, device=target.device)
        with torch.autocast(target.device.type, enabled=False):
            buffer = torch.empty(min(rows, n), words, dtype=self.precise, device=target.device)
            for top in range(0, n, rows):
                part = slice(top, min(top + rows, n))
                right += self.some(part, target[part], buffer, total, own)
            plain = (total - own).sum()
            return CrossEntropy(self.smooth(plain, total, own), plain, right)

    def some(self, part: slice, target: Tensor, buffer: Tensor, total: Tensor, own: Tensor) -> Tensor:
        """Some positions: log of the sum over all words, the target's logit, gradients; how many are right."""
        x, each = self.x[part], torch.arange(len(target), device=target.device)
        y = self.logits(x, buffer[: len(target)])
        own[part] = y[each, target]
        y[each, target] = -torch.inf
        best = y.amax(1)  # of the other words
        y[each, target] = own[part]
        tied = (own[part] == best).nonzero()[:, 0]  # the first of equals is the largest
        right = (own[part] > best).sum() + (y[tied].argmax(1) == target[tied]).sum()
        highest = torch.maximum(best, own[part])
        y = y.sub_(highest[:, None]).exp_()
        sums = y.sum(1)
        total[part] = highest + sums.log()
        if self.by_x is not None or self.by_weight is not None or self.by_bias is not None:
            y[each, target] -= (1 - self.smoothing) * sums
            self.slopes(part, x, y, 1 / sums)
        return right

    def logits(self, x: Tensor, out: Tensor) -> Tensor:
        """(c, d) -> (c, v)"""
        if x.dtype != self.precise:
            out.copy_(x @ self.weight.T)
            return out if self.bias is None else out.add_(self.bias)
        return (
            torch.mm(x, self.weight.T, out=out)
            if self.bias is None
            else torch.addmm(self.bias, x, self.weight.T, out=out)
        )

    def slopes(self, part: slice, x: Tensor, y: Tensor, share: Tensor) -> None:
        """Add what y, the gradient of the logits but for a factor of each row, does to what is learned."""
        lower = y.to(x.dtype)
        if self.by_x is not None:
            self.by_x[part] = share[:, None] * (lower @ self.weight)
        if self.by_weight is not None:
            scaled = (share[:, None] * x).to(x.dtype)
            if x.dtype == self.precise:
                self.by_weight.addmm_(lower.T, scaled)
            else:
                self.by_weight += lower.T @ scaled
        if self.by_bias is not None:
            self.by_bias.addmv_(y.T, share)

    def smooth(self, plain: Tensor, total: Tensor, own: Tensor) -> Tensor:
        """The smoothed sum, and s / v off every gradient; the mean of a position's logits is x . mean(W) + mean(b)."""
        s, words = self.smoothing, len(self.weight)
        if not s:
            return plain.clone()
        x, mean = self.x.to(self.precise), self.weight.mean(0, dtype=self.precise)
        means = x @ mean if self.bias is None else x @ mean + self.bias.mean()
        if self.by_x is not None:
            self.by_x -= s * mean
        if self.by_weight is not None:
            self.by_weight -= s / words * x.sum(0)
        if self.by_bias is not None:
            self.by_bias -= s / words * len(x)
        return (total - (1 - s) * own - s * means).sum()

    def gradients(self) -> list[Tensor | None]:
        parts = zip((self.by_x, self.by_weight, self.by_bias), self.types, strict=True)
        return [None if part is None else part.to(kind) for part, kind in parts]
