"""The copy task, and the training loop of the figures that compare where the norm stands.

The source is a row of random words, the target the same row; the decoder must find each word by cross-attention, for
what it is given of the target comes one word late. Whoever learns nothing stays at log V.
"""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.models.transformer import Config, Transformer
from regard_lectures.figure import seeded

WORDS, DIM = 8, 128
CHANCE = math.log(WORDS)
START = 0


def late(source: Tensor) -> Tensor:
    """What the decoder is given: a start symbol, then each word one place late."""
    return F.pad(source[:, :-1], (1, 0), value=START)


def learn(
    placement: Literal["post", "pre", "admin"],
    depth: int,
    *,
    seed: int,
    steps: int,
    batch: tuple[int, int],
    rate: float,
    warm: int = 0,
) -> list[float]:
    """Train a Transformer of so many encoder and decoder layers on so many sentences of so many words at a time, with
    the paper's Adam.  -> the loss at every step, as a share of log V"""
    with seeded(seed):
        config = Config(vocab=WORDS + 1, dim=DIM, depth=depth, heads=4, hidden=DIM, dropout=0.0, norm=placement)
        model = Transformer(config)
        if placement == "admin":
            source = torch.randint(1, WORDS + 1, batch)
            model.profile(source, late(source))
        optimizer = torch.optim.Adam(model.parameters(), rate, (0.9, 0.98), 1e-9, fused=True)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: share(step, steps, warm))
        history = []
        for _ in range(steps):
            source = torch.randint(1, WORDS + 1, batch)
            loss = F.cross_entropy(model(source, late(source)).flatten(0, 1), source.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            history.append(loss.item() / CHANCE)
    return history


def share(step: int, steps: int, warm: int) -> float:
    """How much of the full rate: along a line up to all of it, then along a cosine down to nothing."""
    return (step + 1) / warm if step < warm else (1 + math.cos(math.pi * (step - warm) / (steps - warm))) / 2


def smooth(history: list[float], width: int = 5) -> list[float]:
    """Means of so many steps each."""
    return [float(f"{sum(history[i : i + width]) / width:.4g}") for i in range(0, len(history), width)]
