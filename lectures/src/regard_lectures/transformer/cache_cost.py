"""3.8b: what the n-th word costs, with a cache and without.

Without one, all n words go through the decoder again for each new one: n^2 pairs of words. With one, the new word alone
does, and looks at n kept keys. Operations are counted on the plain form of attention (the fused one hides them from the
counter) and are exact; words per second are measured on the fused path, on one thread, and not checked. The model is
narrow, so that attention shows at lengths that take no time.
"""

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from regard import style
from regard.comparison.measure import cost_exponent, count_operations, time_fastest
from regard.models.transformer import Config, Transformer
from regard.nn.cache import Cache
from regard_lectures.figure import Check, Numbers, above, below, equal, seeded, within

TITLE = "What the next word costs"
DECKS = ("004", "003", "001")
CLAIM = "The n-th word costs n^2 operations if all is computed anew, and n with a cache."
EXPECTED = "The n-th word costs n^2 operations without a cache and n with one."
FOUND = (
    "Operations are exactly quadratic and exactly linear in n; the 2,048th word costs 2,048 times as many without a"
    " cache."
)
COST = 4.0
SEED = 0

LENGTHS = [64, 128, 256, 512, 1024, 2048]
EVEN = [200, 400, 600, 800, 1000]  # equal steps, so that differences tell the degree of a polynomial
KINDS = {"anew": ("without\na cache", style.SECOND), "cached": ("with\na cache", style.WEIGHT)}


def compute() -> Numbers:
    with seeded(SEED), torch.no_grad():
        model = Transformer(Config(vocab=32, dim=32, depth=2, heads=2, hidden=64, dropout=0.0)).eval()
        memory = model.encode(torch.randint(32, (1, 16)))
        works = {n: both(model, memory, torch.randint(32, (1, n))) for n in LENGTHS + EVEN}
        numbers: Numbers = {"lengths": LENGTHS, "difference": max(differ(work) for work in works.values())}
        for kind in KINDS:
            with sdpa_kernel(SDPBackend.MATH):
                numbers[kind] = {"operations": [count_operations(works[n][kind]) for n in LENGTHS]}
                numbers[kind]["even"] = [count_operations(works[n][kind]) for n in EVEN]
            numbers[kind]["seconds"] = time_fastest([works[n][kind] for n in LENGTHS], rounds=5)
    return numbers


def both(model: Transformer, memory: Tensor, words: Tensor) -> dict[str, Callable[[], Tensor]]:
    """Two ways to the logits of the last word: all words anew, or the last one after a cache of the others."""
    cache = Cache(words.shape[1])
    model.decode(words[:, :-1], memory, cache=cache)
    return {"anew": partial(model.decode, words, memory), "cached": partial(again, model, memory, words, cache)}


def differ(work: dict[str, Callable[[], Tensor]]) -> float:
    """How far the two ways are apart."""
    return float((work["anew"]()[:, -1] - work["cached"]()[:, -1]).abs().max())


def again(model: Transformer, memory: Tensor, words: Tensor, cache: Cache) -> Tensor:
    """One step, and the cache as it was before: the next step writes over what this one left."""
    kept = cache.length
    logits = model.decode(words[:, -1:], memory, cache=cache)
    cache.length = kept
    for slot in cache.slots.values():
        slot.lengths = dict.fromkeys(slot.lengths, kept)
    return logits


def draw(numbers: Numbers) -> Figure:
    note = "A small Transformer writes its $n$-th word. Left, counted; right, measured on one thread of a CPU."
    figure = style.page(TITLE, note, height=4.9)
    left, right = figure.subplots(1, 2)
    sizes = numbers["lengths"]
    for kind, (text, tint) in KINDS.items():
        counts, speeds = numbers[kind]["operations"], [1 / time for time in numbers[kind]["seconds"]]
        left.plot(sizes, counts, color=tint, marker="o")
        right.plot(sizes, speeds, color=tint, marker="o")
        growth = f"$n^{{{cost_exponent(sizes[-2:], counts[-2:]):.1f}}}$"
        style.end_label(left, sizes[-1], counts[-1], growth, tint, size=14)
        style.end_label(right, sizes[-1], speeds[-1], text, tint)
    for axes, title in ((left, "operations for the $n$-th word"), (right, "words per second")):
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
        axes.minorticks_off()
        axes.grid(axis="y")
        axes.spines["left"].set_visible(False)
        axes.set(title=title, xlabel="$n$")
    right.set_yticks([20, 50, 100, 200, 500, 1000], ["20", "50", "100", "200", "500", "1,000"])
    left.set_xlim(50, 3600)
    right.set_xlim(50, 5600)
    return figure


def differences(values: list[int], order: int) -> list[int]:
    for _ in range(order):
        values = [b - a for a, b in pairwise(values)]
    return values


def checks(numbers: Numbers) -> list[Check]:
    sizes, anew, cached = numbers["lengths"], numbers["anew"], numbers["cached"]
    return [
        below("logits with the cache and without, largest difference", numbers["difference"], 1e-5),
        equal(
            "with a cache: exactly linear in n (second differences)", str(differences(cached["even"], 2)), "[0, 0, 0]"
        ),
        above("with a cache: it does grow (first difference)", differences(cached["even"], 1)[0], 0),
        equal("without: exactly quadratic in n (third differences)", str(differences(anew["even"], 3)), "[0, 0]"),
        above("without: its square term (second difference)", differences(anew["even"], 2)[0], 0),
        within("without: exponent from 1024 to 2048", cost_exponent(sizes[-2:], anew["operations"][-2:]), 1.8, 2.0),
        within(
            "with a cache: exponent from 1024 to 2048", cost_exponent(sizes[-2:], cached["operations"][-2:]), 0.8, 1.0
        ),
        above(
            "operations of the 2048th word: without over with", anew["operations"][-1] / cached["operations"][-1], 1000
        ),
    ]
