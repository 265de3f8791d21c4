"""Encoders that guess hidden letters, each with another attention: tiny Shakespeare, the last tenth held out.

Of all letters 15 % are hidden, each behind the same sign; those held out are hidden once and for all, at the same
places for every net and every length. Positions are rotary, as in the letter models, and norms come first: BERT's own
way, learned positions and norms last, takes far more than minutes to find out what stands beside a hidden letter.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.figures.efficient.letters import HELD, drawn, play
from regard.figures.efficient.training import learn
from regard.figures.figure import seeded
from regard.nn.block import Block
from regard.nn.feedforward import MLP
from regard.nn.mechanisms import Choice, build_mixer
from regard.nn.positions import Rotary
from regard.nn.residual import Branch, PreNorm
from regard.nn.site import Site
from regard.nn.start import deviation

DIM, DEPTH, HEADS, BASE = 64, 4, 4, 10000.0
SHARE = 0.15


@dataclass(frozen=True)
class Course:
    """How many letters a net reads at once, in how many rows, and how often."""

    length: int
    batch: int
    steps: int
    rate: float = 2e-3


class Guesser(nn.Module):
    """Embedding, blocks, and the letters' own embeddings again to name what is hidden."""

    def __init__(self, choice: Choice, letters: int, length: int) -> None:
        super().__init__()
        self.sign = letters  # the one behind which letters are hidden
        self.embed = nn.Embedding(letters + 1, DIM)
        self.blocks = nn.ModuleList(self.block(choice, length) for _ in range(DEPTH))
        self.norm = nn.LayerNorm(DIM)
        for name, weight in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(weight)
            elif weight.ndim == 2:
                nn.init.normal_(weight, std=deviation(DIM))

    def block(self, choice: Choice, length: int) -> Block:
        rotary = Rotary(DIM // HEADS, base=BASE, layout="halves")
        mixer = build_mixer(choice, Site(dim=DIM, heads=HEADS, length=length, rotary=rotary))
        return Block(mixer, MLP(DIM, 4 * DIM), lambda: PreNorm(nn.LayerNorm(DIM), Branch(DIM)))

    def forward(self, ids: Tensor) -> Tensor:
        """(b, n) -> (b, n, d)"""
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        states: Tensor = self.norm(x)
        return states

    def surprise(self, ids: Tensor, chosen: Tensor) -> Tensor:
        """(b, n), bool (b, n) -> nats of a letter that is hidden; logits are made of these alone"""
        states = self(ids.masked_fill(chosen, self.sign))[chosen]
        return F.cross_entropy(F.linear(states, self.embed.weight), ids[chosen])


@cache
def held_out() -> tuple[Tensor, Tensor]:
    """Letters, and which of them are hidden.  -> (HELD,), bool (HELD,)"""
    chance = torch.rand(HELD, generator=torch.Generator().manual_seed(0))
    return torch.from_numpy(play().held_out)[:HELD], chance < SHARE


def built(choice: Choice, length: int, seed: int) -> Guesser:
    with seeded(seed):
        return Guesser(choice, play().vocab, length)


def batch_of(net: Guesser, length: int, batch: int) -> Callable[[], Tensor]:
    """-> what draws a batch and tells its loss"""
    return lambda: net.surprise(drawn(length, batch), torch.rand(batch, length) < SHARE)


def taught(choice: Choice, course: Course, seed: int) -> list[float]:
    """The losses of what is held out, at the marks of a course."""
    net = built(choice, course.length, seed)
    letters, chosen = (x.view(-1, course.length).split(course.batch) for x in held_out())

    def look() -> float:
        parts = [
            (float(net.surprise(some, which)), int(which.sum())) for some, which in zip(letters, chosen, strict=True)
        ]
        return sum(loss * count for loss, count in parts) / sum(count for _, count in parts)

    with seeded(seed):
        return learn(net, batch_of(net, course.length, course.batch), look, steps=course.steps, rate=course.rate)
