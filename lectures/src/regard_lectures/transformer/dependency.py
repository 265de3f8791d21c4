"""3.6c: on which branches a layer depends, beta_ij of Liu et al. (2020), section 4.1, in an encoder of 6 layers.

What stands after branch i is a sum of all branches so far, each scaled down by the norms that it has passed:
x_i = sum_j C_ij, exactly, if C_ij is followed word by word. beta_ij is the size of C_ij, normalised in a row; j = 0 is
the embedding. Post-norm depends on the latest branches; pre-norm and Admin on all of them, and ever less on the latest.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.models.transformer import Config, Transformer
from regard.nn.mask import ALL
from regard.nn.residual import Admin, profile
from regard.nn.tap import capture
from regard_lectures.figure import Check, Numbers, above, below, equal, plain, seeded, within

TITLE = "Which branches a layer depends on"
DECKS = ("002",)
CLAIM = "Post-norm keeps depending on its latest branches; in pre-norm and Admin the share of branch i falls as 1/i."
EXPECTED = (
    "The output is a sum over branches; the share of branch i falls as 1/i for pre-norm and Admin, and post-norm"
    " keeps depending on its latest; Admin with omega = 1 is post-norm to the bit."
)
FOUND = (
    "The exponents of a branch’s share are -0.92 (pre-norm), -0.86 (Admin) and 0.05 (post-norm); the other identities"
    " hold to 4e-15."
)
COST = 2.5
SEED = 0

DEPTH, DEEP = 6, 32  # layers that are drawn; layers in which the fall of the shares is measured
Kind = Literal["post", "pre", "admin"]
TITLES: dict[Kind, str] = {"post": "post-norm", "pre": "pre-norm", "admin": "Admin"}


@dataclass(frozen=True, eq=False)
class Dependency:
    beta: Tensor  # (branches + 1, branches + 1), lower triangular; each row's squares add up to one
    error: float  # how far the parts are from adding up to what the encoder gives


def compute() -> Numbers:
    numbers: Numbers = {"fresh": float((fresh("admin") - fresh("post")).abs().max())}
    for kind in TITLES:
        small, deep = depend(kind, DEPTH), depend(kind, DEEP)
        numbers[kind] = {
            "beta": plain(small.beta, 3),
            "error": max(small.error, deep.error),
            "shares": plain(deep.beta.diagonal()[1:].square(), 3),  # of branch i in what stands after it
        }
    return numbers


@torch.no_grad()
def depend(kind: Kind, depth: int) -> Dependency:
    with seeded(SEED):
        config = Config(vocab=64, dim=64, depth=depth, decoder_depth=1, heads=4, hidden=256, dropout=0.0, norm=kind)
        model, words = Transformer(config).double().eval(), torch.randint(64, (32, 12))
    if kind == "admin":
        profile([model.encoder], lambda: model.encode(words))
    x = model.tokens(words, ALL)
    with capture(model.encoder, "*.branch.said") as said:
        output = model.encode(words)
    residuals = [residual for block in model.encoder for residual in (block.mixer_residual, block.ffn_residual)]
    parts, rows = [x], [[1.0]]
    for residual, branch in zip(residuals, (calls[0] for calls in said.values()), strict=True):
        if isinstance(residual, Admin):
            parts = [residual.omega * part for part in parts]
        parts.append(branch)
        if kind != "pre":
            parts = normed(parts)
        rows.append([float(centred(part).square().mean().sqrt()) for part in parts])
    whole = sum(normed(parts) if kind == "pre" else parts)
    beta = torch.zeros(len(rows), len(rows), dtype=torch.float64)
    for i, row in enumerate(rows):
        beta[i, : i + 1] = torch.tensor(row, dtype=torch.float64)
    return Dependency(beta / beta.norm(dim=1, keepdim=True), float((whole - output).abs().max()))


@torch.no_grad()
def fresh(kind: Kind) -> Tensor:
    """What an encoder gives before anything was profiled."""
    with seeded(SEED):
        config = Config(vocab=64, dim=64, depth=DEPTH, decoder_depth=1, heads=4, hidden=256, norm=kind)
        return Transformer(config).eval().encode(torch.randint(64, (4, 12)))


def centred(x: Tensor) -> Tensor:
    return x - x.mean(-1, keepdim=True)


def normed(parts: list[Tensor]) -> list[Tensor]:
    """What a fresh layer norm makes of a sum, part by part: all are divided by the spread of the sum."""
    spread = (torch.stack(parts).sum(0).var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt()
    return [centred(part) / spread for part in parts]


def fall(shares: list[float]) -> float:
    """The exponent p of share ~ i^p for a feed-forward branch, by least squares on logarithms."""
    places = torch.arange(2, len(shares) + 1, 2).log()
    values = torch.tensor(shares[1::2]).log()
    places, values = places - places.mean(), values - values.mean()
    return float((places * values).sum() / places.square().sum())


def draw(numbers: Numbers) -> Figure:
    note = "Row $i$: of what the stream after branch $i$ is made, before training; column 0 is the embedding."
    figure = style.page(TITLE, note, height=4.95)
    panels = figure.subplots(1, 3)
    for axes, (kind, title) in zip(panels, TITLES.items(), strict=True):
        beta = torch.tensor(numbers[kind]["beta"])
        shown = beta.where(torch.ones_like(beta).tril().bool(), torch.nan).numpy()
        axes.pcolormesh(shown, cmap=style.WEIGHTS, norm=PowerNorm(0.7, 0, 1), edgecolors="white", linewidth=1.2)
        last = len(beta) - 1
        axes.set(title=title, aspect="equal", xlim=(0, last + 1), ylim=(last + 1, 0), xlabel="of branch $j$")
        axes.spines[:].set_visible(False)
        axes.set_xticks([0.5, 6.5, 12.5], ["0", "6", "12"])
        axes.set_yticks([0.5, 6.5, 12.5], ["0", "6", "12"] if axes is panels[0] else [])
        share = float(beta[-1, -1] ** 2)
        text = f"last branch: {style.percent(share)}"
        axes.text(last + 0.9, 1.2, text, ha="right", va="center", size=11, color=style.WEIGHT)
    panels[0].set_ylabel("after branch $i$")
    return figure


def checks(numbers: Numbers) -> list[Check]:
    checks = [
        below(f"{kind}: the parts add up to the encoder’s output", numbers[kind]["error"], 1e-10) for kind in TITLES
    ]
    shares = {kind: numbers[kind]["shares"] for kind in TITLES}
    checks += [
        within("post, 64 branches: exponent of a branch’s share (constant: 0)", fall(shares["post"]), -0.3, 0.3),
        within("pre, 64 branches: exponent of a branch’s share (1/i: -1)", fall(shares["pre"]), -1.3, -0.7),
        within("Admin, 64 branches: exponent of a branch’s share (1/i: -1)", fall(shares["admin"]), -1.3, -0.7),
        equal("Admin with omega = 1 is post-norm to the bit: largest difference", numbers["fresh"], 0.0),
        above("64 branches, share of the last: post over pre", shares["post"][-1] / shares["pre"][-1], 5),
    ]
    return checks
