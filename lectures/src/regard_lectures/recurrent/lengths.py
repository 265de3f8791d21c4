"""1.11: BLEU by the length of the source, four curves (Fig. 1 of deck 003, from Bahdanau et al., 2015), on a made-up
language that needs no data.

English of adjectives, nouns, verbs and conjunctions becomes a French in which the adjective follows its noun. RNNencdec
is Cho's net, which puts the whole sentence into one state; RNNsearch is Bahdanau's. Both are 96 wide and are trained on
sentences of up to 15 and of up to 30 words, the former for more than twice as many steps, which take as long. The same
on real sentences is another figure. Unlike in the paper, RNNencdec is hardly better with longer training sentences: it
loses what it read well before 15 words.
"""

from random import Random
from typing import Literal

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard import style
from regard.decode.incremental import IncrementalDecoder, Seq2SeqDecoder
from regard.decode.sampling import greedy_tokens
from regard.decode.steps import collect_tokens, stream_tokens
from regard.modalities.text.bleu import bleu_and_chrf
from regard.models.rnn import Config, RNNTranslator
from regard_lectures.figure import Check, Numbers, aside, seeded, starts_above, starts_below

TITLE = "One state for a whole sentence, or a look at its words"
DECKS = ("003", "002", "004")
CLAIM = (
    "With one state for the sentence BLEU falls with its length; with attention it does not, within what was trained."
)
EXPECTED = (
    "With one state for the sentence BLEU falls with its length, with attention much less; one state trained on short"
    " sentences collapses beyond them."
)
FOUND = (
    "From 5 to 30 words one state loses 76 to 81 BLEU, attention 4 to 7; one state trained on 15 words keeps 18 to 21 "
    "% of its BLEU at 30, in each of 3 starts."
)
COST = 210.0
SEED = 0

ADJECTIVES, NOUNS, VERBS, CONJUNCTIONS = range(10), range(10, 25), range(25, 35), range(35, 40)
START, END, VOCAB = 40, 41, 42
SHORTEST, TRAINED, TESTED, SENTENCES = 3, (15, 30), [5, 10, 15, 20, 25, 30, 35, 40], 64
WIDTH, DIM, BATCH, RATE, SEEDS = 96, 32, 64, 5e-3, 3
STEPS = {"RNNencdec": 1200, "RNNsearch": 500}
KINDS: dict[str, Literal["cho", "bahdanau"]] = {"RNNencdec": "cho", "RNNsearch": "bahdanau"}


def sentence(length: int, draw: Random) -> tuple[list[int], list[int]]:
    """So many words of English, and the French: the same words, but an adjective follows its noun."""
    english: list[int] = []
    french: list[int] = []
    while len(english) < length:
        noun = draw.choice(NOUNS)
        if length - len(english) > 1 and draw.random() < 0.5:
            adjective = draw.choice(ADJECTIVES)
            english += [adjective, noun]
            french += [noun, adjective]
        else:
            english.append(noun)
            french.append(noun)
        if len(english) < length:
            link = draw.choice(VERBS if draw.random() < 0.6 else CONJUNCTIONS)
            english.append(link)
            french.append(link)
    return english, french


def pairs(count: int, length: int, draw: Random) -> tuple[Tensor, Tensor]:
    """(b, n + 1), (b, n + 1): both with their end"""
    rows = [sentence(length, draw) for _ in range(count)]
    english, french = (torch.tensor([row[side] for row in rows]) for side in (0, 1))
    return F.pad(english, (0, 1), value=END), F.pad(french, (0, 1), value=END)


def train(name: str, longest: int, seed: int) -> RNNTranslator:
    """Each batch holds sentences of one length."""
    with seeded(seed):
        kind, draw = KINDS[name], Random(seed)
        config = Config(
            vocab=VOCAB,
            target_vocab=VOCAB,
            dim=DIM,
            hidden=WIDTH,
            align=WIDTH,
            maxout=WIDTH,
            decoder=kind,
            bidirectional=kind == "bahdanau",
        )
        net = RNNTranslator(config)
        for table in (net.embed, net.target_embed):
            assert table is not None
            nn.init.normal_(table.weight)  # larger than usual: with so few words it learns in fewer steps
        optimizer = torch.optim.Adam(net.parameters(), RATE)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS[name])
        for _ in range(STEPS[name]):
            source, wanted = pairs(BATCH, draw.randint(SHORTEST, longest), draw)
            logits = net(source, F.pad(wanted[:, :-1], (1, 0), value=START))
            loss = F.cross_entropy(logits.flatten(0, 1), wanted.flatten())
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            schedule.step()
    return net.eval()


@torch.inference_mode()
def bleu(net: RNNTranslator, length: int, seed: int) -> float:
    """Of new sentences of this length, each translated by the likeliest word after the other."""
    source, wanted = pairs(SENTENCES, length, Random(1000 * seed + length))
    longest = 2 * length
    writer = IncrementalDecoder(Seq2SeqDecoder(net, source), torch.full((SENTENCES, 1), START), room=longest)
    texts = collect_tokens(stream_tokens(writer, greedy_tokens, [END], longest=longest), SENTENCES, [END])
    said = [" ".join(f"w{i}" for i in text.ids) for text in texts]
    return float(f"{bleu_and_chrf(said, [' '.join(f'w{i}' for i in row[:-1]) for row in wanted.tolist()]).bleu:.4g}")


def compute() -> Numbers:
    numbers: Numbers = {"lengths": TESTED}
    for name in KINDS:
        for longest in TRAINED:
            nets = [(train(name, longest, seed), seed) for seed in range(SEED, SEED + SEEDS)]
            numbers[f"{name}-{longest}"] = [[bleu(net, length, seed) for length in TESTED] for net, seed in nets]
    return numbers


def draw(numbers: Numbers) -> Figure:
    note = f"BLEU of made-up sentences, {SEEDS} seeds each. After a name: the longest sentences in its training."
    figure = style.page(TITLE, note, height=5.2)
    axes = figure.subplots()
    for name, tint in (("RNNsearch", style.WEIGHT), ("RNNencdec", style.SECOND)):
        for longest in TRAINED:
            runs = numbers[f"{name}-{longest}"]
            for y in runs:
                axes.plot(numbers["lengths"], y, color=tint, ls="-" if longest == TRAINED[1] else "--", lw=1.9)
            mean = sum(y[-1] for y in runs) / SEEDS
            up = {"RNNsearch-15": 12, "RNNencdec-15": -14}.get(f"{name}-{longest}", 0)
            style.end_label(axes, TESTED[-1], mean, f"{name}-{longest}", tint, dy=up)
    for longest in TRAINED:
        axes.axvline(longest, color=style.EDGE, lw=1, ls=":", zorder=1)
    axes.set(xlabel="words in the source", ylim=(0, 104), xlim=(4, 48), xticks=TESTED, yticks=[0, 50, 100])
    axes.set_title("BLEU")
    axes.grid(axis="y")
    axes.spines["left"].set_visible(False)
    return figure


def checks(numbers: Numbers) -> list[Check]:
    def at(name: str, length: int) -> list[float]:
        return [y[TESTED.index(length)] for y in numbers[name]]

    def over(one: str, other: str, length: int) -> list[float]:
        return [a - b for a, b in zip(at(one, length), at(other, length), strict=True)]

    fixed, search = ([y[0] - y[5] for y in numbers[name]] for name in ("RNNencdec-30", "RNNsearch-30"))
    kept = [y[TESTED.index(30)] / y[0] for y in numbers["RNNencdec-15"]]
    return [
        starts_above("RNNencdec-30: BLEU lost from 5 to 30 words", fixed, 50),
        starts_below("RNNsearch-30: BLEU lost from 5 to 30 words", search, 20),
        starts_below("RNNencdec-15: share of its BLEU that is left at twice its longest", kept, 1 / 3),
        aside(starts_above("RNNsearch-15 over RNNencdec-15 at 15 words", over("RNNsearch-15", "RNNencdec-15", 15), 20)),
        aside(starts_above("RNNsearch-15 over RNNencdec-15 at 30 words", over("RNNsearch-15", "RNNencdec-15", 30), 5)),
        aside(
            starts_above(
                "RNNsearch: what longer sentences in training bring at 30 words",
                over("RNNsearch-30", "RNNsearch-15", 30),
                20,
            )
        ),
    ]
