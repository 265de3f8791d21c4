"""A small RNN that translates sentences such as "A bird flies through the window" into German, trained in seconds.

What an article becomes is told by the noun after it (durch das Fenster, die Tür, den Garten), so that nobody can write
who has not read on. The sentence that is shown, and a third of all, are kept out of training.
"""

from dataclasses import dataclass, field
from itertools import product
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.decode.incremental import IncrementalDecoder, Seq2SeqDecoder
from regard.decode.sampling import greedy_tokens
from regard.decode.steps import collect_tokens, stream_tokens
from regard.models.rnn import Config, RNNTranslator
from regard_lectures.figure import seeded
from regard_lectures.toys import fit

WHO = {"bird": "Ein Vogel", "cat": "Eine Katze", "bee": "Eine Biene", "dog": "Ein Hund", "child": "Ein Kind"}
WHO |= {"mouse": "Eine Maus", "squirrel": "Ein Eichhörnchen"}
DOES = {
    "flies": "fliegt",
    "runs": "läuft",
    "walks": "geht",
    "looks": "schaut",
    "jumps": "springt",
    "climbs": "klettert",
}
WHERE = {"window": "das Fenster", "house": "das Haus", "door": "die Tür", "street": "die Straße"}
WHERE |= {"garden": "den Garten", "forest": "den Wald"}
START, END = "‹start›", "‹end›"
SHOWN = ("A bird flies through the window", "Ein Vogel fliegt durch das Fenster")

Pair = tuple[list[str], list[str]]


def sentences() -> list[Pair]:
    """All of them; each has six words in either language."""
    return [
        (f"A {who} {does} through the {where}".split(), f"{wer} {tut} durch {wo}".split())
        for (who, wer), (does, tut), (where, wo) in product(WHO.items(), DOES.items(), WHERE.items())
    ]


def parted() -> tuple[list[Pair], list[Pair]]:
    """Those to learn from, and those kept out, of which the one that is shown is the first."""
    shown = (SHOWN[0].split(), SHOWN[1].split())
    kept = [pair for i, pair in enumerate(sentences()) if (i + i // 6 + i // 36) % 3 == 0 and pair != shown]
    return [pair for pair in sentences() if pair not in kept and pair != shown], [shown, *kept]


@dataclass(frozen=True, eq=False)
class Flight:
    net: RNNTranslator
    english: list[str]
    german: list[str]
    history: list[float] = field(default_factory=list)

    def source(self, rows: list[list[str]]) -> Tensor:
        return torch.tensor([[self.english.index(word) for word in row] for row in rows])

    def target(self, rows: list[list[str]]) -> Tensor:
        return torch.tensor([[self.german.index(word) for word in row] for row in rows])

    @torch.no_grad()
    def translate(self, rows: list[list[str]]) -> list[list[str]]:
        """The likeliest word after the other."""
        end = self.german.index(END)
        start = torch.full((len(rows), 1), self.german.index(START))
        writer = IncrementalDecoder(Seq2SeqDecoder(self.net, self.source(rows)), start, room=12)
        texts = collect_tokens(stream_tokens(writer, greedy_tokens, [end], longest=12), len(rows), [end])
        return [[self.german[i] for i in text.ids] for text in texts]


def train(seed: int, decoder: Literal["sutskever", "bahdanau"], *, backwards: bool = False, steps: int) -> Flight:
    known, _ = parted()
    words = [sorted({word for pair in sentences() for word in pair[side]}) for side in (0, 1)]
    with seeded(seed):
        config = Config(
            vocab=len(words[0]),
            target_vocab=len(words[1]) + 2,
            dim=32,
            hidden=64,
            align=32,
            maxout=32,
            cell="lstm" if decoder == "sutskever" else "gru",
            bidirectional=decoder == "bahdanau",
            backwards=backwards,
            decoder=decoder,
        )
        flight = Flight(RNNTranslator(config), words[0], [START, END, *words[1]])
        for table in (flight.net.embed, flight.net.target_embed):
            assert table is not None
            nn.init.normal_(table.weight)  # larger than usual: with so few words it learns in fewer steps
        source, target = flight.source([en for en, _ in known]), flight.target([[START, *de] for _, de in known])
        wanted = flight.target([[*de, END] for _, de in known])

        def loss() -> Tensor:
            some = torch.randint(len(known), (64,))
            return F.cross_entropy(flight.net(source[some], target[some]).flatten(0, 1), wanted[some].flatten())

        flight.history.extend(fit(flight.net.parameters(), loss, steps=steps, rate=1e-2))
    flight.net.eval()
    return flight


def right(flight: Flight) -> float:
    """The share of sentences kept out that are translated without a fault."""
    _, kept = parted()
    said = flight.translate([en for en, _ in kept])
    return sum(one == de for one, (_, de) in zip(said, kept, strict=True)) / len(kept)
