"""2.7: deck 003's figures 13 and 14. The padding mask hides what is no word, the look-ahead mask what comes later; a
decoder needs both. Yellow may be looked at, purple may not.

Whether the masks work is checked as the deck would wish: a padded batch gives what each sentence gives by itself.
"""

import torch
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.nn.attention import MultiHeadAttention
from regard.nn.mask import CAUSAL, Mask
from regard_lectures.figure import Check, Numbers, below, equal, seeded

TITLE = "Padding mask and look-ahead mask"
DECKS = ("003", "004", "002")
CLAIM = "With both masks a padded batch gives the outputs and gradients of each sentence by itself."
EXPECTED = "A padded batch gives the outputs and gradients of each sentence by itself, to 1e-6."
FOUND = "Outputs differ by 2.4e-7 and gradients by 1.7e-7 of their size."
COST = 0.1
SEED = 0

SENTENCES = [
    "the cat sleeps",
    "a small bird sings in the tree",
    "we walk by the river",
    "rain",
    "she reads an old book",
]
SHOWN = 2  # the sentence whose own mask is drawn
YELLOW, PURPLE = "#fde725", "#440154"  # as in the slides


def compute() -> Numbers:
    lengths = [len(text.split()) for text in SENTENCES]
    longest = max(lengths)
    real = torch.arange(longest) < torch.tensor(lengths)[:, None]  # (b, n)
    both = Mask(causal=True, keys=real).dense(longest, longest, real.device)
    causal = CAUSAL.dense(longest, longest, real.device)
    assert both is not None
    assert causal is not None
    formula = real[:, None, None, :] & torch.ones(longest, longest, dtype=torch.bool).tril()[None, None]
    output, gradient = compared(real, lengths)
    return {
        "lengths": lengths,
        "padding": real.int().tolist(),
        "look-ahead": causal.int().tolist(),
        "both": both[SHOWN, 0].int().tolist(),
        "formula": bool((both == formula).all()),
        "output": output,
        "gradient": gradient,
    }


def compared(real: Tensor, lengths: list[int]) -> tuple[float, float]:
    """The largest difference, in outputs and in gradients, between a padded batch and its sentences one by one."""
    with seeded(SEED):
        layer = MultiHeadAttention(32, 4)
        x = torch.randn(*real.shape, 32)
    y = layer(x, mask=Mask(causal=True, keys=real))
    y[real].square().sum().backward()
    padded = [parameter.grad.clone() for parameter in layer.parameters() if parameter.grad is not None]
    layer.zero_grad()
    alone = [layer(x[i : i + 1, :length], mask=CAUSAL)[0] for i, length in enumerate(lengths)]
    torch.cat(alone).square().sum().backward()
    single = [parameter.grad for parameter in layer.parameters() if parameter.grad is not None]
    output = max(float((y[i, : len(one)] - one).detach().abs().max()) for i, one in enumerate(alone))
    scale = max(float(one.abs().max()) for one in single)
    gradient = max(float((a - b).abs().max()) for a, b in zip(padded, single, strict=True)) / scale
    return output, gradient


def draw(numbers: Numbers) -> Figure:
    note = "Yellow: may be looked at. Purple: may not. The third is what the third sentence sees in a decoder."
    figure = style.page(TITLE, note, height=4.7)
    panels = figure.subplots(1, 3, width_ratios=(1, 1, 1))
    words = SENTENCES[SHOWN].split()
    words += ["pad"] * (len(numbers["both"]) - len(words))
    show(panels[0], numbers["padding"], "padding mask of a batch", "key", "sentence")
    show(panels[1], numbers["look-ahead"], "look-ahead mask", "key", "query")
    show(panels[2], numbers["both"], "both", "", "")
    panels[2].set_xticks([i + 0.5 for i in range(len(words))], words, rotation=90, family=style.SERIF, size=12)
    panels[2].set_yticks([i + 0.5 for i in range(len(words))], words, family=style.SERIF, size=12)
    return figure


def show(axes: Axes, mask: list[list[int]], title: str, across: str, down: str) -> None:
    axes.pcolormesh(mask, cmap=ListedColormap([PURPLE, YELLOW]), vmin=0, vmax=1, edgecolors="white", linewidth=1.5)
    axes.set(xlim=(0, len(mask[0])), ylim=(len(mask), 0), aspect="equal", xlabel=across, ylabel=down, anchor="N")
    axes.set_xticks([i + 0.5 for i in range(len(mask[0]))], [str(i) for i in range(len(mask[0]))])
    axes.set_yticks([i + 0.5 for i in range(len(mask))], [str(i) for i in range(len(mask))])
    axes.spines[:].set_visible(False)
    axes.set_title(title)


def checks(numbers: Numbers) -> list[Check]:
    return [
        equal("the mask is pad[:, None, None, :] & tril", numbers["formula"], True),
        below("padded batch against sentences alone: outputs", numbers["output"], 1e-6),
        below("padded batch against sentences alone: gradients, relative", numbers["gradient"], 1e-6),
        equal("pairs that a look-ahead mask lets through", sum(map(sum, numbers["look-ahead"])), 28),
        equal("pairs that the third sentence keeps", sum(map(sum, numbers["both"])), 15 + 5 * 2),
    ]
