"""One token from a distribution: the likeliest, or drawn from some share of it.

Top-k: Fan et al. (2018), https://arxiv.org/abs/1805.04833
Nucleus (top-p): Holtzman et al. (2020), https://arxiv.org/abs/1904.09751
Typical: Meister et al. (2023), https://arxiv.org/abs/2202.00666

Shapes: r rows, v vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.nn.arguments import explain_methods
from regard.nn.config import not_above_zero, not_at_least, not_finite, refuse


@explain_methods
@dataclass(frozen=True, kw_only=True)
class Sampling:
    """Sampling of tokens; the filters are applied in this order."""

    temperature: float = 1.0  # below 1 makes the distribution sharper
    top_k: int = 0  # top-k: the k most likely tokens; 0: all
    top_p: float = 1.0  # top-p (nucleus): the most likely tokens with this total probability
    typical: float = 1.0  # typical sampling: the tokens nearest to the expected surprise, with this total probability
    seed: int = 0  # random seed

    def __post_init__(self) -> None:
        wrong = not_above_zero(self, "temperature", "top_p", "typical") + not_at_least(0, self, "top_k", "seed")
        wrong += not_finite(self, "temperature")
        wrong += [
            f"{key} = {value} is greater than 1" for key in ("top_p", "typical") if (value := getattr(self, key)) > 1
        ]
        refuse(wrong)


def greedy_tokens(scores: Tensor, rows: Sequence[int]) -> Tensor:
    """(r, v) -> (r,)"""
    return scores.argmax(1)


class TokenSampler:
    """Tokens by chance. Each text has its own stream of random numbers, so its neighbours do not change it."""

    def __init__(self, settings: Sampling, numbers: Sequence[int] | None = None) -> None:
        self.settings, self.numbers = settings, numbers  # of the texts, by which their streams are known
        self.streams: dict[int, torch.Generator] = {}

    def __call__(self, scores: Tensor, rows: Sequence[int]) -> Tensor:
        """(r, v) log-probabilities, and which text each row is -> (r,)"""
        kept = cut(scores, self.settings)
        chance = torch.stack([torch.rand((), generator=self.stream(row), dtype=torch.float64) for row in rows])
        sums = kept.double().softmax(1).cumsum(1)
        drawn = torch.searchsorted(sums, (chance.to(sums.device) * sums[:, -1])[:, None], right=True)[:, 0]
        return drawn.clamp(max=scores.shape[1] - 1)

    def stream(self, row: int) -> torch.Generator:
        if row not in self.streams:
            number = row if self.numbers is None else self.numbers[row]
            self.streams[row] = torch.Generator().manual_seed((self.settings.seed * 1_000_003 + number) % 2**63)
        return self.streams[row]


def cut(scores: Tensor, settings: Sampling) -> Tensor:
    """(r, v) log-probabilities -> (r, v), minus infinity at what cannot be drawn."""
    scores = (scores / settings.temperature).log_softmax(1)
    if 0 < settings.top_k < scores.shape[1]:
        least = scores.topk(settings.top_k, 1).values[:, -1:]
        scores = scores.masked_fill(scores < least, -torch.inf)
    if settings.top_p < 1:
        scores = likely(scores, -scores, settings.top_p)
    if settings.typical < 1:
        scores = scores.log_softmax(1)
        surprise = -scores
        expected = torch.where(scores > -torch.inf, scores.exp() * surprise, 0.0).sum(1, keepdim=True)
        scores = likely(scores, (surprise - expected).abs(), settings.typical)
    return scores


def likely(scores: Tensor, distance: Tensor, share: float) -> Tensor:
    """Keep the nearest that together reach a share of the probability; always at least one."""
    order = distance.argsort(dim=1, stable=True)
    sums = scores.softmax(1).gather(1, order).cumsum(1)
    behind = torch.cat((torch.zeros_like(sums[:, :1]), sums[:, :-1]), 1) >= share  # reached before it
    return scores.masked_fill(torch.empty_like(behind).scatter_(1, order, behind), -torch.inf)
