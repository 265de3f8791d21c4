"""3.11c: Hinton et al. (2015), section 3: a student that never saw a 3 learns how it looks from its teacher's doubts.

A teacher learns all digits of MNIST. Its student learns from what the teacher finds likely, on images of which no one
shows a 3. It knows how a 3 differs from other digits, but not how often to expect one: one number, the bias of the 3,
is then set on 5,000 other images. A student of the plain labels of the same images can never say 3. Needs the folder
mnist below the one that REGARD_DATA names.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard import style
from regard.tasks.teacher import distillation_divergence
from regard_lectures import labelled_images
from regard_lectures.figure import Check, Numbers, aside, equal, seeded, starts_above, starts_below

TITLE = "A digit that the student never saw"
DECKS = ("001", "004")
CLAIM = "A student that was never shown a 3 reads most of them, by what its teacher thought of the other digits."
EXPECTED = "A student that was never shown a 3 still labels most of them rightly, once its bias is corrected."
FOUND = "It reads 89.0, 92.4 and 89.9 % of the 3s in 3 starts; a student of the labels reads at most 1.9 %."
COST = 65.0
SEED = 0

THREE, SEEN, TUNED, HEAT = 3, 30_000, 5_000, 8.0
SEEDS, EPOCHS, BATCH, RATE = 3, 8, 128, 2e-3
QUOTED = {"before": 1 - 133 / 1010, "after": 1 - 14 / 1010}  # of the paper, whose nets were larger
SHOWN = 8


def compute() -> Numbers:
    train, test = digits("train"), digits("test")
    numbers: Numbers = {"teacher": [], "before": [], "after": [], "labels": [], "bias": [], "others": [], "shown": 0}
    for seed in range(SEED, SEED + SEEDS):
        with seeded(seed):
            order = torch.randperm(len(train[1]))
            seen, tuned = order[:SEEN], order[SEEN : SEEN + TUNED]
            images, labels = train[0][seen], train[1][seen]
            teacher, student, plain = net(300, 0.3), net(100, 0.0), net(100, 0.0)
            learn(teacher, len(images), labelled(teacher, images, labels))
            kept = labels != THREE
            images, labels = images[kept], labels[kept]
            with torch.no_grad():
                soft = teacher.eval()(images)
            learn(student, len(images), doubted(student, images, soft))
            learn(plain, len(images), labelled(plain, images, labels))
        bias = tune(student, train[0][tuned], train[1][tuned])
        numbers["teacher"].append(read(teacher, test, 0.0))
        numbers["before"].append(read(student, test, 0.0))
        numbers["after"].append(read(student, test, bias))
        numbers["labels"].append(read(plain, test, tune(plain, train[0][tuned], train[1][tuned])))
        numbers["bias"].append(bias)
        numbers["others"].append(rest(student, test, bias))
        numbers["shown"] += int((labels == THREE).sum())
        if seed == SEED:
            doubts = (soft / HEAT).softmax(-1)[:, THREE]
            best = doubts.topk(SHOWN)
            numbers["doubts"] = [drawn(images[i]) for i in best.indices]
            numbers["doubt"] = [round(float(x), 3) for x in best.values]
            threes = test[0][test[1] == THREE][:SHOWN]
            numbers["threes"] = [drawn(image) for image in threes]
            numbers["read"] = said(student, threes, bias).tolist()
    return numbers


def digits(split: str) -> tuple[Tensor, Tensor]:
    """Pixels from 0 to 1, (n, 784), and labels, (n,)"""
    pixels, labels = labelled_images.read("mnist", split)
    return pixels.flatten(1), labels


def net(hidden: int, dropout: float) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(784, hidden),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Linear(hidden, 10),
    )


Some = Callable[[Tensor], Tensor]  # the loss of the examples of these numbers


def labelled(model: nn.Module, images: Tensor, labels: Tensor) -> Some:
    return lambda some: F.cross_entropy(model(images[some]), labels[some])


def doubted(model: nn.Module, images: Tensor, soft: Tensor) -> Some:
    return lambda some: distillation_divergence(model(images[some]), soft[some], HEAT) / len(some)


def learn(model: nn.Module, count: int, loss: Some) -> None:
    """All examples some times over; the rate falls along a line to nothing."""
    optimizer = torch.optim.Adam(model.parameters(), RATE)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, EPOCHS * (count // BATCH))
    for _ in range(EPOCHS):
        for some in torch.randperm(count).split(BATCH)[: count // BATCH]:
            optimizer.zero_grad()
            loss(some).backward()
            optimizer.step()
            schedule.step()


@torch.no_grad()
def said(model: nn.Module, images: Tensor, bias: float) -> Tensor:
    logits = model(images)
    logits[:, THREE] += bias
    return logits.argmax(-1)


def tune(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    """What must be added to the logit of the 3 so that the most images are read rightly."""
    biases = [0.1 * i for i in range(151)]
    return max(biases, key=lambda bias: int((said(model, images, bias) == labels).sum()))


def read(model: nn.Module, test: tuple[Tensor, Tensor], bias: float) -> float:
    """The share of all 3s that are read as such."""
    threes = test[0][test[1] == THREE]
    return float((said(model, threes, bias) == THREE).double().mean())


def rest(model: nn.Module, test: tuple[Tensor, Tensor], bias: float) -> float:
    """The share of all other digits that are read rightly."""
    images, labels = test[0][test[1] != THREE], test[1][test[1] != THREE]
    return float((said(model, images, bias) == labels).double().mean())


def drawn(image: Tensor) -> str:
    """Sixteen shades, a letter for each pixel."""
    return "".join("0123456789abcdef"[int(15.999 * shade)] for shade in image.tolist())


def draw(numbers: Numbers) -> Figure:
    note = "A teacher knows all digits; its student learns from the teacher’s doubts about the nine others."
    figure = style.page(TITLE, note, height=6.0)
    axes = style.stage(figure)
    style.write(axes, 0.35, 4.72, "seen: these the teacher finds most like a 3", ha="left", weight="bold")
    below_doubts = [style.percent(doubt) for doubt in numbers["doubt"]]
    gallery(axes, 2.9, numbers["doubts"], below_doubts, [style.SOFT] * SHOWN)
    style.write(axes, 0.35, 2.3, "never seen: what the student makes of 3s", ha="left", weight="bold")
    inks = [style.WEIGHT if digit == THREE else style.SECOND for digit in numbers["read"]]
    gallery(axes, 0.48, numbers["threes"], [f"“{digit}”" for digit in numbers["read"]], inks)
    chart = figure.add_axes((0.585, 0.11, 0.395, 0.65))
    bars = {
        "teacher": numbers["teacher"],
        "student": numbers["before"],
        "student,\nbias set": numbers["after"],
        "student\nof labels": numbers["labels"],
    }
    tints = [style.EDGE, style.mix(style.WEIGHT, 0.55), style.WEIGHT, style.SECOND]
    style.bars(chart, list(bars), [mean(x) for x in bars.values()], color=tints, form=style.percent, top=1.12)
    for place, name in ((1, "before"), (2, "after")):
        chart.plot([place - 0.36, place + 0.36], [QUOTED[name]] * 2, color=style.INK, lw=1.3, ls=(0, (3, 2)))
    chart.set_title("3s read as 3; dashed: quoted (Hinton et al.)", size=11)
    for text in chart.get_xticklabels():
        text.set(size=10.5)
    return figure


def gallery(axes: Axes, low: float, images: list[str], texts: list[str], inks: list[str]) -> None:
    """Two rows of four digits, each with a word below."""
    for i, (image, text, ink) in enumerate(zip(images, texts, inks, strict=True)):
        x, y = 0.35 + 1.28 * (i % 4), low + 0.87 * (1 - i // 4)
        pixels = [[int(image[28 * row + column], 16) for column in range(28)] for row in range(28)]
        axes.imshow(pixels, cmap="Greys", extent=(x, x + 0.66, y + 0.1, y + 0.76), aspect="auto", zorder=2)
        style.frame(axes, x, y + 0.1, 0.66, 0.66, style.LINE, line=0.8)
        style.write(axes, x + 0.73, y + 0.43, text, ha="left", size=10.5, color=ink)
    axes.set(xlim=(0, style.WIDTH), ylim=(0, 6.0))


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def checks(numbers: Numbers) -> list[Check]:
    won = [a - b for a, b in zip(numbers["after"], numbers["before"], strict=True)]
    return [
        aside(equal("3s that the students were shown", numbers["shown"], 0)),
        starts_above("3s that the student reads, bias set", numbers["after"], 0.5),
        aside(starts_above("and more of them than before it was set", won, 0.0)),
        aside(starts_above("other digits that it reads, bias set", numbers["others"], 0.9)),
        aside(starts_below("3s that a student of the labels reads", numbers["labels"], 0.05)),
    ]
