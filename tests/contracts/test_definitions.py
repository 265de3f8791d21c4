"""Each mechanism against its paper's formula, written out pair by pair."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from regard.nn.attention import Kernel
from regard.nn.mask import Bias, Mask, TensorBias
from tests.contracts.tools import CHOICES, DECODERS, HEADS, KERNELS, WIDTH, close, kernel, numbers, ragged, spelled

# The score of one query and one key in head h, (e), (e) -> number; of the rows that are a softmax of such scores, or
# their mean.
SCORES: dict[str, Callable[[Kernel, int, Tensor, Tensor], Tensor]] = {
    "softmax": lambda x, h, q, k: q.dot(k) / math.sqrt(WIDTH),
    "softmax-scale": lambda x, h, q, k: q.dot(k) * 1.7,
    "dot": lambda x, h, q, k: q.dot(k),
    "general": lambda x, h, q, k: q.dot(x.matrix[h] @ k),
    "additive": lambda x, h, q, k: x.score[h, :, 0].dot(torch.tanh(q + k)),
    "concat": lambda x, h, q, k: x.score[h, :, 0].dot(
        torch.tanh(torch.cat((x.queries[h], x.keys[h])).T @ torch.cat((q, k)))
    ),
    "cosine": lambda x, h, q, k: q.dot(k) / q.norm() / k.norm() * min(float(x.log_scale[h].exp()), 100.0),
    "top-k": lambda x, h, q, k: q.dot(k) / math.sqrt(WIDTH),
    "top-k-keep": lambda x, h, q, k: q.dot(k) / math.sqrt(WIDTH),
    "local-p": lambda x, h, q, k: q.dot(k),
    "local-p-window": lambda x, h, q, k: q.dot(k),
    "talking": lambda x, h, q, k: q.dot(k) / math.sqrt(WIDTH),
    "mean-dot": lambda x, h, q, k: q.dot(k),
    "mean-concat": lambda x, h, q, k: torch.cat((x.queries[h, :, 0], x.keys[h, :, 0])).dot(torch.cat((q, k))).relu(),
}


def by_hand(name: str, attention: Kernel, q: Tensor, k: Tensor, allowed: Tensor, bias: Tensor) -> Tensor:
    """(h, q, e), (h, k, e), bool (h, q, k), (h, q, k) -> (h, q, k)"""
    rows, columns = q.shape[1], k.shape[1]
    scores, weights = numbers(HEADS, rows, columns), torch.zeros(HEADS, rows, columns).double()
    for h in range(HEADS):
        for i in range(rows):
            for j in range(columns):
                scores[h, i, j] = SCORES[name](attention, h, q[h, i], k[h, j])
    if name == "talking":
        mix = attention.before
        scores = torch.einsum("gh,hij->gij", mix.weight, scores) + mix.bias[:, None, None]
    scores = scores + bias
    for h in range(HEADS):
        for i in range(rows):
            seen = [j for j in range(columns) if allowed[h, i, j]]
            real = sorted(j for j in range(columns) if allowed[:, :, j].any())  # of a ragged row
            if name.startswith("top-k"):
                seen = sorted(seen, key=lambda j: -scores[h, i, j])[: attention.keep]
            if name.startswith("local-p"):
                centre = len(real) * torch.sigmoid(
                    attention.place[h, :, 0] @ torch.tanh(attention.hidden[h].T @ q[h, i])
                )
                seen = [j for j in seen if abs(real.index(j) - centre) <= attention.window]
            for j in seen:
                if name.startswith("mean"):
                    weights[h, i, j] = scores[h, i, j] / len(seen)
                    continue
                share = 1 / sum(math.exp(scores[h, i, other] - scores[h, i, j]) for other in seen)
                if name.startswith("local-p"):
                    share *= math.exp(-((real.index(j) - centre) ** 2) / (2 * (attention.window / 2) ** 2))
                weights[h, i, j] = share
    if name == "talking":
        mix = attention.after
        weights = torch.einsum("gh,hij->gij", mix.weight, weights) + mix.bias[:, None, None]
        weights = torch.where(allowed, weights, 0.0)
    return weights


@torch.no_grad()
@pytest.mark.parametrize("name", [name for name in KERNELS if name in SCORES])
@pytest.mark.parametrize("case", ["plain", "bias", "keys", "pairs", "causal"])
def test_formula(name: str, case: str) -> None:
    attention, rows, columns = kernel(CHOICES[name]), 4, 7
    q, k = numbers(3, HEADS, rows, WIDTH), numbers(3, HEADS, columns, WIDTH)
    mask, bias = Mask(), None
    if case == "keys":
        mask = Mask(keys=ragged(3, columns, "left"))
    if case == "pairs":
        mask = Mask(pairs=torch.rand(3, HEADS, rows, columns) < 0.7)
        mask.pairs[..., 0] = mask.pairs[..., -1] = True  # each key is somebody's, so none counts as padding
        mask.pairs[:, :, 0] = True
    if case == "causal" and name in DECODERS:
        mask = Mask(causal=True, start=2)
    added: Bias | None = None
    if case == "bias":
        bias = numbers(HEADS, rows, columns)
        added = TensorBias(bias)
    found = attention.weights(q, k, mask, added)
    allowed = spelled(mask, 3, rows, columns)
    for b in range(3):
        nothing = torch.zeros(HEADS, rows, columns).double()
        close(found[b], by_hand(name, attention, q[b], k[b], allowed[b], nothing if bias is None else bias))


def test_of_equal_keys_top_k_keeps_the_earlier() -> None:
    attention = kernel({"kind": "top-k", "keep": 2})
    weights = attention.weights(numbers(1, 1, 1, WIDTH), torch.ones(1, 1, 300, WIDTH).double())
    close(weights.flatten(), torch.tensor([0.5, 0.5] + [0] * 298).double())


def test_cosine_does_not_mind_how_large_queries_and_keys_are() -> None:
    attention, q, k = kernel("cosine"), numbers(1, HEADS, 3, WIDTH), numbers(1, HEADS, 4, WIDTH)
    close(attention.weights(q * 50, k / 50), attention.weights(q, k))
    with torch.no_grad():
        attention.log_scale.fill_(9.0)  # tau stays above 0.01
    ratio = attention.weights(q, torch.stack((q[:, :, 0], -q[:, :, 0]), 2))[:, :, 0]
    close(ratio[..., 1].log() - ratio[..., 0].log(), torch.full((1, HEADS), -200.0).double())


def test_constant_scores_give_the_mean_and_large_ones_a_look_up() -> None:
    """systems.md 2.1: the two extremes."""
    q, v = torch.eye(6, dtype=torch.float64).expand(1, HEADS, 6, 6), numbers(1, HEADS, 6, 5)
    close(kernel("softmax")(q * 0, q, v), v.mean(2, keepdim=True).expand(1, HEADS, 6, 5))
    close(kernel({"kind": "softmax", "scale": 100.0})(q, q, v), v)
    close(kernel("softmax")(q * 1e3, q, v), v)
