"""4.1: BERT, what goes in and what comes out (Fig. 16 of deck 003, after figures 1 and 2 of Devlin et al., 2019).

A tiny BERT of the library reads ten tokens. The cells are the first numbers of its vectors; the lines between its
layers are its attention weights, summed over heads, stronger where they are larger. Three embeddings are added; all
outputs depend on all inputs; C is the first token's last state, of which the pooler makes a vector for both texts.
"""

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard import style
from regard.models.bert import BERT, Config
from regard.nn.tap import capture
from regard_lectures.figure import Check, Numbers, above, below, equal, plain, seeded

TITLE = "BERT: every token sees both sides"
DECKS = ("003", "001", "004")
CLAIM = "Three embeddings are added; each output depends on every input, before and behind; order is in positions only."
EXPECTED = (
    "What enters is the normed sum of token, segment and position embeddings; every output depends on every input, on"
    " both sides; without positions the order of the tokens makes no difference."
)
FOUND = (
    "The sum is exact, the smallest slope of an output by an input is 0.044, and without positions a turned text "
    "gives turned states to within 7e-16."
)
COST = 0.5
SEED = 4

FIRST, SECOND = "the server crashed", "she restart ##ed it"
TOKENS = ["[CLS]", *FIRST.split(), "[SEP]", *SECOND.split(), "[SEP]"]
CONFIG = Config(vocab=9, length=12, dim=8, depth=2, heads=2, hidden=16, head="pretraining")
SHOWN = 4  # numbers of each vector


def compute() -> Numbers:
    names = sorted(set(TOKENS))
    ids = torch.tensor([[names.index(token) for token in TOKENS]])
    segments = torch.tensor([[int(i > TOKENS.index("[SEP]")) for i in range(len(TOKENS))]])
    with seeded(SEED):
        net = BERT(CONFIG).double().eval()
    with torch.no_grad():
        for name, weight in net.named_parameters():
            if name.endswith(("q.weight", "k.weight")):
                weight.mul_(3)  # so that there is something to see in the maps
    assert net.segments is not None
    parts = {
        "token": net.embed(ids)[0],
        "segment": net.segments(segments)[0],
        "position": net.positions(torch.arange(len(TOKENS))),
    }
    with capture(net, "*.weights") as seen, torch.no_grad():
        entered: list[Tensor] = []
        hook = net.blocks[0].register_forward_pre_hook(lambda _, inputs: entered.append(inputs[0]))
        said = net(ids, segments=segments)
        hook.remove()
    summed = net.norm(torch.stack(list(parts.values())).sum(0))
    assert net.pooler is not None
    assert said.pooled is not None
    assert said.words is not None
    assert said.follows is not None
    pooled = torch.tanh(net.pooler(said.states[0, 0]))
    return {
        "parts": {name: plain(part[:, :SHOWN], 3) for name, part in parts.items()},
        "maps": [plain(calls[0][0].mean(0), 3) for calls in seen.values()],
        "states": plain(said.states[0, :, :SHOWN], 3),
        "summed": float((summed - entered[0][0]).abs().max().detach()),
        "pooled": float((pooled - said.pooled[0]).abs().max().detach()),
        "least": float(slopes(net, entered[0]).min()),
        "order": unordered(net, ids),
        "shapes": {
            "states": list(said.states.shape),
            "pooled": list(said.pooled.shape),
            "words": list(said.words.shape),
            "follows": list(said.follows.shape),
        },
    }


def slopes(net: BERT, x: Tensor) -> Tensor:
    """How much each output depends on each input.  (1, n, d) -> (n, n)"""

    def run(y: Tensor) -> Tensor:
        for block in net.blocks:
            y = block(y)
        return y[0]

    jacobian = torch.autograd.functional.jacobian(run, x)
    return jacobian[:, :, 0].norm(dim=(1, 3))


@torch.no_grad()
def unordered(net: BERT, ids: Tensor) -> float:
    """Without its positions, a turned text gives turned states: by how much they differ."""
    kept = net.positions.weight.clone()
    nn.init.zeros_(net.positions.weight)
    apart = (net(ids).states - net(ids.flip(1)).states.flip(1)).abs().max()
    net.positions.weight.copy_(kept)
    return float(apart)


LEFT, STEP = 1.62, 0.87
WORDS, ROWS, NORM, LAYERS, TOP = 0.38, (0.8, 1.17, 1.54), 2.05, (3.05, 4.05), 4.72
HALF = 0.15  # of a layer's height
TINTS = {"token": style.KEY, "segment": style.SECOND, "position": style.INK}


def draw(numbers: Numbers) -> Figure:
    note = (
        "A tiny BERT at work: cells are numbers of its vectors, grey below 0; lines, how much its layers look.\n"
        "C tells whether the second text follows the first, the T tell the tokens that were hidden."
    )
    figure = style.page(TITLE, note, height=6.7)
    axes = style.stage(figure)
    places = [LEFT + STEP * i for i in range(len(TOKENS))]
    for i, (x, token) in enumerate(zip(places, TOKENS, strict=True)):
        style.write(axes, x, WORDS, token, family=style.SERIF, size=13)
        for y, (name, rows) in zip(ROWS, numbers["parts"].items(), strict=True):
            strip(axes, x, y, rows[i], TINTS[name])
        style.arrow(axes, (x, ROWS[-1] + 0.14), (x, NORM - 0.12), head=7)
        strip(axes, x, TOP, numbers["states"][i], style.WEIGHT)
        style.arrow(axes, (x, LAYERS[-1] + HALF), (x, TOP - 0.12), head=7)
        style.write(axes, x, TOP + 0.3, output(i), size=14)
    for y, name in zip(ROWS, numbers["parts"], strict=True):
        style.write(axes, 0.3, y, name, ha="left", size=11, color=TINTS[name], weight="bold")
        if name != "position":
            style.write(axes, 0.52, y + 0.185, "+", size=12, color=style.SOFT)
    wide = places[-1] - places[0] + 0.68
    style.box(axes, places[0] - 0.34, NORM - 0.12, wide, 0.24, "norm", size=10.5, color=style.SOFT)
    layers(axes, places, numbers["maps"])
    style.write(axes, 0.3, (LAYERS[0] + LAYERS[1]) / 2, f"{len(LAYERS)} encoder\nlayers", ha="left", color=style.SOFT)
    return figure


def output(i: int) -> str:
    """C, T_1 ... of the first text, T'_1 ... of the second."""
    between = TOKENS.index("[SEP]")
    if i == 0:
        return "$C$"
    if TOKENS[i] == "[SEP]":
        return "$T_{[SEP]}$" if i == between else "$T'_{[SEP]}$"
    return f"$T_{{{i}}}$" if i < between else f"$T'_{{{i - between}}}$"


def strip(axes: Axes, x: float, y: float, values: list[float], tint: str) -> None:
    style.cells(axes, x - 0.34, y + 0.1, [values], (0.17, 0.2), tint=tint, limit=1.0)


def layers(axes: Axes, places: list[float], maps: list[list[list[float]]]) -> None:
    """A row of boxes for each layer, and below it who looks at whom."""
    floors = (NORM + 0.12, LAYERS[0] + HALF)
    for y, floor, weights in zip(LAYERS, floors, maps, strict=True):
        for row, query in zip(weights, places, strict=True):
            for weight, key in zip(row, places, strict=True):
                line, dense = 0.4 + 3 * weight, min(0.12 + weight, 1.0)
                axes.plot([key, query], [floor, y - HALF], color=style.WEIGHT, lw=line, alpha=dense, zorder=1)
        for x in places:
            style.box(axes, x - 0.34, y - HALF, 0.68, 2 * HALF, "", edge=style.WEIGHT, fill=style.WEIGHT_WASH)


def checks(numbers: Numbers) -> list[Check]:
    count, shapes = len(TOKENS), numbers["shapes"]
    return [
        below("what enters the first layer is the normed sum of three embeddings", numbers["summed"], 1e-12),
        above("each output depends on every input: the smallest slope", numbers["least"], 1e-6),
        below("without positions, a turned text gives turned states", numbers["order"], 1e-12),
        below("the pooler: tanh(W C + b)", numbers["pooled"], 1e-12),
        equal("a state for each token", str(shapes["states"]), str([1, count, CONFIG.dim])),
        equal("a guess for each token", str(shapes["words"]), str([1, count, CONFIG.vocab])),
        equal("one vector and one verdict for both texts", str(shapes["pooled"] + shapes["follows"]), "[1, 8, 1, 2]"),
    ]
