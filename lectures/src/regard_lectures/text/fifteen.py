"""4.1b: 15 % of the tokens are chosen; of these 80 % are hidden, 10 % become any token, 10 % stay (BERT, section 3.1).

One sentence as training would draw it, by the library's Masking with BERT's own vocabulary of 30,522 pieces (the first
draws that differ in what becomes of the chosen); and the counts over the English captions of Multi30k, joined by
sixteen so that 15 % of them are nearly a whole number. The loss is that of the chosen places alone, also of those that
stayed. Needs the captions and that vocabulary below the folder that REGARD_DATA names.
"""

from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from tokenizers import Tokenizer

from regard import style
from regard.data.counter_rng import COLLATE, philox
from regard.data.files import find_file as found
from regard.data.tables import open_plain
from regard.modalities.text.masking import MaskedBatch, Masking
from regard.modalities.text.processor import Text
from regard_lectures.figure import Check, Numbers, below, equal, within

TITLE = "Fifteen words of a hundred"
DECKS = ("003", "001", "004")
CLAIM = "Of all tokens 15 % are chosen, and of these 80 % become [MASK], 10 % any token, and 10 % stay as they are."
EXPECTED = (
    "15 % of the tokens are chosen; of these 80 % become [MASK], 10 % any token and 10 % stay, by a chi-square below "
    "13.82."
)
FOUND = (
    "15.01 % of the tokens are chosen, of which 79.8 % are hidden, 10.2 % become another and 10.0 % stay: a chi-"
    "square of 2.77."
)
COST = 4.0
SEED = 0

VOCABULARY, TEXT = "weights_minilm_l6/tokenizer.json", "multi30k/train.en.gz"
SENTENCE = "the server is down because somebody unplugged it to charge a phone during lunch"
SHARE, LONGEST, JOINED, DRAWS = 0.15, 512, 16, 4
COUNTED = 10_000  # the step whose draws are counted, far from those that are shown
WANTED = {"hidden": 0.8, "other": 0.1, "kept": 0.1}
SURE = 13.82  # chi-square with 2 degrees of freedom: larger in one of a thousand


def compute() -> Numbers:
    text = Text(Tokenizer.from_file(str(found(VOCABULARY, Path()))))
    masking = Masking(text, LONGEST, SHARE)
    numbers: Numbers = {"rows": []}
    step, fates = 0, list[list[int]]()
    while len(fates) < DRAWS:
        batch = masking([(SENTENCE,)], [philox(COLLATE, SEED, step)])
        own, step = told(batch, masking.mask)[0].tolist(), step + 1
        if (fate := sorted(filter(None, own))) not in fates:
            fates.append(fate)
            numbers["rows"].append({"given": list(text.labels(batch.ids[0].tolist())), "kinds": own})
    numbers["words"] = list(text.labels(batch.wanted[0].tolist()))
    rows = open_plain(found(TEXT, Path()))
    captions = [rows[i][0] for i in range(len(rows))]
    joined = [" ".join(captions[i : i + JOINED]) for i in range(0, len(captions), JOINED)]
    counts, free, drawn = np.zeros(4, np.int64), 0, []
    for i in range(0, len(joined), 64):
        some = joined[i : i + 64]
        batch = masking([(one,) for one in some], [philox(COLLATE, SEED, COUNTED, i + j) for j in range(len(some))])
        kinds = told(batch, masking.mask)
        counts += np.bincount(kinds.flatten().numpy(), minlength=4)
        real = batch.ids.numel() if batch.keys is None else int(batch.keys.sum())
        free += real - 2 * len(some)  # all but [CLS] and [SEP]
        drawn.append(batch.ids[kinds == OTHER].double())
    numbers |= {"free": free, "chosen": int(counts[1:].sum()), "vocabulary": masking.vocab}
    numbers |= {name: int(count) for name, count in zip(WANTED, counts[1:], strict=True)}
    numbers["middle"] = float(torch.cat(drawn).mean() / masking.vocab)
    numbers["untouched"] = untouched(masking, joined[0])
    return numbers


HIDDEN, OTHER, KEPT = 1, 2, 3


def told(batch: MaskedBatch, mask: int) -> torch.Tensor:
    """0 where a place was not chosen, else what became of it.  -> (b, n)"""
    same = torch.where(batch.ids == batch.wanted, KEPT, OTHER)
    return torch.where(batch.ids == mask, HIDDEN, same) * batch.chosen


def untouched(masking: Masking, text: str) -> bool:
    """Whether all places that were not chosen are given as they stood, [CLS] and [SEP] among them."""
    batch = masking([(text,)], [philox(COLLATE, SEED, COUNTED + 1)])
    ends = batch.chosen[0, [0, -1]]
    return bool((batch.ids == batch.wanted)[~batch.chosen].all()) and not bool(ends.any())


LOOKS = {HIDDEN: (style.WEIGHT, "white"), OTHER: (style.SECOND, "white"), KEPT: (style.WEIGHT_WASH, style.WEIGHT)}
NAMES = {"hidden": "[MASK]", "other": "any token", "kept": "stays"}


def draw(numbers: Numbers) -> Figure:
    note = (
        "One sentence in four draws: what is coloured must be guessed, also where it stayed.\n"
        f"Below, what became of the chosen among {numbers['free']:,} tokens."
    )
    figure = style.page(TITLE, note, height=5.9)
    axes = style.stage(figure)
    for i, row in enumerate(numbers["rows"]):
        sentence(axes, 4.2 - 0.6 * i, row, numbers["words"])
    shares(axes, numbers)
    return figure


def sentence(axes: Axes, y: float, row: Numbers, words: list[str]) -> None:
    """Each token in a box as wide as it needs; where another is given, the one that was there stands above it."""
    x, unit = 0.3, 0.082
    widths = [max(len(given), 2) * unit + 0.08 for given in row["given"]]
    gap = (9.4 - sum(widths)) / (len(widths) - 1)
    for given, kind, word, wide in zip(row["given"], row["kinds"], words, widths, strict=True):
        fill, ink = LOOKS.get(kind, ("white", style.INK))
        if kind:
            style.box(axes, x, y - 0.13, wide, 0.26, edge=fill if kind != KEPT else style.WEIGHT, fill=fill, line=1.0)
        style.write(axes, x + wide / 2, y, given, size=9.5, color=ink, zorder=5)
        if kind in (HIDDEN, OTHER):
            style.write(axes, x + wide / 2, y + 0.24, word, size=8.5, color=style.SOFT)
        x += wide + gap


def shares(axes: Axes, numbers: Numbers) -> None:
    """A bar of all tokens with the chosen part, and that part drawn out."""
    whole, chosen = 9.4, numbers["chosen"]
    part = whole * chosen / numbers["free"]
    style.block(axes, 0.3, 1.55, whole, 0.26, style.LINE)
    style.block(axes, 0.3, 1.55, part, 0.26, style.SOFT)
    told_ = f"{style.percent(chosen / numbers['free'], 2)} chosen"
    style.write(axes, 0.4 + part, 1.68, told_, ha="left", size=11)
    axes.plot([0.3, 0.3], [1.53, 0.98], color=style.EDGE, lw=0.8)
    axes.plot([0.3 + part, 0.3 + whole], [1.53, 0.98], color=style.EDGE, lw=0.8)
    x = 0.3
    for kind, (name, says) in zip((HIDDEN, OTHER, KEPT), NAMES.items(), strict=True):
        fill, ink = LOOKS[kind]
        wide = whole * numbers[name] / chosen
        style.box(axes, x, 0.56, wide, 0.4, edge="white" if kind != KEPT else style.WEIGHT, fill=fill, corner=0)
        style.write(axes, x + wide / 2, 0.76, says, color=ink, size=10.5, zorder=5)
        style.write(axes, x + wide / 2, 0.36, style.percent(numbers[name] / chosen, 2), size=11)
        x += wide


def checks(numbers: Numbers) -> list[Check]:
    chosen = numbers["chosen"]
    far = sum((numbers[name] - share * chosen) ** 2 / (share * chosen) for name, share in WANTED.items())
    return [
        within("share of tokens chosen", chosen / numbers["free"], 0.149, 0.151),
        within("hidden", numbers["hidden"] / chosen, 0.79, 0.81),
        within("any token", numbers["other"] / chosen, 0.095, 0.105),
        within("kept", numbers["kept"] / chosen, 0.095, 0.105),
        below("chi-square of the three, 2 degrees of freedom", far, SURE),
        within("any token is drawn from the whole vocabulary: mean place in it", numbers["middle"], 0.48, 0.52),
        equal("all other places, [CLS] and [SEP] among them, are as they were", numbers["untouched"], True),
    ]
