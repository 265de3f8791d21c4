"""3.8: the third step of translating "walking along the river bank" (deck 004): the encoder has run once and is done,
the decoder writes word by word.

A small trained Transformer translates a phrase it has not seen, with a cache. Every call of every layer is counted; the
words offered at each step, their probabilities and the lines to the source are the model's own.
"""

from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard import style
from regard.nn.cache import Cache
from regard.nn.tap import capture
from regard_lectures.figure import Check, Numbers, aside, below, equal, plain
from regard_lectures.transformer.river import END, SHOWN, START, Translator, train

TITLE = "The encoder runs once"
DECKS = ("004", "003", "001")
CLAIM = "Translating word by word, the encoder runs once and each step feeds one new word to the decoder."
EXPECTED = (
    "Decoding, the encoder is called once; with a cache the logits are those of a full pass, to 1e-5, at every step."
)
FOUND = "One call of the encoder and one new word for each of 5 steps; the logits differ by 1.9e-6."
COST = 5.0
SEED = 0

STEP = 3  # the one that is drawn


class Calls:
    """How often the layers of a stack were called, and with how many words each time."""

    def __init__(self, stack: nn.ModuleList) -> None:
        self.words: list[int] = []
        stack[0].register_forward_pre_hook(self.note)

    def note(self, _: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        self.words.append(inputs[0].shape[1])


@torch.no_grad()
def compute() -> Numbers:
    with torch.enable_grad():
        translator = train(SEED, 120)
    model = translator.model
    reading, writing = Calls(model.encoder), Calls(model.decoder)
    source = translator.ids([SHOWN[0]])
    memory, cache = model.encode(source), Cache()
    said, steps, logits = [START], [], []
    while said[-1] != END and len(said) < 10:
        with capture(model, "decoder.*.cross.weights") as seen:
            logits.append(model.decode(translator.ids([said[-1]]), memory, cache=cache)[0, -1])
        chances = logits[-1].softmax(0)
        best = chances.topk(3)
        step: Numbers = {"given": list(said), "encoder": len(reading.words), "decoder": len(writing.words)}
        step |= {"offered": [translator.words[i] for i in best.indices.tolist()], "chances": plain(best.values, 3)}
        step |= {"cross": plain(seen["decoder.1.cross.weights"][0][0].mean(0)[0], 3)}
        step |= {"kept": cache.slot(model.decoder[0].mixer)["k"].shape[-2]}  # type: ignore[arg-type]
        steps.append(step)
        said.append(step["offered"][0])
    fed = list(writing.words)
    return {
        "source": SHOWN[0].split(),
        "steps": steps,
        "said": " ".join(said[1:-1]),
        "encoder_words": reading.words,
        "decoder_words": fed,
        "difference": difference(translator, memory, said, torch.stack(logits)),
    }


def difference(translator: Translator, memory: Tensor, said: list[str], logits: Tensor) -> float:
    """How far the logits with the cache are from those of computing everything anew at every step."""
    fresh = [
        translator.model.decode(translator.ids([" ".join(said[: i + 1])]), memory)[0, -1] for i in range(len(logits))
    ]
    return float((torch.stack(fresh) - logits).abs().max())


def draw(numbers: Numbers) -> Figure:
    step = numbers["steps"][STEP - 1]
    note = f"Step {STEP} of translating “{SHOWN[0]}”: grey has run and is not touched again."
    figure = style.page(TITLE, note, height=6.4)
    axes = style.stage(figure)
    encoder(axes, 0.35, numbers, step)
    decoder(axes, 5.35, numbers, step)
    ledger(axes, numbers)
    return figure


def encoder(axes: Axes, left: float, numbers: Numbers, step: Numbers) -> None:
    """Finished: the words, the box, and what it left behind."""
    places = [left + 0.45 + 0.88 * i for i in range(len(numbers["source"]))]
    style.box(axes, left, 2.65, 4.4, 0.85, edge=style.mix(style.EDGE, 0.6), fill=style.SUNK)
    style.write(axes, left + 2.2, 3.2, "encoder", size=15, color=style.EDGE)
    runs = {1: "ran once, done"}.get(step["encoder"], f"ran {step['encoder']} times")
    style.write(axes, left + 2.2, 2.88, runs, size=11, color=style.EDGE)
    for i, (x, word) in enumerate(zip(places, numbers["source"], strict=True)):
        style.write(axes, x, 2.05, word, va="baseline", family=style.SERIF, size=15, color=style.EDGE)
        style.arrow(axes, (x, 2.28), (x, 2.63), color=style.mix(style.EDGE, 0.6))
        style.arrow(axes, (x, 3.52), (x, 3.8), color=style.mix(style.EDGE, 0.6))
        style.box(axes, x - 0.24, 3.82, 0.48, 0.36, f"$h_{i + 1}$", size=13, edge=style.KEY, fill=style.KEY_WASH)
        weight = step["cross"][i]
        over, turn, low = 4.97 - 0.13 * i, 5.16 - 0.06 * i, 3.3 - 0.1 * i  # nested, so that no line crosses another
        style.route(
            axes,
            [(x, 4.2), (x, over), (turn, over), (turn, low), (5.33, low)],
            color=style.WEIGHT if weight > 0.05 else style.mix(style.WEIGHT, 0.35),
            line=0.7 + 5 * weight,
            head=0,
            zorder=1,
        )
        style.write(axes, x + 0.16, 4.33, style.percent(weight), size=9.5, color=style.WEIGHT, ha="left", va="center")


def decoder(axes: Axes, left: float, numbers: Numbers, step: Numbers) -> None:
    places = [left + 0.75 + 1.4 * i for i in range(STEP)]
    style.box(axes, left, 2.65, 4.3, 0.85, edge=style.WEIGHT, fill=style.WEIGHT_WASH, line=1.6)
    style.write(axes, left + 2.15, 3.2, "decoder", size=15)
    style.write(axes, left + 2.15, 2.88, f"run {step['decoder']}, fed with one new word", size=11, color=style.SOFT)
    for x, word in zip(places, step["given"], strict=True):
        new = x == places[-1]
        tint = style.INK if new else style.EDGE
        style.write(axes, x, 2.05, word, va="baseline", family=style.SERIF, size=15, color=tint)
        style.arrow(
            axes, (x, 2.28), (x, 2.63), color=tint if new else style.mix(style.EDGE, 0.6), line=1.8 if new else 1.3
        )
        if not new:
            style.write(axes, x, 1.83, "cached", size=9.5, color=style.EDGE)
    x = places[-1]
    style.arrow(axes, (x, 3.52), (x, 3.84), color=style.INK, line=1.8)
    for i, (word, chance) in enumerate(zip(step["offered"], step["chances"], strict=True)):
        y, ink = 4.75 - 0.33 * i, style.INK if i == 0 else style.SOFT
        style.write(axes, x - 0.5, y, word, ha="right", family=style.SERIF, size=16 if i == 0 else 13, color=ink)
        style.block(axes, x - 0.4, y - 0.09, max(0.7 * chance, 0.01), 0.17, style.WEIGHT)
        text = style.percent(chance, 0 if chance > 0.01 else 1)
        style.write(axes, x - 0.33 + 0.7 * chance, y, text, ha="left", size=10, color=style.SOFT)


def ledger(axes: Axes, numbers: Numbers) -> None:
    """Step by step: what was said, and how often each side had run by then."""
    rows = ["step", "says", "encoder runs so far", "decoder runs so far", "words in the cache"]
    for i, text in enumerate(rows):
        y = 1.28 - 0.25 * i
        style.write(axes, 0.35, y, text, ha="left", va="baseline", size=10, color=style.SOFT)
        for k, step in enumerate(numbers["steps"]):
            values = [str(k + 1), step["offered"][0], step["encoder"], step["decoder"], step["kept"]]
            here = k == STEP - 1
            ink: dict[str, Any] = {
                "color": style.INK if here else style.SOFT,
                "weight": "bold" if here and i != 1 else "normal",
            }
            kind: dict[str, Any] = {"family": style.SERIF, "size": 13} if i == 1 else {"size": 10.5}
            style.write(axes, 3.4 + 1.4 * k, y, str(values[i]), va="baseline", **ink, **kind)
        if i < len(rows) - 1:
            axes.plot([0.35, 9.65], [y - 0.07] * 2, color=style.LINE, lw=0.9)


def checks(numbers: Numbers) -> list[Check]:
    steps = numbers["steps"]
    return [
        equal("calls of the encoder for the whole phrase", steps[-1]["encoder"], 1),
        equal("words that the encoder read, at once", str(numbers["encoder_words"]), str([len(numbers["source"])])),
        equal("words that the decoder was fed at each step", str(numbers["decoder_words"]), str([1] * len(steps))),
        equal("words kept at each step", str([step["kept"] for step in steps]), str(list(range(1, len(steps) + 1)))),
        below("logits with the cache and without, largest difference", numbers["difference"], 1e-5),
        aside(equal("a phrase that it was not trained on becomes", numbers["said"], SHOWN[1])),
        aside(equal("its third word", steps[STEP - 1]["offered"][0], SHOWN[1].split()[STEP - 1])),
    ]
