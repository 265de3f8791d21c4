"""3.10: what a training step costs as sentences grow, for an LSTM, an RNN with attention and a Transformer of as many
weights.

Left, counted: of the operations of one step, the longest chain of which each needs the one before. No machine can do
better than that, however many of its parts work at once. Right, measured for one sentence at a time on one thread of a
CPU: as long as an operation costs more to start than to do, time is the number of operations, and that of the
Transformer is nearly flat; then its work shows, and its square of pairs. A CPU does little at once, so the chain need
not decide: an LSTM whose steps are one fused kernel takes about 15 µs for each, and is the fastest up to 512 words.
"""

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard import style
from regard.comparison.measure import cost_exponent, time_fastest
from regard.models.rnn import Config as Recurrent
from regard.models.rnn import RNNTranslator
from regard.models.transformer import Config, Transformer
from regard.nn.tap import capture
from regard_lectures.figure import Check, Numbers, above, aside, below, equal, seeded, within

TITLE = "A Transformer learns all words at once"
DECKS = ("001", "004", "002")
CLAIM = "A training step of an RNN takes a chain of operations as long as the sentence; a Transformer's never grows."
EXPECTED = (
    "The seconds of a training step grow linearly with the length for RNNs; for a Transformer they are nearly flat"
    " until the square of the length shows."
)
FOUND = (
    "The exponents are 0.96 (LSTM) and 1.02 (RNN with attention); the Transformer’s is 0.12 up to 64 words, and its"
    " last doubling adds 5.0 times what the one before did."
)
COST = 16.0
SEED = 0

LENGTHS = [8, 16, 32, 64, 128, 256, 512]
COUNTED = [4, 8, 12, 16]  # equal steps, so that differences tell the degree of a polynomial
VOCAB = 64
TINTS = {"RNN with attention": style.INK, "LSTM": style.SECOND, "Transformer": style.WEIGHT}
FUSED = "LSTM, fused"


def models() -> dict[str, nn.Module]:
    one_way: dict[str, Any] = {"bidirectional": False, "depth": 1}
    return {
        "RNN with attention": RNNTranslator(Recurrent(vocab=VOCAB, dim=64, hidden=58, align=58, maxout=58, cell="gru")),
        "LSTM": RNNTranslator(Recurrent(vocab=VOCAB, dim=64, hidden=96, decoder="sutskever", cell="lstm", **one_way)),
        "Transformer": Transformer(Config(vocab=VOCAB, dim=48, depth=2, heads=4, hidden=192, dropout=0.0)),
    }


def compute() -> Numbers:
    numbers: Numbers = {"lengths": LENGTHS, "counted": COUNTED, "weights": {}, "chain": {}, "seconds": {}}
    with seeded(SEED):
        nets = models()
        words = torch.randint(VOCAB, (1, max(LENGTHS)))
    for name, net in nets.items():
        numbers["weights"][name] = sum(x.numel() for x in net.parameters())
        # who listens to its cells makes an RNN take them step by step, where the chain can be counted
        look = capture(net, "*.h") if isinstance(net, RNNTranslator) else nullcontext()
        with look:
            numbers["chain"][name] = [chain(foretell(net, words[:, :length])) for length in LENGTHS]
            numbers["chain"][f"{name}, even"] = [chain(foretell(net, words[:, :length])) for length in COUNTED]
    steps = {name: partial(step, net) for name, net in nets.items()} | {"LSTM": partial(walk, nets["LSTM"])}
    steps[FUSED] = partial(step, nets["LSTM"])
    works: list[Callable[[], object]] = [
        partial(work, words[:, :length]) for length in LENGTHS for work in steps.values()
    ]
    found = time_fastest(works, rounds=4)
    for i, name in enumerate(steps):
        numbers["seconds"][name] = found[i :: len(steps)]
    return numbers


def foretell(net: nn.Module, words: Tensor) -> Tensor:
    """The loss of copying a sentence, whatever the model makes of it."""
    given = F.pad(words[:, :-1], (1, 0))
    return F.cross_entropy(net(words, given)[0], words[0])


def step(net: nn.Module, words: Tensor) -> None:
    """Forwards and backwards; the optimizer's part does not depend on the length."""
    for x in net.parameters():
        x.grad = None
    foretell(net, words).backward()


def walk(net: nn.Module, words: Tensor) -> None:
    """The same, cell by cell."""
    with capture(net, "*.h"):
        step(net, words)


def chain(loss: Tensor) -> int:
    """The longest row of operations, each of which needs the result of the one before."""
    longest: dict[Any, int] = {}
    waiting: list[Any] = [loss.grad_fn]
    while waiting:
        node = waiting[-1]
        before = [other for other, _ in node.next_functions if other is not None]
        left = [other for other in before if other not in longest]
        if left:
            waiting += left
        else:
            longest[waiting.pop()] = 1 + max((longest[other] for other in before), default=0)
    return longest[loss.grad_fn]


def draw(numbers: Numbers) -> Figure:
    weights = sum(numbers["weights"].values()) / len(TINTS)
    note = (
        f"One training step on one sentence of $T$ words in and $T$ out; about {round(weights, -3):,.0f} weights each."
    )
    figure = style.page(TITLE, note, height=5.3)
    left, right = figure.subplots(1, 2)
    sizes = numbers["lengths"]
    for name, tint in TINTS.items():
        left.plot(sizes, numbers["chain"][name], color=tint, marker="o")
        right.plot(sizes, numbers["seconds"][name], color=tint, marker="o")
        style.end_label(right, sizes[-1], numbers["seconds"][name][-1], name.replace(" with ", "\nwith "), tint)
    right.plot(sizes, numbers["seconds"][FUSED], color=style.SECOND, marker="o", ls=(0, (2, 1.5)), lw=1.5)
    style.end_label(right, sizes[-1], numbers["seconds"][FUSED][-1], "LSTM as one\nfused kernel", style.SECOND)
    left.set_xscale("log", base=2)
    left.set_yscale("log")
    left.set_xticks(sizes, [str(size) for size in sizes])
    left.set_yticks([100, 1000, 10000], ["100", "1,000", "10,000"])
    left.minorticks_off()
    left.grid(axis="y")
    left.spines["left"].set_visible(False)
    left.set(title="operations in a row", xlabel="$T$")
    style.logarithmic(right, sizes, "T", "seconds")
    right.set(title="time, measured", xlim=(7, 2600))
    return figure


def even(numbers: Numbers, name: str) -> list[int]:
    """How much longer the chain gets from each counted length to the next."""
    return [b - a for a, b in pairwise(numbers["chain"][f"{name}, even"])]


def doubled(times: list[float]) -> float:
    """What the last doubling of the length adds, over what the one before added: 2 if linear, 4 if quadratic."""
    return (times[-1] - times[-2]) / (times[-2] - times[-3])


def checks(numbers: Numbers) -> list[Check]:
    sizes, times, counts = numbers["lengths"], numbers["seconds"], numbers["weights"]
    until = sizes.index(64) + 1
    checks = [aside(below("weights: the most over the fewest", max(counts.values()) / min(counts.values()), 1.05))]
    for name in ("LSTM", "RNN with attention"):
        grows = even(numbers, name)
        same = len(set(grows)) == 1 and grows[0] > 0
        checks.append(equal(f"{name}: the chain grows by as much with each word", same, True))
    checks.append(equal("Transformer: lengths of its chain", len(set(numbers["chain"]["Transformer"])), 1))
    for name in ("LSTM", "RNN with attention"):
        checks.append(within(f"seconds: exponent of the {name}", cost_exponent(sizes, times[name]), 0.8, 1.3))
    short = cost_exponent(sizes[:until], times["Transformer"][:until])
    return [
        *checks,
        above("seconds: fused LSTM, 512 words over 8", times[FUSED][-1] / times[FUSED][0], 2.0),
        below("seconds: exponent of the Transformer, T <= 64", short, 0.4),
        above(
            "seconds: Transformer, what a doubling adds over what the last one did", doubled(times["Transformer"]), 2.2
        ),
        above("seconds: LSTM over Transformer at T = 512", times["LSTM"][-1] / times["Transformer"][-1], 2.0),
    ]
