"""4.3: deck 003's overview of GPT-3 (Fig. 17): much text, one training, and a prompt that says what to do.

Data and sizes are quoted from Brown et al. (2020), the prompts from its figure 2.1; they are put together by the
library, and the parameters are those of its own net, built without memory and counted. The net below the prompts is a
tiny one of the same family, really asked: its weights have the same SHA-256 before and after each prompt.
"""

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard import style
from regard.modalities.text.prompting import few_shot
from regard.models.gpt import GPT, PRESETS
from regard.storage.digest import weights_digest
from regard.zoo import count_parameters, empty_net
from regard_lectures.figure import Check, Numbers, equal, seeded, within

TITLE = "GPT-3: trained once, then only asked"
DECKS = ("003", "001")
CLAIM = "Zero, one or some examples: only the text of the prompt differs, and asking changes no weight."
EXPECTED = (
    "Prompts with zero, one or three examples differ in these lines alone, and asking leaves every weight as it was."
)
FOUND = (
    "0, 1 and 3 examples stand between the same first and last line; the weights have one SHA-256 before and after "
    "all prompts; GPT-3 counts 174.6 of the quoted 175 billion parameters."
)
COST = 1.0
SEED = 0

QUOTED = {"common crawl, GB": 570, "tokens read, billions": 300, "parameters, billions": 175}
SOURCES = ("Common Crawl, filtered", "WebText2", "Books1", "Books2", "Wikipedia")
TASK, QUERY = "Translate English to French:", "cheese"
EXAMPLES = [("sea otter", "loutre de mer"), ("peppermint", "menthe poivrée"), ("plush girafe", "girafe peluche")]
SHOTS = {"zero-shot": 0, "one-shot": 1, "few-shot": 3}


def compute() -> Numbers:
    prompts = {name: few_shot(TASK, EXAMPLES[:shots], QUERY) for name, shots in SHOTS.items()}
    config = PRESETS["gpt3"]
    with seeded(SEED):
        net = GPT(PRESETS["gpt-tiny"]).eval()
    digests = [weights_digest(net.state_dict())]
    with torch.no_grad():
        for prompt in prompts.values():
            net(torch.tensor([list(prompt.encode())]))  # byte by byte
            digests.append(weights_digest(net.state_dict()))
    return {
        "prompts": prompts,
        "bytes": {name: len(prompt.encode()) for name, prompt in prompts.items()},
        "parameters": count_parameters(empty_net("gpt", config)),
        "layers": config.depth,
        "width": config.dim,
        "heads": config.heads,
        "length": config.length,
        "digests": digests,
    }


def draw(numbers: Numbers) -> Figure:
    note = (
        "Above, what happens once; below, what a user does. The data and their sizes are quoted: Brown et al. (2020)."
    )
    figure = style.page(TITLE, note, height=6.4)
    axes = style.stage(figure)
    sources(axes)
    style.box(axes, 4.0, 3.62, 2.3, 1.4, edge=style.WEIGHT, fill=style.WEIGHT_WASH)
    style.write(axes, 5.15, 4.73, "pre-training", size=12.5, weight="bold")
    tokens = f"what comes next, for\n{QUOTED['tokens read, billions']} billion tokens"
    style.write(axes, 5.15, 4.2, tokens, size=11, color=style.SOFT)
    style.arrow(axes, (6.32, MIDDLE), (7.03, MIDDLE))
    style.box(axes, 7.05, 3.62, 2.65, 1.4, edge=style.WEIGHT)
    style.write(axes, 8.37, 4.73, "GPT-3", size=12.5, weight="bold")
    sizes = [f"{numbers['parameters'] / 1e9:.1f} billion parameters"]
    sizes += [f"{numbers['layers']} layers, width {numbers['width']:,}", f"{numbers['length']:,} tokens at once"]
    style.write(axes, 8.37, 4.16, "\n".join(sizes), size=10.5, color=style.SOFT)
    asked(axes, numbers)
    return figure


MIDDLE = 4.32


def sources(axes: Axes) -> None:
    for i, name in enumerate(SOURCES):
        y = MIDDLE + 0.33 * (2 - i)
        said = f"{name}: {QUOTED['common crawl, GB']} GB" if i == 0 else name
        style.box(axes, 0.3, y - 0.135, 3.0, 0.27, said, size=10.5, fill=style.SUNK, edge=style.LINE)
        style.route(axes, [(3.3, y), (3.62, y), (3.62, MIDDLE), (3.98, MIDDLE)], head=9 if i == 2 else 0, corner=0.05)


def asked(axes: Axes, numbers: Numbers) -> None:
    """The prompts, on their way to a net that stays as it is."""
    style.write(axes, 0.3, 2.98, "asked, without any gradient", ha="left", size=12.5, weight="bold")
    left, height, end = 0.3, 2.72, 8.37
    for name, wide in zip(SHOTS, (2.85, 2.95, 3.2), strict=True):
        style.write(axes, left, 2.5, f"{name}, {numbers['bytes'][name]} bytes", ha="left", size=10.5, color=style.SOFT)
        style.box(axes, left, 0.68, wide, 1.66, edge=style.LINE)
        lines = numbers["prompts"][name].split("\n")
        for i, line in enumerate(lines):
            ink = style.QUERY if i == len(lines) - 1 else style.SOFT if i == 0 else style.INK
            style.write(axes, left + 0.12, 2.13 - 0.31 * i, line, ha="left", size=10, family=style.MONO, color=ink)
        start = left + wide - 0.3
        points = [(start, 2.34), (start, height), (end, height), (end, 3.6)]
        style.route(axes, points, color=style.QUERY, head=9 if name == "few-shot" else 0)
        left += wide + 0.2
    told = "the same before and after" if len(set(numbers["digests"])) == 1 else "not the same"
    said = f"SHA-256 of the weights of a tiny GPT that was given all three: {numbers['digests'][0][:12]}…, {told}."
    style.write(axes, 0.3, 0.36, said, ha="left", size=10.5, color=style.SOFT)


def checks(numbers: Numbers) -> list[Check]:
    lines = {name: prompt.split("\n") for name, prompt in numbers["prompts"].items()}
    ends = {(rows[0], rows[-1]) for rows in lines.values()}
    few = lines["few-shot"]
    return [
        equal("kinds of first and last lines among the prompts", len(ends), 1),
        equal("the last line", few[-1], f"{QUERY} =>"),
        *(equal(f"{name}: examples", len(lines[name]) - 2, shots) for name, shots in SHOTS.items()),
        equal("one-shot shows the first example of few-shot", lines["one-shot"][1], few[1]),
        equal("different SHA-256 of the weights, before and after all prompts", len(set(numbers["digests"])), 1),
        within(
            "parameters counted over quoted", numbers["parameters"] / (QUOTED["parameters, billions"] * 1e9), 0.98, 1.02
        ),
    ]
