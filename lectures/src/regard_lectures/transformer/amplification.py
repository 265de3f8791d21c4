"""3.6b: the right picture of deck 002's "Training Transformers", amplification: Liu et al. (2020), section 4.

All weights are moved by Gaussian noise of 1/1000 of their own spread; what moves is the output. By the paper's theory
its square grows as the number N of branches for post-norm, and as log N for pre-norm and Admin (which has profiled one
batch). The theory is about independent branches: feed-forward layers alone are that, and follow it. In an encoder,
where every other branch is attention, post-norm grows even a little faster: there words become alike.

Five sizes do not prove a logarithm. For pre-norm and Admin a + b log N explains 0.98 to 0.99 of the variance, the best
power of N (0.41 to 0.53) 0.97 to 0.99: the logarithm is ahead in three of the four cases, and behind for pre-norm in
the encoder.
"""

import math
from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard import style
from regard.comparison.measure import cost_exponent
from regard.models.transformer import Config, Transformer
from regard.nn.feedforward import FeedForward
from regard.nn.residual import Branch, build_residual, profile
from regard_lectures.figure import Check, Numbers, above, below, plain, seeded, within

TITLE = "Amplification of small changes"
DECKS = ("002",)
CLAIM = "A small change of all weights moves a post-norm output as N branches do, a pre-norm or Admin one as log N."
EXPECTED = (
    "A small change of all weights moves a post-norm output about linearly in the number N of branches, a pre-norm or"
    " Admin one as log N, and the latter two nearly equally."
)
FOUND = (
    "Post-norm grows as N^1.05, in the encoder as N^1.23, which is more than about linear; for pre-norm and Admin log N"
    " explains 98 to 99 %, but the best power of N (0.41 to 0.53) nearly as much, 97 to 99 %, and more for pre-norm in"
    " the encoder; the two are within 1.14 of each other."
)
COST = 30.0
SEED = 0

BRANCHES = [4, 8, 16, 32, 64]
NOISE = 1e-3
DRAWS = {"alone": 16, "encoder": 8}
Kind = Literal["post", "pre", "admin"]
KINDS: dict[Kind, str] = {"post": style.SECOND, "pre": style.WEIGHT, "admin": style.INK}
DIM, HIDDEN = 64, 128


class FeedForwards(nn.Module):
    """Residual branches that are feed-forward layers, and nothing else."""

    def __init__(self, kind: Kind, branches: int) -> None:
        super().__init__()
        self.residuals = nn.ModuleList(
            build_residual(kind, nn.LayerNorm(DIM), Branch(DIM), DIM) for _ in range(branches)
        )
        self.parts = nn.ModuleList(FeedForward(DIM, HIDDEN, F.relu) for _ in range(branches))
        for name, weight in self.parts.named_parameters():
            if name.endswith("weight"):
                nn.init.xavier_uniform_(weight)
            else:
                nn.init.zeros_(weight)
        self.norm = nn.LayerNorm(DIM) if kind == "pre" else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """(b, d) -> (b, d)"""
        for residual, part in zip(self.residuals, self.parts, strict=True):
            x = residual(x, part)
        y: Tensor = self.norm(x)
        return y


def compute() -> Numbers:
    numbers: Numbers = {"branches": BRANCHES}
    for name, change in (("alone", alone), ("encoder", encoder)):
        numbers[name] = {}
        for kind in KINDS:
            seeds = range(SEED, SEED + DRAWS[name])
            moved = [[change(kind, count, seed) for seed in seeds] for count in BRANCHES]
            numbers[name][kind] = plain(torch.tensor(moved, dtype=torch.float64).mean(1), 4)
    return numbers


def alone(kind: Kind, branches: int, seed: int) -> float:
    with seeded(seed):
        model, x = FeedForwards(kind, branches).double(), F.layer_norm(torch.randn(64, DIM).double(), (DIM,))
        return change(model, lambda: model(x), kind)


def encoder(kind: Kind, branches: int, seed: int) -> float:
    """Each layer has two branches, attention and a feed-forward."""
    with seeded(seed):
        sizes = Config(vocab=64, dim=DIM, depth=branches // 2, decoder_depth=1, heads=4, hidden=HIDDEN, norm=kind)
        model, words = Transformer(sizes).double().eval(), torch.randint(64, (16, 12))
        return change(model.encoder, lambda: model.encode(words), kind)


@torch.no_grad()
def change(stack: nn.Module, run: Callable[[], Tensor], kind: Kind) -> float:
    """The mean square by which each number of the output moves when all weights do."""
    if kind == "admin":
        profile([stack], run)
    before = run()
    for weight in stack.parameters():
        weight.add_(torch.randn_like(weight), alpha=NOISE * float(weight.std(unbiased=False)))
    return float((run() - before).square().mean())


def explained(sizes: list[int], y: list[float], law: Callable[[float], float]) -> float:
    """How much of the variance of y a straight line over law(N) explains."""
    both = torch.tensor([[law(size) for size in sizes], y], dtype=torch.float64)
    return float(torch.corrcoef(both)[0, 1] ** 2)


def best_power(sizes: list[int], y: list[float]) -> tuple[float, float]:
    """How much of the variance of y the best c N^p explains, and its p."""
    found, values = [], torch.tensor(y, dtype=torch.float64)
    for hundredth in range(5, 200):
        law = torch.tensor(sizes, dtype=torch.float64) ** (hundredth / 100)
        rest = values - law * (values @ law) / (law @ law)
        found.append((1 - float(rest.square().sum() / (values - values.mean()).square().sum()), hundredth / 100))
    return max(found)


def draw(numbers: Numbers) -> Figure:
    sizes = numbers["branches"]
    flat = [numbers[name][kind] for name in DRAWS for kind in ("pre", "admin")]
    logs, powers = [explained(sizes, y, math.log) for y in flat], [best_power(sizes, y)[0] for y in flat]
    note = (
        "Mean square change of the output when all weights move by 0.1 % of their spread; $N$ residual branches."
        f"\nOf pre and Admin $a + b\\,\\log N$ explains {100 * min(logs):.0f} to {100 * max(logs):.0f} %, the best"
        f" power of $N$ {100 * min(powers):.0f} to {100 * max(powers):.0f} %: five sizes do not tell the two apart."
    )
    figure = style.page(TITLE, note, height=5.2)
    panels = figure.subplots(1, 2, sharey=True)
    titles = {"alone": "feed-forward branches alone", "encoder": "the Transformer’s encoder"}
    for axes, (name, title) in zip(panels, titles.items(), strict=True):
        for kind, tint in KINDS.items():
            y = numbers[name][kind]
            axes.plot(sizes, y, color=tint, marker="o", ls="--" if kind == "admin" else "-")
            growth = f"$N^{{{cost_exponent(sizes, y):.1f}}}$"
            if kind != "post":
                growth = f"$\\log N$, $N^{{{best_power(sizes, y)[1]:.1f}}}$"
            text = f"{kind.title() if kind == 'admin' else kind}  {growth}"
            style.end_label(axes, sizes[-1], y[-1], text, tint, dy={"pre": 7, "admin": -9}.get(kind, 0))
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(sizes, sizes)
        axes.set(xlim=(3.5, 280), xlabel="branches $N$", title=title)
        axes.minorticks_off()
        axes.grid(axis="y")
        axes.spines["left"].set_visible(False)
    return figure


def checks(numbers: Numbers) -> list[Check]:
    sizes, ours, real = numbers["branches"], numbers["alone"], numbers["encoder"]
    checks = [
        within("branches alone, post: exponent of growth (linear: 1)", cost_exponent(sizes, ours["post"]), 0.8, 1.2),
        above("branches alone, post: explained by a + b N", explained(sizes, ours["post"], float), 0.97),
        within("encoder, post: exponent of growth (linear: 1)", cost_exponent(sizes, real["post"]), 0.8, 1.2),
    ]
    for name, found in (("branches alone", ours), ("encoder", real)):
        for kind in ("pre", "admin"):
            share = explained(sizes, found[kind], math.log)
            checks.append(above(f"{name}, {kind}: explained by a + b log N", share, 0.97))
            more = share - best_power(sizes, found[kind])[0]
            checks.append(above(f"{name}, {kind}: that, over what the best power of N explains", more, 0))
        ratios = [admin / pre for admin, pre in zip(found["admin"], found["pre"], strict=True)]
        checks.append(below(f"{name}: Admin and pre, largest ratio", max(max(r, 1 / r) for r in ratios), 1.25))
        checks.append(above(f"{name}, 64 branches: post over pre", found["post"][-1] / found["pre"][-1], 3))
    return checks
