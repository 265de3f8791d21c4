"""10.3d: deck 004 says of Performer that it "beats the LINformer and Reformer while still scaling linearly". Here the
three and exact attention guess hidden pixels, 784 at a time, each for as many seconds of one processor.

Linformer has no causal form, so all of them are encoders. What a step of each takes is measured first, and tells how
many steps it is given; all rates go up and down within that.

Found was that Performer is ahead of softmax and of Linformer in each of three starts, and Reformer's hashing ahead of
Performer: a pixel is told by a few that are like it, and these hashing finds. Linformer's sums of 784 keys are hardly
learned in that time (figure 10.5e has those that are).
"""

from collections.abc import Callable

import torch
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.comparison.measure import on_threads, time_fastest
from regard.nn.mechanisms import Choice
from regard_lectures.curves import bits, named
from regard_lectures.efficient.hidden import Course, alone, batch_of, built, taught
from regard_lectures.efficient.training import marks
from regard_lectures.figure import Check, Numbers, above, aside, seeded, starts_below
from regard_lectures.toys import means

TITLE = "As many seconds for each"
DECKS = ("004",)
CLAIM = "In as many seconds, Performer guesses hidden pixels better than Linformer, Reformer's hashing and softmax."
EXPECTED = (
    "Performer beats Linformer and Reformer while it still scales linearly, as deck 004 says: in as many seconds its "
    "loss is the lowest."
)
FOUND = (
    "After 90 seconds Reformer has 0.770 nats, Performer 0.890, softmax 0.935 and Linformer 1.263, which is hardly "
    "below the 1.278 without a look: Performer is ahead of softmax and Linformer in 3 of 3 starts, of Reformer in "
    "none."
)
COST = 1150.0
SEED = 0

SEEDS, SIDE, BATCH, BUDGET = 3, 28, 3, 90.0  # seconds of learning for each
RIVALS: dict[str, Choice] = {
    "softmax": "softmax",
    "Performer": {"kind": "performer", "features": 64},
    "Linformer": {"kind": "linformer", "rank": 64},
    "Reformer": {"kind": "lsh", "chunk": 32, "rounds": 2},
}
TINTS = {"softmax": style.INK, "Performer": style.WEIGHT, "Linformer": style.KEY, "Reformer": style.SECOND}


def compute() -> Numbers:
    with seeded(SEED):
        paces = time_fastest([step(choice) for choice in RIVALS.values()], rounds=5)
    numbers: Numbers = {"alone": alone(SIDE), "rivals": {}}
    for (name, choice), pace in zip(RIVALS.items(), paces, strict=True):
        steps = max(round(BUDGET / pace), 1)
        with on_threads(1):
            losses = [taught(choice, Course(SIDE, BATCH, steps), seed) for seed in range(SEED, SEED + SEEDS)]
        numbers["rivals"][name] = {"pace": pace, "steps": steps, "losses": losses}
    return numbers


def step(choice: Choice) -> Callable[[], Tensor]:
    """All of one step, for a watch to be held to it."""
    net = built(choice, SIDE**2, SEED)
    loss, optimizer = batch_of(net, SIDE, BATCH), torch.optim.Adam(net.parameters(), fused=True)

    def work() -> Tensor:
        optimizer.zero_grad()
        value = loss()
        value.backward()
        optimizer.step()
        return value.detach()

    return work


def draw(numbers: Numbers) -> Figure:
    note = (
        f"Encoders that guess hidden pixels of clothes, {SIDE} × {SIDE} at a time, each for {BUDGET:.0f} seconds of one"
        f" processor; the mean of {SEEDS}\nstarts. In brackets, the steps that fit. Deck 004 says of Performer: “Beats"
        " the LINformer and Reformer while still scaling\nlinearly”, which is of its paper’s tasks. Dotted: who looks"
        " at no other pixel."
    )
    figure = style.page(TITLE, note, height=5.4)
    axes = figure.subplots()
    labels = {name: f"{name} ({numbers['rivals'][name]['steps']:,})" for name in RIVALS}
    curves = {}
    for name, one in numbers["rivals"].items():
        spent = [mark * one["pace"] for mark in marks(one["steps"])][1:]
        curves[labels[name]] = (spent, bits(means(one["losses"]))[1:])
    axes.axhline(bits([numbers["alone"]])[0], color=style.EDGE, lw=1.2, ls=":")
    named(axes, curves, {labels[name]: tint for name, tint in TINTS.items()}, wide=0.28)
    axes.set_xlabel("seconds of learning")
    axes.set_title("bits of a hidden pixel")
    return figure


def checks(numbers: Numbers) -> list[Check]:
    rivals = numbers["rivals"]
    last = {name: [losses[-1] for losses in rivals[name]["losses"]] for name in RIVALS}
    steps = {name: one["steps"] for name, one in rivals.items()}
    worst = [max(start) / numbers["alone"] for start in zip(*last.values(), strict=True)]
    return [
        *(
            starts_below(
                f"seconds: Performer's loss less that of {name}, nats",
                [ours - theirs for ours, theirs in zip(last["Performer"], last[name], strict=True)],
                0.0,
            )
            for name in RIVALS
            if name != "Performer"
        ),
        aside(starts_below("seconds: largest loss of all four over that without a look", worst, 0.9)),
        aside(above("seconds: steps of Performer over those of softmax", steps["Performer"] / steps["softmax"], 1.0)),
    ]
