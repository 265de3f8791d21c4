"""3.11: deck 001's teacher and student: a smaller model is trained with what a larger one makes of the data.

Two ways: on what the teacher finds likely (Hinton et al., 2015), or on what it writes (Kim and Rush, 2016; this is what
the slide says). The numbers below the diagram are those of a trained teacher, the Transformer of 11.2, of an untrained
student, and of the library's own loss: where the temperature T lets the teacher's second thoughts be seen, and what the
factor T^2 is for.
"""

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from regard import style
from regard.comparison.measure import cost_exponent
from regard.tasks.teacher import distillation_divergence
from regard_lectures.figure import Check, Numbers, above, below, plain, within
from regard_lectures.learning.lessons import batched
from regard_lectures.looking.eight import learned
from regard_lectures.looking.french import ADJECTIVES, FRENCH, SWAPPED, translated, untaught

TITLE = "Teacher and student"
DECKS = ("001", "004")
CLAIM = "Without the factor T² the teacher's pull fades as 1 / T²; with it, when T is high, it is (z_s - z_t) / K."
EXPECTED = "Without the factor T² the teacher’s pull fades as 1/T²; with it, when T is high, it is (z_s - z_t) / K."
FOUND = (
    "From T = 16 on the exponents are -2.06 without the factor and -0.06 with it; at T = 10,000 the pull is the limit"
    " to 0.03 %."
)
COST = 10.0
SEED = 0

STUDENT: dict[str, object] = {"dim": 16, "depth": 1, "heads": 2, "hidden": 32, "dropout": 0.0, "norm": "pre"}
PLACE = 6  # of the word that is looked at: the last adjective
HOT, HEATS = 2.0, [1, 2, 4, 8, 16, 32, 64]


@torch.no_grad()
def compute() -> Numbers:
    with torch.enable_grad():
        teacher = learned(SEED)
    student = untaught("transformer-small", SEED + 1, STUDENT).eval()
    (batch,) = batched(teacher.text(), [(SWAPPED, translated(SWAPPED).french)], 1)
    theirs, ours = (centred(model.net(batch.source, batch.given)[0].double()) for model in (teacher, student))  # (n, v)
    pulls = {heat: pull(ours, theirs, heat) for heat in [*HEATS, 1e4]}
    wanted = (ours - theirs) / ours.shape[-1]
    words = teacher.text().labels(list(range(theirs.shape[-1])))
    cool, warm = ((theirs[PLACE] / heat).softmax(-1) for heat in (1.0, HOT))
    best = warm.topk(6)
    kin = torch.tensor([word in ADJECTIVES.values() for word in words])
    other = torch.tensor([word in FRENCH.values() and word not in ADJECTIVES.values() for word in words])
    kin[int(batch.wanted[0, PLACE])] = False
    p, q = (theirs / HOT).softmax(-1), (ours / HOT).softmax(-1)
    return {
        "sizes": {"teacher": amount(teacher.net), "student": amount(student.net)},
        "word": words[int(batch.wanted[0, PLACE])],
        "words": [words[int(i)] for i in best.indices],
        "cool": plain(cool[best.indices], 3),
        "warm": plain(best.values, 3),
        "kin": float(warm[kin].mean() / warm[other].mean()),
        "heats": HEATS,
        "with": [float(f"{float(pulls[heat].norm()):.4g}") for heat in HEATS],
        "without": [float(f"{float(pulls[heat].norm()) / heat**2:.4g}") for heat in HEATS],
        "limit": float((pulls[1e4] - wanted).norm() / wanted.norm()),
        "self": float(distillation_divergence(theirs, theirs, HOT)),
        "formula": float((distillation_divergence(ours, theirs, HOT) - HOT**2 * (p * (p / q).log()).sum()).abs()),
        "reverse": float(distillation_divergence(theirs, ours, HOT) / distillation_divergence(ours, theirs, HOT)),
    }


def centred(logits: Tensor) -> Tensor:
    return logits - logits.mean(-1, keepdim=True)


def pull(student: Tensor, teacher: Tensor, heat: float) -> Tensor:
    """The gradient of the loss by the student's logits."""
    with torch.enable_grad():
        moved = student.clone().requires_grad_()
        (found,) = torch.autograd.grad(distillation_divergence(moved, teacher, heat), moved)
    return found


def amount(net: torch.nn.Module) -> int:
    return sum(x.numel() for x in net.parameters())


def draw(numbers: Numbers) -> Figure:
    note = (
        "Left of the student, what it learns from: the data, what the teacher finds likely, or what the teacher writes."
    )
    figure = style.page(TITLE, note, height=7.9)
    axes = style.stage(figure)
    plan(axes, numbers)
    thoughts(axes, numbers)
    chart = figure.add_axes((0.64, 0.085, 0.24, 0.285))
    chart.plot(numbers["heats"], numbers["with"], color=style.WEIGHT, marker="o", ms=4)
    chart.plot(numbers["heats"], numbers["without"], color=style.SECOND, marker="o", ms=4)
    style.end_label(chart, numbers["heats"][-1], numbers["with"][-1], "with $T^2$", style.WEIGHT)
    style.end_label(chart, numbers["heats"][-1], numbers["without"][-1], "without", style.SECOND)
    chart.set_xscale("log", base=2)
    chart.set_yscale("log")
    chart.set_xticks([1, 4, 16, 64], ["1", "4", "16", "64"])
    chart.set_yticks([1e-3, 1e-2, 1e-1, 1], ["0.001", "0.01", "0.1", "1"])
    chart.minorticks_off()
    chart.grid(axis="y")
    chart.spines["left"].set_visible(False)
    chart.set_xlabel("temperature $T$")
    chart.set_title("norm of the teacher’s pull", size=11)
    return figure


def plan(axes: Axes, numbers: Numbers) -> None:
    style.box(axes, 0.35, 5.2, 1.25, 0.9, "data\n$x,\\ y$", size=12, fill=style.SUNK)
    big, small = (f"{numbers['sizes'][name]:,} weights" for name in ("teacher", "student"))
    style.box(axes, 2.45, 4.95, 2.0, 1.4, edge=style.WEIGHT, fill=style.WEIGHT_WASH, line=1.6)
    style.write(axes, 3.45, 5.94, "teacher", size=14)
    style.write(axes, 3.45, 5.48, f"{big}\nfrozen", size=10, color=style.SOFT, va="center")
    style.box(axes, 8.3, 5.22, 1.4, 0.86, edge=style.SECOND, fill=style.SECOND_WASH, line=1.6)
    style.write(axes, 9.0, 5.77, "student", size=12.5)
    style.write(axes, 9.0, 5.45, small, size=9.5, color=style.SOFT)
    style.arrow(axes, (1.6, 5.65), (2.43, 5.65))
    style.write(axes, 2.0, 5.8, "$x$", size=12)
    style.box(axes, 5.3, 5.42, 2.2, 0.46, "$\\sigma(z_t / T)$: likely words", size=11, edge=style.WEIGHT)
    style.arrow(axes, (4.47, 5.65), (5.28, 5.65), color=style.WEIGHT)
    style.arrow(axes, (7.52, 5.65), (8.28, 5.65), color=style.WEIGHT, line=2)
    style.box(axes, 5.3, 4.6, 2.2, 0.46, "beam search: $x,\\ \\hat{y}$", size=11, edge=style.WEIGHT)
    style.route(axes, [(4.47, 5.2), (4.9, 5.2), (4.9, 4.83), (5.28, 4.83)], color=style.WEIGHT)
    style.route(axes, [(7.52, 4.83), (9.0, 4.83), (9.0, 5.2)], color=style.WEIGHT, line=2)
    style.route(axes, [(0.97, 6.12), (0.97, 6.55), (9.0, 6.55), (9.0, 6.1)])
    style.write(axes, 5.0, 6.68, "the right words $y$", size=10.5, color=style.SOFT)
    style.write(axes, 7.9, 5.98, "Hinton", size=9.5, color=style.WEIGHT)
    style.write(axes, 8.25, 4.65, "Kim and Rush", size=9.5, color=style.WEIGHT)
    law = (
        "$L = (1 - a)\\ \\mathrm{CE}(y,\\ \\sigma(z_s)) + a\\ T^2\\ "
        "\\mathrm{KL}(\\sigma(z_t / T)\\ \\Vert\\ \\sigma(z_s / T))$"
    )
    style.write(axes, 5.0, 3.98, law, size=17)


def thoughts(axes: Axes, numbers: Numbers) -> None:
    """What the teacher finds likely, cool and hot."""
    style.write(axes, 0.35, 3.22, f"the teacher at “{numbers['word']}”", ha="left", size=11)
    for left, name, title in ((1.45, "cool", "$T = 1$"), (3.65, "warm", f"$T = {HOT:g}$")):
        style.write(axes, left, 2.86, title, ha="left", size=12, color=style.SOFT)
        for i, chance in enumerate(numbers[name]):
            y = 2.53 - 0.34 * i
            style.block(axes, left, y - 0.1, max(1.35 * chance, 0.012), 0.2, style.WEIGHT)
            text = style.percent(chance, 0 if chance > 0.0995 else 1 if chance > 0.00095 else 3)
            style.write(axes, left + 0.07 + 1.35 * chance, y, text, ha="left", size=9.5, color=style.SOFT)
    for i, word in enumerate(numbers["words"]):
        style.write(axes, 1.35, 2.53 - 0.34 * i, word, ha="right", family=style.SERIF, size=13)


def checks(numbers: Numbers) -> list[Check]:
    heats, hot = numbers["heats"], numbers["heats"].index(16)
    return [
        below("pull at T = 10,000 and (z_s - z_t) / K: difference, share of its norm", numbers["limit"], 1e-3),
        within("with T²: exponent of the pull, T >= 16", cost_exponent(heats[hot:], numbers["with"][hot:]), -0.1, 0.1),
        within(
            "without: exponent of the pull, T >= 16", cost_exponent(heats[hot:], numbers["without"][hot:]), -2.1, -1.9
        ),
        below("divergence of the teacher from itself", abs(numbers["self"]), 1e-12),
        below("divergence by its equation, difference", numbers["formula"], 1e-10),
        above("the other way round is another number: share by which it differs", abs(numbers["reverse"] - 1), 0.01),
        above("hot: mean chance of another adjective over that of other words", numbers["kin"], 1.5),
    ]
