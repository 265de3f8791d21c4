"""3.5: where the norm stands. Left the block of Vaswani et al. (2017), norm(x + f(x)); right that of Xiong et al.
(2020), x + f(norm(x)), which needs one more norm at the end of the stack.

The blocks are drawn from the module tree while it ran; both are checked against PyTorch's own encoder layer.
"""

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard import style
from regard.models.transformer import Config
from regard.nn.attention import MultiHeadAttention
from regard.nn.block import Block
from regard.nn.feedforward import FeedForward, activation
from regard.nn.residual import Branch, Placement, build_residual
from regard_lectures.figure import Check, Numbers, below, equal, seeded
from regard_lectures.transformer.anatomy import dissect
from regard_lectures.transformer.diagram import Look, framed, norm, tower

TITLE = "Post-norm and pre-norm"
DECKS = ("002",)
CLAIM = "Post: x ← norm(x + f(x)). Pre: x ← x + f(norm(x)), with one more norm at the end of the stack."
EXPECTED = (
    "Post-norm is x ← norm(x + f(x)), pre-norm x ← x + f(norm(x)) with one more norm at the end, as in PyTorch’s"
    " layers."
)
FOUND = "The norms stand where they should, and PyTorch’s layers differ by at most 3e-15."
COST = 2.0
SEED = 0

DIM, HEADS, HIDDEN = 16, 4, 32


def compute() -> Numbers:
    kinds = {"post": Config(norm="post"), "pre": Config(norm="pre")}
    numbers: Numbers = {name: dissect(config)["encoder"] for name, config in kinds.items()}
    with seeded(SEED), torch.no_grad():
        x = torch.randn(2, 5, DIM, dtype=torch.float64)
        numbers["difference"] = {"post": compared("post", x), "pre": compared("pre", x)}
    return numbers


def compared(placement: Placement, x: Tensor) -> float:
    """How far our block is from PyTorch's encoder layer with the same weights."""
    theirs = nn.TransformerEncoderLayer(
        DIM, HEADS, HIDDEN, 0.0, batch_first=True, norm_first=placement == "pre", dtype=torch.float64
    )
    for weight in theirs.parameters():
        nn.init.normal_(weight, std=0.5)
    ours = Block(
        attention := MultiHeadAttention(DIM, HEADS),
        feed := FeedForward(DIM, HIDDEN, activation("relu")),
        lambda: build_residual(placement, nn.LayerNorm(DIM), Branch(DIM), DIM),
    ).double()
    packed = theirs.self_attn.in_proj_weight.chunk(3), theirs.self_attn.in_proj_bias.chunk(3)
    for layer, rows, bias in zip((attention.q, attention.k, attention.v), *packed, strict=True):
        assert layer is not None
        layer.weight.copy_(rows)
        layer.bias.copy_(bias)
    same: list[tuple[nn.Module, nn.Module]] = [(attention.out, theirs.self_attn.out_proj)]
    same += [(feed.up, theirs.linear1), (feed.down, theirs.linear2)]
    same += [(ours.mixer_residual.norm, theirs.norm1), (ours.ffn_residual.norm, theirs.norm2)]
    for ours_part, their_part in same:
        ours_part.load_state_dict(their_part.state_dict())
    return float((ours(x) - theirs(x)).abs().max())


def draw(numbers: Numbers) -> Figure:
    note = (
        "One layer of the encoder, drawn from the module tree. Follow the path past the parts: on the right it is free."
    )
    figure = style.page(TITLE, note, height=6.45)
    axes = style.stage(figure)
    column(axes, 2.5, "post-norm", "$x \\leftarrow \\mathrm{norm}(x + f(x))$", numbers["post"])
    column(axes, 7.3, "pre-norm", "$x \\leftarrow x + f(\\mathrm{norm}(x))$", numbers["pre"])
    return figure


def column(axes: Axes, x: float, name: str, rule: str, found: Numbers) -> None:
    style.write(axes, x - 1.75, 5.0, name, ha="left", va="baseline", size=13, weight="bold")
    style.write(axes, x + 1.7, 5.0, rule, ha="right", va="baseline", size=15)
    look, low = Look(unit=1.12), 0.62
    style.write(axes, x, 0.2, "$x$", size=17)
    style.arrow(axes, (x, 0.34), (x, low), head=0)
    end = tower(axes, x, low, found["parts"], look, side=-1)
    framed(axes, x, low, end.top + 0.14, found["depth"], look, side=1)
    top = end.top + 0.34
    style.arrow(axes, (x, end.top), (x, top), head=0)
    top = norm(axes, x, top, look) if found["final"] else top
    style.arrow(axes, (x, top), (x, 4.8))


def checks(numbers: Numbers) -> list[Check]:
    post, pre = numbers["post"], numbers["pre"]
    return [
        equal("post: norms stand", " ".join(part["norm"] for part in post["parts"]), "after after"),
        equal("pre: norms stand", " ".join(part["norm"] for part in pre["parts"]), "before before"),
        equal("post: a norm at the end of the stack", post["final"], False),
        equal("pre: a norm at the end of the stack", pre["final"], True),
        below("post: difference to PyTorch's layer", numbers["difference"]["post"], 1e-10),
        below("pre: difference to PyTorch's layer", numbers["difference"]["pre"], 1e-10),
    ]
