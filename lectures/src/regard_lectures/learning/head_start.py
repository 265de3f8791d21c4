"""3.1c: a small Transformer that starts from word2vec's table, and one that starts from a random one as large.

Both learn to foretell the next word of generated sentences, each about one of six topics: an adjective, a noun, a verb,
an adjective, a noun, all of the topic's own. Which words belong together must be learned; word2vec learns it before,
from 4,000 sentences. How good a model can be is known: the entropy of the language. On real text the lead lasts longer:
on the captions of Multi30k (1,500 words, 48 wide) it was 0.30 nats at its largest and still 0.10 after 1,200 steps.
"""

from math import log

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray

from regard import style
from regard.modalities.text.tasks.language import Language, NextTokenBatch, next_tokens
from regard.models.gpt import GPT, Config
from regard.models.word2vec import Config as Word2Vec
from regard.models.word2vec import word_vectors
from regard_lectures.figure import Check, Numbers, aside, seeded, starts_above, starts_below
from regard_lectures.learning.lessons import lesson

TITLE = "A start from word vectors"
DECKS = ("004", "001")
CLAIM = "A Transformer that starts from word2vec's table is ahead at first; in the end a random start is as good."
EXPECTED = "Started from word2vec’s table a small Transformer has a faster start and the same end."
FOUND = "After 60 steps it is at least 1.2 nats ahead in 3 starts; in the end the two are at most 0.008 nats apart."
COST = 35.0
SEED = 0

TOPICS, EACH = 6, 25  # words of each topic that are adjectives, as many nouns, as many verbs
KINDS_OF_WORDS = (0, 1, 2, 0, 1)  # a sentence: adjective, noun, verb, adjective, noun
BEGIN, END, FIRST = 0, 1, 2
WORDS, DIM = FIRST + 3 * TOPICS * EACH, 32
SEEDS, STEPS, BATCH, RATE, CORPUS = 3, 700, 32, 5e-3, 4000
LOOKS = [20, 40, 60, 80, 100, 140, 180, 220, 260, 300, 350, 400, 450, 500, 550, 600, 650, 700]
CONFIG = Config(
    vocab=WORDS,
    length=8,
    dim=DIM,
    depth=2,
    heads=4,
    hidden=2 * DIM,
    dropout=0.0,
    attention_dropout=0.0,
    embedding_dropout=0.0,
)
KINDS = {"random": style.SECOND, "word2vec": style.WEIGHT}


def shares() -> NDArray[np.float64]:
    """How often each word of a kind and a topic is used: a few often, many seldom."""
    often = 1 / (np.arange(EACH) + 3.0)
    return np.asarray(often / often.sum())


def sentences(count: int, seed: int) -> list[list[int]]:
    chance = np.random.default_rng(seed)
    topics = chance.integers(TOPICS, size=count)
    columns = [
        FIRST + (kind * TOPICS + topics) * EACH + chance.choice(EACH, size=count, p=shares()) for kind in KINDS_OF_WORDS
    ]
    return [[BEGIN, *row, END] for row in np.stack(columns, 1).tolist()]


def entropy() -> float:
    """Nats a word, the end included: the first word tells the topic too."""
    each = -float((shares() * np.log(shares())).sum())
    return (log(TOPICS) + len(KINDS_OF_WORDS) * each) / (len(KINDS_OF_WORDS) + 1)


def compute() -> Numbers:
    numbers: Numbers = {"steps": LOOKS, "entropy": entropy(), "random": [], "word2vec": []}
    unseen = next_tokens(sentences(500, 10**6))
    for seed in range(SEED, SEED + SEEDS):
        corpus = [row[1:-1] for row in sentences(CORPUS, 10**5 + seed)]
        vectors = word_vectors(corpus, Word2Vec(vocab=WORDS, dim=DIM, often=1.0, batch=1024, seed=seed))
        train = [next_tokens(sentences(BATCH, (seed + 1) * STEPS + i)) for i in range(STEPS)]
        for kind in KINDS:
            with seeded(seed):
                net = GPT(CONFIG)
            if kind == "word2vec":
                with torch.no_grad():
                    net.embed.weight.copy_(vectors * (net.embed.weight.std() / vectors.std()))
            numbers[kind].append(learned(net, train, unseen))
    return numbers


def learned(net: GPT, train: list[NextTokenBatch], unseen: NextTokenBatch) -> list[float]:
    """The loss on unseen sentences, at some steps."""
    task = Language(net)
    loss, history = lesson(task, train), []
    optimizer = torch.optim.Adam(net.parameters())
    for step in range(1, STEPS + 1):
        optimizer.param_groups[0]["lr"] = RATE * min(step / 30, 1.0, 2.5 * (1 - step / STEPS))
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
        if step in LOOKS:
            with torch.no_grad():
                history.append(float(f"{task.metrics(task.evaluate(unseen))['loss']:.4g}"))
    return history


def draw(numbers: Numbers) -> Figure:
    note = f"A small Transformer foretells the next word; loss on unseen sentences, nats a word, {SEEDS} seeds each."
    figure = style.page(TITLE, note, height=4.9)
    axes = figure.subplots()
    steps, floor = numbers["steps"], numbers["entropy"]
    for kind, tint in KINDS.items():
        for y in numbers[kind]:
            axes.plot(steps, y, color=tint, lw=1.8)
    axes.text(62, max(y[2] for y in numbers["random"]) + 0.05, "random start", color=style.SECOND, weight="bold")
    axes.text(20.5, min(y[1] for y in numbers["word2vec"]) - 0.3, "word2vec", color=style.WEIGHT, weight="bold")
    axes.axhline(floor, color=style.EDGE, lw=1.2, ls=(0, (4, 3)))
    axes.text(STEPS, floor - 0.06, "entropy of the language", color=style.SOFT, size=10.5, ha="right", va="top")
    axes.set_xscale("log")
    axes.set(xlabel="step", xlim=(19, STEPS + 20), ylim=(2.4, None))
    ticks = [20, 50, 100, 200, 300, 500, 700]
    axes.set_xticks(ticks, [str(step) for step in ticks])
    axes.minorticks_off()
    axes.grid(axis="y")
    axes.spines["left"].set_visible(False)
    return figure


def when(numbers: Numbers, run: list[float]) -> int:
    """The first look at which the loss is within a quarter of a nat of the entropy."""
    good = [step for step, loss in zip(numbers["steps"], run, strict=True) if loss < numbers["entropy"] + 0.25]
    return int(good[0]) if good else 10 * STEPS


def checks(numbers: Numbers) -> list[Check]:
    pairs = list(zip(numbers["random"], numbers["word2vec"], strict=True))
    early = numbers["steps"].index(60)
    return [
        starts_above("ahead after 60 steps, nats", [a[early] - b[early] for a, b in pairs], 0.5),
        starts_above(
            "steps to within 0.25 nats of the entropy: random over word2vec",
            [when(numbers, a) / when(numbers, b) for a, b in pairs],
            1.5,
        ),
        starts_below("apart in the end, nats", [abs(a[-1] - b[-1]) for a, b in pairs], 0.03),
        aside(
            starts_below(
                "above the entropy in the end, nats, worse run", [max(a[-1], b[-1]) - entropy() for a, b in pairs], 0.1
            )
        ),
    ]
