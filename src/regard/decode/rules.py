"""What may not be said next: each rule forbids tokens, given what was written so far.

Shapes: r rows, t tokens written so far, v vocabulary.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Rule = Callable[[Tensor, Tensor], Tensor]  # (r, v) log-probabilities, (r, t) written -> (r, v)


def ban_tokens(tokens: Sequence[int]) -> Rule:
    """Tokens that are no words, such as padding."""
    banned = torch.tensor(sorted(set(tokens)), dtype=torch.long)

    def rule(scores: Tensor, written: Tensor) -> Tensor:
        return scores.index_fill(1, banned.to(scores.device), -torch.inf)

    return rule


def min_tokens(shortest: int, end: Sequence[int]) -> Rule:
    """No end before there are so many tokens."""
    stop = ban_tokens(end)

    def rule(scores: Tensor, written: Tensor) -> Tensor:
        return stop(scores, written) if written.shape[1] < shortest else scores

    return rule


def no_repeat_ngrams(size: int, begun: int = 0) -> Rule:
    """No sequence of so many tokens twice (Paulus et al., 2018), https://arxiv.org/abs/1705.04304

    The first tokens, ``begun`` of them, may be what they like: somebody asked for them.
    """

    def rule(scores: Tensor, written: Tensor) -> Tensor:
        if written.shape[1] < max(size, begun):
            return scores
        scores = scores.clone()
        windows = written.unfold(1, size, 1)  # (r, places, size)
        tail = written[:, written.shape[1] - size + 1 :]
        said = (windows[..., :-1] == tail[:, None]).all(-1)  # where these tokens stood before
        row, place = said.nonzero(as_tuple=True)
        scores[row, windows[row, place, -1]] = -torch.inf
        return scores

    return rule


def forced_prefix(prefix: Sequence[int]) -> Rule:
    """These tokens first, in this order."""

    def rule(scores: Tensor, written: Tensor) -> Tensor:
        place = written.shape[1]
        if place >= len(prefix):
            return scores
        forced = torch.full_like(scores, -torch.inf)
        forced[:, prefix[place]] = scores[:, prefix[place]]
        return forced

    return rule
