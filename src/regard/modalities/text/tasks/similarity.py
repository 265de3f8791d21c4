"""Similarity: texts that mean the same shall have embeddings that point the same way, and others not.

Sentence-BERT (Reimers and Gurevych, 2019), https://arxiv.org/abs/1908.10084: the mean of a text's states, compared by
the cosine. Each text's partner must be told from those of all other rows (Henderson et al., 2017),
https://arxiv.org/abs/1705.00652, so the loss is one of the whole batch: it does not add up over a split of it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.modalities.text.framing import Couples
from regard.nn.pool import pool_mean
from regard.tasks.task import Loss, Task, Term


class Similar(Task):
    goal = "-recall"
    indivisible = ("loss",)

    def __init__(self, net: nn.Module, temperature: float = 0.05) -> None:
        self.parts = {"net": net}
        self.net: Any = net
        self.temperature = temperature

    def counts(self, batch: Couples) -> Mapping[str, float]:
        return {"texts": float(len(batch.ids))}

    def losses(self, batch: Couples, step: int) -> Iterator[Loss]:
        near = self.cosines(batch) / self.temperature
        wanted = torch.arange(len(near), device=near.device)
        both = F.cross_entropy(near, wanted, reduction="sum") + F.cross_entropy(near.T, wanted, reduction="sum")
        yield Loss("net", {"loss": Term(both / 2, "texts")})

    def cosines(self, batch: Couples) -> Tensor:
        """Of each first text with each second one.  -> (b, b)"""
        one = pool_mean(self.net.read(batch.ids, keys=batch.keys), batch.keys)
        two = pool_mean(self.net.read(batch.other_ids, keys=batch.other_keys), batch.other_keys)
        return F.normalize(one, dim=-1) @ F.normalize(two, dim=-1).T

    def evaluate(self, batch: Couples) -> Mapping[str, Tensor]:
        near = self.cosines(batch)
        wanted = torch.arange(len(near), device=near.device)
        return {
            "loss": F.cross_entropy(near / self.temperature, wanted, reduction="sum"),
            "right": (near.argmax(-1) == wanted).sum(),
            "texts": torch.tensor(len(near), device=near.device),
        }

    def metrics(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        """The partner is looked for among those of one batch."""
        texts = max(float(sums["texts"]), 1.0)
        return {"loss": float(sums["loss"]) / texts, "recall": float(sums["right"]) / texts}
