"""4.1c: Table 1 of deck 003, BERT against GPT-3, with its two slips corrected.

Sizes are those of the library's bert-large and gpt3; weights are counted, and outputs measured, in nets without memory.
The deck gives BERT 12 blocks, which are those of BERT-base: with them, width 1024 would have barely more than half of
the weights. And GPT-3 gives not one output but one for every token, of which writing takes the last. The years are
those of the papers. Which output depends on which input is found in small nets of the same kind.
"""

from dataclasses import replace

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard import style
from regard.models import bert, gpt
from regard.zoo import count_parameters, empty_net
from regard_lectures.figure import Check, Numbers, above, below, close, equal, seeded

TITLE = "BERT and GPT-3, side by side"
DECKS = ("003",)
CLAIM = "340 million weights of width 1024 take 24 blocks, not the deck's 12; both nets give an output for every token."
EXPECTED = (
    "BERT-large has 24 blocks and 335.1 million weights, GPT-3 174,604.3 million; each gives an output for every token."
)
FOUND = (
    "335.1 and 174,604.3 million weights are counted; 12 blocks of that width have 54 % of the quoted 340 million; "
    "outputs are one for each of 512 and of 2,048 tokens."
)
COST = 9.0
SEED = 0

LARGE, BASE, GPT3 = bert.PRESETS["bert-large"], bert.PRESETS["bert-base"], gpt.PRESETS["gpt3"]
QUOTED = ("340 million", "175 billion")  # weights
TOKENS = 6  # of the small nets


def compute() -> Numbers:
    wrong = replace(LARGE, depth=12)
    return {
        "bert": facts(LARGE)
        | {"weights": count_parameters(empty_net("bert", LARGE)), "output": outputs("bert", LARGE)},
        "gpt3": facts(GPT3) | {"weights": count_parameters(empty_net("gpt", GPT3)), "output": outputs("gpt", GPT3)},
        "base": facts(BASE) | {"weights": count_parameters(empty_net("bert", BASE))},
        "twelve blocks": count_parameters(empty_net("bert", wrong)),
        "seen": {
            "bert": seen(bert.BERT(bert.Config(vocab=9, length=8, dim=16, depth=2, heads=2, hidden=32))),
            "gpt3": seen(gpt.GPT(gpt.Config(vocab=9, length=8, dim=16, depth=2, heads=2))),
        },
    }


def facts(config: bert.Config | gpt.Config) -> Numbers:
    return {"heads": config.heads, "width": config.dim, "blocks": config.depth, "tokens": config.length}


def outputs(family: str, config: bert.Config | gpt.Config) -> list[int]:
    """The shape of what a net says of as many tokens as it takes."""
    said = empty_net(family, config)(torch.zeros(1, config.length, dtype=torch.long, device="meta"))
    states = said if isinstance(said, Tensor) else said.states
    return list(states.shape)


def seen(net: nn.Module) -> list[list[int]]:
    """1 where an output changes with an input.  -> (n, n)"""
    with seeded(SEED), torch.no_grad():
        for weight in net.parameters():
            nn.init.normal_(weight, std=0.3)
        ids = torch.randint(8, (1, TOKENS))
        net.double().eval()
        table = []
        for i in range(TOKENS):
            changed = ids.clone()
            changed[0, i] = 8
            both = [net(x) for x in (ids, changed)]
            one, other = (said if isinstance(said, Tensor) else said.states for said in both)
            table.append(((one - other)[0].abs().amax(-1) > 1e-12).long())
    found: list[list[int]] = torch.stack(table, 1).tolist()
    return found


def rows(numbers: Numbers) -> list[tuple[str, str, str]]:
    left, right = numbers["bert"], numbers["gpt3"]
    return [
        ("year", "2018", "2020"),
        ("weights, counted", f"{left['weights'] / 1e6:.0f} million", f"{right['weights'] / 1e9:.1f} billion"),
        ("weights, quoted", *QUOTED),
        ("attention heads", str(left["heads"]), str(right["heads"])),
        ("width", f"{left['width']:,}", f"{right['width']:,}"),
        ("stacked blocks", str(left["blocks"]), str(right["blocks"])),
        ("of the kind", "encoder", "decoder"),
        ("looks", "both ways", "to the left"),
        ("input", f"{left['tokens']} tokens", f"{right['tokens']:,} tokens"),
        ("output", f"{left['output'][1]} states", f"{right['output'][1]:,} × {right['output'][2]:,} logits"),
    ]


SLIPS = {"stacked blocks": ("the deck: 12", 0), "output": ("the deck: 1 token", 1)}


def draw(numbers: Numbers) -> Figure:
    note = (
        "Table 1 of deck 003, counted anew: weights and outputs are those of nets built without memory. Ochre, what "
        "the deck had.\nRight, which output (row) depends on which input (column), in small nets of both kinds."
    )
    figure = style.page(TITLE, note, height=6.3)
    axes = style.stage(figure)
    columns = (2.35, 4.55)
    for x, text in zip(columns, ("BERT", "GPT-3"), strict=True):
        style.write(axes, x, 4.68, text, ha="left", va="baseline", size=14, family=style.SERIF)
    for i, (name, *values) in enumerate(rows(numbers)):
        y = 4.32 - 0.43 * i
        axes.plot([0.3, 7.1], [y + 0.27] * 2, color=style.LINE, lw=1)
        style.write(axes, 0.3, y, name, ha="left", va="baseline", size=11, color=style.SOFT)
        for j, (x, value) in enumerate(zip(columns, values, strict=True)):
            slip, place = SLIPS.get(name, ("", -1))
            weight = "bold" if place == j else "normal"
            style.write(axes, x, y, value, ha="left", va="baseline", size=12, weight=weight)
            if place == j:
                right = x + 0.35 if j == 0 else x
                up = y if j == 0 else y - 0.2
                style.write(axes, right, up, slip, ha="left", va="baseline", size=10, color=style.SECOND)
    for y, (name, text) in zip((3.0, 0.75), (("bert", "BERT"), ("gpt3", "GPT-3")), strict=True):
        grid(axes, 7.75, y, numbers["seen"][name])
        style.write(axes, 7.75, y + 1.88, text, ha="left", va="baseline", size=12, family=style.SERIF)
    return figure


def grid(axes: Axes, x: float, y: float, table: list[list[int]]) -> None:
    style.cells(axes, x, y + 1.74, [[float(value) for value in row] for row in table], 0.29, limit=1.0)


def checks(numbers: Numbers) -> list[Check]:
    left, right, half = numbers["bert"], numbers["gpt3"], numbers["twelve blocks"]
    every = [[1] * TOKENS for _ in range(TOKENS)]
    past = [[int(j <= i) for j in range(TOKENS)] for i in range(TOKENS)]
    return [
        close("BERT-large, millions of weights", left["weights"] / 1e6, 335.1, 0.06),
        close("GPT-3, millions of weights", right["weights"] / 1e6, 174604.3, 0.06),
        close("BERT-base, millions of weights", numbers["base"]["weights"] / 1e6, 109.5, 0.06),
        equal("BERT-large: blocks, width, heads", f"{left['blocks']} {left['width']} {left['heads']}", "24 1024 16"),
        equal("GPT-3: blocks, width, heads", f"{right['blocks']} {right['width']} {right['heads']}", "96 12288 96"),
        below("12 blocks of that width, share of the quoted 340 million", half / 340e6, 0.6),
        above("24 blocks, share of the quoted 340 million", left["weights"] / 340e6, 0.97),
        equal("BERT: an output for each of its tokens", str(left["output"]), "[1, 512, 1024]"),
        equal("GPT-3: an output for each of its tokens", str(right["output"]), "[1, 2048, 50257]"),
        equal("BERT looks both ways", numbers["seen"]["bert"] == every, True),
        equal("GPT looks to the left", numbers["seen"]["gpt3"] == past, True),
    ]
