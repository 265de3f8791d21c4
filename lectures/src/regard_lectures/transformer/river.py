"""A small Transformer that translates phrases such as "walking along the river bank" into German, trained in seconds.

The phrases are all combinations of a few parts; the one that is shown is kept out of training.
"""

from dataclasses import dataclass
from itertools import product

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.models.transformer import Config, Transformer
from regard_lectures.figure import seeded
from regard_lectures.toys import fit

THINGS = {"river bank": "Flussufer", "lake shore": "Seeufer", "forest edge": "Waldrand", "market square": "Marktplatz"}
THINGS |= {"train station": "Bahnhof", "city gate": "Stadttor"}
WAYS = {"walking": "gehen", "running": "laufen", "riding": "reiten", "driving": "fahren"}
STAYS = {"sitting": "sitzen", "standing": "stehen", "waiting": "warten"}
START, END, PADDING = "<start>", "<end>", "<pad>"
SHOWN = ("walking along the river bank", "am Flussufer entlang gehen")


def phrases() -> list[tuple[str, str]]:
    along = [(f"{en} along the {thing}", f"am {ding} entlang {de}") for (en, de), (thing, ding) in pairs(WAYS)]
    to = [(f"{en} to the {thing}", f"zum {ding} {de}") for (en, de), (thing, ding) in pairs(WAYS)]
    by = [(f"{en} by the {thing}", f"am {ding} {de}") for (en, de), (thing, ding) in pairs(STAYS)]
    return along + to + by


def pairs(verbs: dict[str, str]) -> list[tuple[tuple[str, str], tuple[str, str]]]:
    return list(product(verbs.items(), THINGS.items()))


@dataclass(frozen=True, eq=False)
class Translator:
    model: Transformer
    words: list[str]

    def ids(self, texts: list[str]) -> Tensor:
        """Words as numbers, padded on the right.  -> (b, n)"""
        rows = [[self.words.index(word) for word in text.split()] for text in texts]
        longest = max(map(len, rows))
        return torch.tensor([row + [self.words.index(PADDING)] * (longest - len(row)) for row in rows])


def train(seed: int, steps: int) -> Translator:
    known = [pair for pair in phrases() if pair != SHOWN]
    words = [START, END, PADDING, *sorted({word for pair in phrases() for text in pair for word in text.split()})]
    with seeded(seed):
        config = Config(vocab=len(words), dim=64, depth=2, heads=4, hidden=128, dropout=0.0, norm="pre")
        translator = Translator(Transformer(config), words)
        source = translator.ids([english for english, _ in known])
        target = translator.ids([f"{START} {german}" for _, german in known])
        wanted = translator.ids([f"{german} {END}" for _, german in known])
        padding = words.index(PADDING)

        def loss() -> Tensor:
            logits = translator.model(source, target, source_keys=source != padding, keys=target != padding)
            return F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=padding)

        fit(translator.model.parameters(), loss, steps=steps, rate=3e-3)
    translator.model.eval()
    return translator
