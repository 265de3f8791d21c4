"""Hidden Markov models: symbols that come from states, and states that come from the state before.

Baum et al. (1970); A tutorial on hidden Markov models (Rabiner, 1989), https://doi.org/10.1109/5.18626
    alpha_t(j) = b_j(x_t) sum_i alpha_(t-1)(i) A_ij
All in logarithms: products of many probabilities are too small for any number.

Shapes: s states, v symbols, b texts, t symbols of a text.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class HMM:
    start: Tensor  # (s,): log-probabilities of the first state
    move: Tensor  # (s, s): of the next state, rows add up to 1
    emit: Tensor  # (s, v): of a symbol

    @classmethod
    def drawn(cls, states: int, vocab: int, seed: int = 0) -> "HMM":
        """Unequal at random: from equal states nothing could be learned, for they would stay equal."""
        draw = torch.Generator().manual_seed(seed)

        def rows(*shape: int) -> Tensor:
            return torch.rand(*shape, generator=draw, dtype=torch.float64).add(0.5).log().log_softmax(-1)

        return cls(rows(states), rows(states, states), rows(states, vocab))

    def forward(self, texts: Tensor) -> Tensor:
        """(b, t) -> (b, t, s): log p(x_1 .. x_t, state at t)"""
        seen = self.emit.T[texts]  # (b, t, s)
        alpha = [self.start + seen[:, 0]]
        for i in range(1, texts.shape[1]):
            alpha.append(torch.logsumexp(alpha[-1][:, :, None] + self.move, 1) + seen[:, i])
        return torch.stack(alpha, 1)

    def backward(self, texts: Tensor) -> Tensor:
        """(b, t) -> (b, t, s): log p(x_(t+1) .. | state at t)"""
        seen = self.emit.T[texts]
        beta = [torch.zeros_like(seen[:, 0])]
        for i in range(texts.shape[1] - 1, 0, -1):
            beta.append(torch.logsumexp(self.move + (seen[:, i] + beta[-1])[:, None, :], 2))
        return torch.stack(beta[::-1], 1)

    def likelihood(self, texts: Tensor) -> Tensor:
        """(b, t) -> (b,): log p(text)"""
        return torch.logsumexp(self.forward(texts)[:, -1], -1)

    def viterbi(self, texts: Tensor) -> tuple[Tensor, Tensor]:
        """Viterbi algorithm: (b, t) -> (b, t), (b,): the most likely states and their joint log-probability with the
        text"""
        seen = self.emit.T[texts]
        best, came = self.start + seen[:, 0], []
        for i in range(1, texts.shape[1]):
            ways = best[:, :, None] + self.move  # (b, from, to)
            found = ways.max(1)
            came.append(found.indices)
            best = found.values + seen[:, i]
        score, last = best.max(1)
        path = [last]
        for back in reversed(came):
            path.append(back.gather(1, path[-1][:, None])[:, 0])
        return torch.stack(path[::-1], 1), score

    def improved(self, texts: Tensor) -> "HMM":
        """One Baum-Welch (EM) iteration. The likelihood of the texts never decreases."""
        alpha, beta = self.forward(texts), self.backward(texts)
        whole = torch.logsumexp(alpha[:, -1], -1)
        states = (alpha + beta - whole[:, None, None]).exp()  # (b, t, s)
        ahead = self.emit.T[texts] + beta - whole[:, None, None]
        steps = torch.zeros_like(self.move)
        for i in range(1, texts.shape[1]):  # of all places at once, (b, t, s, s) would not fit into the memory
            steps += (alpha[:, i - 1, :, None] + self.move + ahead[:, i, None, :]).exp().sum(0)
        counts = torch.zeros_like(self.emit).T.index_add(0, texts.flatten(), states.flatten(0, 1)).T
        return HMM(*(normal(x) for x in (states[:, 0].sum(0), steps, counts)))


def normal(counts: Tensor) -> Tensor:
    """Log-probabilities of counts; what was never counted is impossible, and what never occurs has equal chances."""
    total = counts.sum(-1, keepdim=True)
    return torch.where(total > 0, counts / total, 1 / counts.shape[-1]).log()
