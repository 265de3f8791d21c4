"""The picture of the shipped demonstration: two heads that work together."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from regard.model import Model

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Recalled:
    """What the model made of a story, and the heads that show how."""

    words: tuple[str, ...]
    answer: str
    probability: float
    before: tuple[str, int]  # layer's name and head: looks hardest at the word before, over all verbs
    back: tuple[str, int]  # looks hardest at one word when it answers
    maps: dict[str, Tensor]  # (h, n, n)

    def map(self, place: tuple[str, int]) -> Tensor:
        return self.maps[place[0]][place[1]]


def recall(model: Model, story: str) -> Recalled:
    looked = model.look(story)
    found = looked.maps["blocks.0.mixer"].columns.labels or ()
    probability, answer = torch.softmax(looked.output[0, -1], -1).max(-1)
    maps = {name: one.weights[0] for name, one in looked.maps.items()}
    first, last = min(maps), max(maps)
    previous = maps[first].diagonal(-1, 1, 2)[:, ::3]  # from each verb to its name: every third place
    return Recalled(
        words=found,
        answer=model.text().labels([int(answer)])[0],
        probability=float(probability),
        before=(first, int(previous.mean(-1).argmax()) if previous.shape[-1] else 0),
        back=(last, int(maps[last][:, -1].amax(-1).argmax())),
        maps=maps,
    )


def draw_recall(found: Recalled) -> "Figure":
    from regard import style  # the demo starts without matplotlib unless a picture is wanted

    sure = style.percent(found.probability, 1)
    note = f"“{' '.join(found.words)}” continues with “{found.answer}” (probability {sure})."
    note = style.literal(style.wrapped(note, style.WIDTH - 0.6, 11))
    words = [style.literal(style.cut(word, 1.5, 11, style.SERIF)) for word in found.words]
    figure = style.page("In-context recall in a small GPT", note, height=5.58 + style.head(note))
    panels = figure.subplots(1, 2)
    titles = (
        "first layer: each word attends to the previous word",
        "second layer: a name attends to the word after its earlier occurrence",
    )
    for axes, title, place in zip(panels, titles, (found.before, found.back), strict=True):
        weights = found.map(place)
        style.heatmap(axes, weights, words, words, slant=50, size=9)
        axes.set_xlabel(f"{title}\n{place[0]}, head {place[1]}", color=style.INK)
    rows, source = len(found.words), int(found.map(found.back)[-1].argmax())
    style.frame(panels[1], 0, rows - 1, rows, 1, style.QUERY)
    style.frame(panels[1], source, 0, 1, rows, style.KEY)
    style.scale(figure, list(panels), shrink=0.4)
    return figure
