"""4.3b: learning from examples in the prompt, in miniature (Brown et al., 2020). Nothing but the prompt changes.

A small GPT has seen many random maps of four letters to 26, each of them in one row of examples: a letter,
what it is mapped to, the next letter. Tested on maps that no row of its training had, it can know an answer only from
the prompt. How often the letter in question is among k random examples is 1 - (3/4)^k; else it has to guess.
At twice the rate of learning one start of three had found 87 % of the letters among its examples by the last step.
"""

from itertools import pairwise

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.models.gpt import GPT, Config
from regard.storage.digest import weights_digest
from regard_lectures.figure import Check, Numbers, above, aside, below, equal, plain, seeded, starts_above
from regard_lectures.toys import fit, means

TITLE = "Learning from the prompt alone"
DECKS = ("003", "001", "004")
CLAIM = "On maps never seen, a small GPT rises from chance with the examples in its prompt, and no weight changes."
EXPECTED = (
    "On maps never seen, right answers rise from chance with each example in the prompt, to over 80 % with eight of "
    "them, and no weight changes."
)
FOUND = (
    "From 4 % without an example, the chance of 1 in 26, right answers rise to 89.5, 89.6 and 91.1 % with eight; the "
    "weights stay the same."
)
COST = 190.0
SEED = 0

ASKED, ANSWERS, SHOTS = 4, 26, 8  # letters that are asked, letters that they are mapped to, examples
SIZES = Config(
    vocab=ASKED + ANSWERS,  # what is asked and what is answered have numbers of their own
    length=2 * SHOTS + 2,
    dim=64,
    depth=2,
    heads=4,
    hidden=128,
    dropout=0.0,
    attention_dropout=0.0,
    embedding_dropout=0.0,
)
STEPS, BATCH, RATE, SEEDS, TESTS = 2400, 96, 2e-3, 3, 4000


def maps(count: int) -> Tensor:
    """(count, letters): what each letter is mapped to, drawn freely"""
    return torch.randint(ANSWERS, (count, ASKED))


def prompts(tables: Tensor) -> Tensor:
    """(b, letters) -> (b, 2 shots + 2): random letters, each followed by its answer"""
    asked = torch.randint(ASKED, (len(tables), SHOTS + 1))
    return torch.stack((asked, tables.gather(1, asked) + ASKED), -1).flatten(1)


def signature(tables: Tensor) -> Tensor:
    """(b, letters) -> (b,): each map as one number"""
    return (tables * ANSWERS ** torch.arange(ASKED)).sum(1)


def foretold(net: GPT, rows: Tensor) -> Tensor:
    """(b, 2 shots + 2) -> (b, shots + 1, v): what is said after each letter that is asked"""
    logits: Tensor = net(rows[:, :-1])[:, ::2]
    return logits


def known(rows: Tensor) -> Tensor:
    """(b, 2 shots + 2) -> (b, shots + 1): whether a letter that is asked was asked before"""
    asked = rows[:, ::2]
    return (asked[:, :, None] == asked[:, None, :]).tril(-1).any(-1)


def best(shots: int) -> float:
    """How often the one is right who remembers every example, and guesses else."""
    missed = (1 - 1 / ASKED) ** shots
    return 1 - missed + missed / ANSWERS


def run(seed: int) -> Numbers:
    seen: list[Tensor] = []
    with seeded(seed):
        net = GPT(SIZES)

        def loss() -> Tensor:
            tables = maps(BATCH)
            seen.append(signature(tables))
            rows = prompts(tables)
            return F.cross_entropy(foretold(net, rows).flatten(0, 1), rows[:, 1::2].flatten())

        fit(net.parameters(), loss, steps=STEPS, rate=RATE)
        unseen = maps(TESTS)
        unseen = unseen[~torch.isin(signature(unseen), torch.cat(seen))]
        rows = prompts(unseen)
    net.eval()
    before = weights_digest(net.state_dict())
    with torch.no_grad():
        said = foretold(net, rows).argmax(-1)
    hits, told = (said == rows[:, 1::2]).double(), known(rows)
    return {
        "right": plain(hits.mean(0), 4),
        "told": round(float(hits[told].mean()), 4),
        "untold": round(float(hits[~told].mean()), 4),
        "maps": len(torch.cat(seen).unique()),
        "tested": len(rows),
        "repeated": int(torch.isin(signature(unseen), torch.cat(seen)).sum()),
        "before": before,
        "after": weights_digest(net.state_dict()),
    }


def compute() -> Numbers:
    return {"runs": [run(SEED + i) for i in range(SEEDS)], "best": [round(best(k), 5) for k in range(SHOTS + 1)]}


def draw(numbers: Numbers) -> Figure:
    runs = numbers["runs"]
    same = all(one["before"] == one["after"] for one in runs)
    note = (
        f"Maps of {ASKED} letters to {ANSWERS} letters, none of them seen in training; {SEEDS} seeds and their mean.\n"
        "The dashed line: who remembers every example, and guesses where the letter is not among them.\n"
        f"SHA-256 of the first seed’s weights {'before and after' if same else 'before'} all prompts:"
        f" {runs[0]['before'][:16]}…"
    )
    figure = style.page(TITLE, note, height=5.6)
    axes = figure.subplots()
    shots = list(range(SHOTS + 1))
    for one in runs:
        axes.plot(shots, one["right"], "o", color=style.WEIGHT, ms=4.5, alpha=0.6, mew=0)
    axes.plot(shots, means([one["right"] for one in runs]), color=style.WEIGHT)
    axes.plot(shots, numbers["best"], color=style.EDGE, lw=1.3, ls=(0, (4, 3)))
    axes.axhline(1 / ANSWERS, color=style.EDGE, lw=1, ls=":")
    axes.text(SHOTS, 1 / ANSWERS + 0.015, "chance", ha="right", color=style.SOFT, size=10.5)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100 %"])
    axes.set(xlabel="examples in the prompt", ylim=(0, 1.03), xlim=(-0.3, SHOTS + 0.3), xticks=shots[::2])
    axes.set_ylabel("right answers")
    axes.grid(axis="y")
    axes.spines["left"].set_visible(False)
    return figure


def checks(numbers: Numbers) -> list[Check]:
    runs = numbers["runs"]
    curve = means([one["right"] for one in runs])
    noise = 4 * (1 / ANSWERS * (1 - 1 / ANSWERS) / min(one["tested"] for one in runs)) ** 0.5
    short = max(best - right for one in runs for best, right in zip(numbers["best"], one["right"], strict=True))
    return [
        aside(equal("maps tested that training had", sum(one["repeated"] for one in runs), 0)),
        *(
            equal(f"seed {i}: SHA-256 of all weights, after as before", one["after"], one["before"])
            for i, one in enumerate(runs)
        ),
        below(
            "no example: how far from chance, worst seed",
            max(abs(one["right"][0] - 1 / ANSWERS) for one in runs),
            noise,
        ),
        above(f"{SHOTS} examples: right, worst seed", min(one["right"][-1] for one in runs), 0.8),
        starts_above(f"{SHOTS} examples: right, seed by seed", [one["right"][-1] for one in runs], 0.8),
        above("each example more: least gain", min(b - a for a, b in pairwise(curve)), 0.0),
        above("letter among the examples: right, worst seed", min(one["told"] for one in runs), 0.95),
        below("letter not among them: right, best seed", max(one["untold"] for one in runs), 1 / ANSWERS + noise),
        below("behind who remembers all, worst seed and number of examples", short, 0.1),
    ]
