"""2.5: deck 001's arithmetic. Where GPT-3's 175 billion parameters are, and what splitting the value map saves.

Nothing is typed in but the model's sizes: the network is built without memory and its matrices are counted. One head's
value map from width to width would have d x d entries; as a product W^V W^O it has 2 d d_v.
"""

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard import style
from regard.models.gpt import GPT, Config
from regard.nn.attention import MultiHeadAttention
from regard.nn.block import Block
from regard_lectures.figure import Check, Numbers, equal, within

TITLE = "Where GPT-3’s parameters are"
DECKS = ("001",)
CLAIM = (
    "Split into W^V W^O, a head's value map costs as little as its queries and keys; MLPs hold two thirds of the model."
)
EXPECTED = (
    "Counted in the built network, GPT-3’s matrices have the numbers of the slide: 57,982,058,496 weights in"
    " attention, 115,964,116,992 in MLPs, and so on."
)
FOUND = (
    "All 12 counts are exact; matrices and tables together have 174.59 billion weights, 174.60 with biases and norms."
)
COST = 0.8
SEED = 0

GPT3 = Config(vocab=50257, length=2048, dim=12288, depth=96, heads=96)


def compute() -> Numbers:
    with torch.device("meta"):
        model = GPT(GPT3)
    block = model.blocks[0]
    assert isinstance(block, Block)
    attention = block.mixer
    assert isinstance(attention, MultiHeadAttention)
    assert model.positions is not None
    parts = {"q": attention.q, "k": attention.k, "v": attention.v, "o": attention.out}
    matrices = {name: linear.weight.numel() for name, linear in parts.items() if linear is not None}
    ffn = sum(parameter.numel() for parameter in block.ffn.parameters() if parameter.ndim == 2)
    layer = sum(matrices.values())
    split = {"attention": layer * GPT3.depth, "mlp": ffn * GPT3.depth, "embedding": model.embed.weight.numel()}
    split["positions"] = model.positions.weight.numel()
    total = sum(parameter.numel() for parameter in model.parameters())
    return {
        "width": GPT3.dim,
        "head width": attention.q.out_features // GPT3.heads,
        "heads": GPT3.heads,
        "layers": GPT3.depth,
        "one head": {name: count // GPT3.heads for name, count in matrices.items()},
        "unsplit value map": GPT3.dim**2,
        "per head": layer // GPT3.heads,
        "attention per layer": layer,
        "mlp per layer": ffn,
        **split,
        "matrices": sum(split.values()),
        "total": total,
        "biases and norms": total - sum(split.values()),
    }


def draw(numbers: Numbers) -> Figure:
    layers, heads, wide, narrow = (numbers[name] for name in ("layers", "heads", "width", "head width"))
    note = (
        f"{layers} layers of {heads} heads, width {wide:,}, head width {narrow}. Squares and strips are drawn to scale."
    )
    figure = style.page(TITLE, note, height=6.3)
    axes = style.stage(figure)
    style.write(axes, 0.35, 4.98, "one head’s value map", ha="left", size=12.5, weight="bold")
    value_map(axes, numbers)
    style.write(axes, 0.35, 1.95, "all parameters, in billions", ha="left", size=12.5, weight="bold")
    shares(axes, numbers)
    return figure


def value_map(axes: Axes, numbers: Numbers) -> None:
    """The unsplit square beside its two factors; they are drawn to scale, and so thin that they need arrows."""
    side = 2.05
    thin = side * numbers["head width"] / numbers["width"]
    style.box(axes, 0.35, 2.7, side, side, "$W^V_{pre}$", edge=style.SECOND, fill=style.SECOND_WASH, size=19, corner=0)
    style.write(axes, 0.35 + side / 2, 2.5, f"{numbers['unsplit value map']:,}", size=11)
    style.write(axes, 2.75, 3.72, "→", size=20, color=style.SOFT)
    style.box(axes, 3.45, 2.7, thin, side, edge=style.WEIGHT, fill=style.WEIGHT, line=0.5, corner=0)
    style.write(axes, 3.8, 3.72, "$W^V$", size=17, color=style.WEIGHT)
    style.box(axes, 4.35, 3.72 - thin / 2, side, thin, edge=style.WEIGHT, fill=style.WEIGHT, line=0.5, corner=0)
    style.write(axes, 4.35 + side / 2, 3.98, "$W^O$", size=17, color=style.WEIGHT)
    both = numbers["one head"]["v"] + numbers["one head"]["o"]
    style.write(axes, 4.85, 2.5, f"2 × {numbers['one head']['v']:,} = {both:,}", size=11)
    lines = [
        ("$W^Q, W^K, W^V, W^O$ of a head, each", numbers["one head"]["q"]),
        ("one head", numbers["per head"]),
        (f"{numbers['heads']} heads, one layer", numbers["attention per layer"]),
        ("MLP, one layer", numbers["mlp per layer"]),
    ]
    for i, (text, count) in enumerate(lines):
        y = 4.55 - 0.56 * i
        style.write(axes, 6.85, y + 0.12, text, ha="left", size=10, color=style.SOFT)
        style.write(axes, 6.85, y - 0.1, f"{count:,}", ha="left", size=12, family=style.MONO)


def shares(axes: Axes, numbers: Numbers) -> None:
    x, whole = 0.35, 9.3
    for name, tint, text in (("mlp", style.SECOND, "MLPs"), ("attention", style.WEIGHT, "attention")):
        wide = whole * numbers[name] / numbers["total"]
        style.box(axes, x, 1.0, wide, 0.62, edge="white", fill=tint, corner=0)
        said = f"{text}  {numbers[name] / 1e9:.2f}   ({style.percent(numbers[name] / numbers['total'])})"
        style.write(axes, x + 0.2, 1.31, said, ha="left", color="white", size=13, zorder=5)
        style.write(axes, x, 0.82, f"{numbers[name]:,}", ha="left", size=10.5, color=style.SOFT)
        x += wide
    style.box(axes, x, 1.0, 0.35 + whole - x, 0.62, edge="white", fill=style.INK, corner=0)
    rest = {"embeddings": "embedding", "positions": "positions", "biases and norms": "biases and norms"}
    said = "     ".join(f"{text} {numbers[name]:,}" for text, name in rest.items())
    style.write(axes, 0.35, 0.45, said, ha="left", size=10.5, color=style.SOFT)
    style.write(axes, 9.65, 0.45, f"together {numbers['total']:,}", ha="right", size=11.5, weight="bold")


def checks(numbers: Numbers) -> list[Check]:
    exact = {"unsplit value map": 150_994_944, "per head": 6_291_456, "attention per layer": 603_979_776}
    exact |= {"attention": 57_982_058_496, "mlp per layer": 1_207_959_552, "mlp": 115_964_116_992}
    exact |= {"embedding": 617_558_016, "positions": 25_165_824}
    heads = [equal(f"W^{name.upper()} of one head", count, 1_572_864) for name, count in numbers["one head"].items()]
    return [
        *heads,
        *(equal(name, numbers[name], count) for name, count in exact.items()),
        within("matrices and tables together, in billions", numbers["matrices"] / 1e9, 174.585, 174.595),
        within("with biases and norms, in millions", numbers["total"] / 1e6, 174604.25, 174604.35),
    ]
