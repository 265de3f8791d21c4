"""10.4: what each attention map is made of: one word of five is replaced, and the rows that change are framed.

Layers as they are drawn, one head each. Dense guesses row i from word i alone; random has the same map for every text;
scores that are compared change wherever the new word is looked at or looks.
"""

import torch
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from regard import style
from regard.nn.mechanisms import Choice, build_mixer
from regard.nn.site import Site
from regard.nn.tap import capture
from regard_lectures.figure import Check, Numbers, equal, plain, seeded

TITLE = "Scores that are compared, guessed, or learned"
DECKS = ("003",)
CLAIM = "A row of a dense synthesizer's map depends on its own word alone; a random one's on no word at all."
EXPECTED = (
    "A row of a dense synthesizer's scores depends on its own word alone, a random synthesizer's scores on no word."
)
FOUND = (
    "Another second word changes all 5 rows of compared scores, row 2 alone of guessed ones, and none of learned ones."
)
COST = 0.2
SEED = 4

WORDS, OTHER, REPLACED, WIDTH = ("the", "cat", "sat", "down", "."), "dog", 1, 16
KINDS: dict[str, Choice] = {
    "compared": "softmax",
    "dense": "synthesizer-dense",
    "random": "synthesizer-random",
}


def compute() -> Numbers:
    numbers: Numbers = {}
    with seeded(SEED), torch.no_grad():
        before = torch.randn(1, len(WORDS), WIDTH)
        after = before.clone()
        after[:, REPLACED] = torch.randn(WIDTH)
        for name, choice in KINDS.items():
            layer = build_mixer(choice, Site(dim=WIDTH, heads=1, length=len(WORDS))).eval()
            for parameter in layer.parameters():
                parameter.mul_(2.0)  # so that there is something to see in the maps
            maps = []
            for x in (before, after):
                with capture(layer, "weights") as seen:
                    layer(x)
                maps.append(seen["weights"][0][0, 0])
            numbers[name] = {"before": plain(maps[0], 3), "after": plain(maps[1], 3), "changed": changed(*maps)}
    return numbers


def changed(before: Tensor, after: Tensor) -> list[int]:
    """The rows that are not what they were."""
    return [i for i, row in enumerate((before - after).abs().amax(-1).tolist()) if row > 1e-6]


def draw(numbers: Numbers) -> Figure:
    note = (
        f"The map of a sentence, above, and once more with “{OTHER}” for “{WORDS[REPLACED]}”, below: rows that changed "
        "are framed.\nCompared: q . k. Dense: each row guessed from its own word. Random: learned, the same for every "
        "sentence."
    )
    figure = style.page(TITLE, note, height=7.0)
    panels = figure.subplots(2, 3)
    replaced = [OTHER if i == REPLACED else word for i, word in enumerate(WORDS)]
    for column, name in enumerate(KINDS):
        for row, (when, words) in enumerate((("before", list(WORDS)), ("after", replaced))):
            axes = panels[row, column]
            style.heatmap(axes, numbers[name][when], words, words)
            if not row:
                axes.set_title(name, pad=28)
                continue
            for i in numbers[name]["changed"]:
                axes.add_patch(Rectangle((0.04, i + 0.04), len(WORDS) - 0.08, 0.92, fill=False, ec=style.QUERY, lw=2.2))
    return figure


def checks(numbers: Numbers) -> list[Check]:
    rows = {name: ", ".join(str(i + 1) for i in found["changed"]) or "none" for name, found in numbers.items()}
    return [
        equal("rows that a new second word changes, compared", rows["compared"], "1, 2, 3, 4, 5"),
        equal("rows that it changes, dense", rows["dense"], "2"),
        equal("rows that it changes, random", rows["random"], "none"),
    ]
