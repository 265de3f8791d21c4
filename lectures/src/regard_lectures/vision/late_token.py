"""5.6: where the class token comes in: a ViT, a ViT with a late token, and CaiT (Touvron et al., 2021, figure 3).

Read off nets that run, 6 layers and 9 patches: how many tokens ask and are looked at in each layer, and who changes.
In CaiT's last two layers one token asks, all are looked at, and the patches stay as they are.
"""

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard import style
from regard.models.cait import CaiT, Config
from regard.nn.tap import capture
from regard_lectures.figure import Check, Numbers, below, equal, seeded

TITLE = "The class token comes late"
DECKS = ("004",)
CLAIM = "In CaiT patches look at each other first; then one token looks at them, and they no longer change."
EXPECTED = (
    "Class attention is the class row of full attention; in CaiT's last two layers one token asks, and the patches do"
    " not change."
)
FOUND = (
    "Class attention and the class row differ by 8e-17; in the last 2 of 6 layers 1 token looks at 10, and patches "
    "change by 0."
)
COST = 0.5
SEED = 0

LAYERS, LOOKS, LATE, PATCHES = 6, 2, 4, 9


class Inserted(nn.Module):
    """A CaiT's layers among patches, with its class token among them from one layer on; no class attention."""

    def __init__(self, net: CaiT, before: int = 0) -> None:
        super().__init__()
        self.net, self.before = net, before
        del net.looks

    def forward(self, images: Tensor) -> Tensor:
        """(b, channels, height, width) -> (b, c)"""
        x = self.net.tokens(images)
        for i, block in enumerate(self.net.blocks):
            if i == self.before:
                x = torch.cat((self.net.class_token.expand(len(x), -1, -1), x), 1)
            x = block(x)
        assert self.net.head is not None
        return self.net.head(self.net.norm(x[:, 0]))


def config(depth: int) -> Config:
    return Config(
        image=12, patch=4, channels=1, classes=3, dim=16, depth=depth, looks=LOOKS, heads=2, hidden=32,
        attention="softmax",
    )  # fmt: skip


def columns() -> dict[str, nn.Module]:
    return {
        "ViT": Inserted(CaiT(config(LAYERS)), 0),
        "ViT, late token": Inserted(CaiT(config(LAYERS)), LATE),
        "CaiT": CaiT(config(LAYERS - LOOKS)),
    }


@torch.no_grad()
def shapes(net: nn.Module, images: Tensor) -> list[list[int]]:
    """Of every layer: how many ask, and how many are looked at."""
    with capture(net, "*.weights") as seen:
        net.eval()(images)
    return [list(records[0].shape[-2:]) for records in seen.values()]


def compute() -> Numbers:
    with seeded(SEED):
        images = torch.randn(2, 1, 12, 12, dtype=torch.float64)
        nets = {name: net.double() for name, net in columns().items()}
        found: Numbers = {name: shapes(net, images) for name, net in nets.items()}
        cait = nets["CaiT"]
        assert isinstance(cait, CaiT)
        patches = torch.randn(2, PATCHES, 16, dtype=torch.float64)
    with torch.no_grad():
        token = cait.class_token.expand(2, -1, -1)
        look = cait.looks[0]
        seen = look.norm(torch.cat((token, patches), 1))  # type: ignore[operator]
        whole = look.mixer(seen)  # type: ignore[operator]
        found["class row"] = float((look.mixer(seen[:, :1], seen) - whole[:, :1]).abs().max())  # type: ignore[operator]
        x = cait.tokens(images)
        for block in cait.blocks:
            x = block(x)
        found["patches"] = float((cait.features(images)[:, 1:] - cait.norm(x)).abs().max())
    return found


def draw(numbers: Numbers) -> Figure:
    note = (
        f"Nets of {LAYERS} layers, {PATCHES} patches. Numbers: how many tokens ask in a layer × how many they look "
        "at, read off nets that ran.\nVermilion, where the class token is; teal, patches that change; grey, "
        "patches that are only looked at."
    )
    figure = style.page(TITLE, note, height=6.4)
    axes = style.stage(figure)
    for x, name in ((0.75, "ViT"), (3.85, "ViT, late token"), (6.95, "CaiT")):
        column(axes, x, name, numbers[name])
    return figure


def column(axes: Axes, x: float, name: str, layers: list[list[int]]) -> None:
    wide, tall, gap, bottom = 1.95, 0.38, 0.56, 1.1
    style.write(axes, x + wide / 2, 0.3, name, size=13, weight="bold")
    style.box(axes, x, bottom - 0.5, wide, 0.3, "patches", edge=style.KEY, fill=style.KEY_WASH, size=10)
    entered = False
    for i, (asking, looked) in enumerate(layers):
        y = bottom + i * gap
        late = asking == 1
        style.arrow(axes, (x + wide / 2, y - 0.18), (x + wide / 2, y - 0.02), head=7)
        if late:
            style.box(axes, x, y, wide, tall, "class attention", edge=style.QUERY, fill=style.QUERY_WASH, size=10.5)
        else:
            style.box(axes, x, y, wide, tall, "self-attention", edge=style.KEY, fill=style.KEY_WASH, size=10.5)
        up = 0.29 if late else tall / 2
        style.write(axes, x + wide + 0.1, y + up, f"{asking} × {looked}", ha="left", size=10, color=style.SOFT)
        if looked > PATCHES and not entered:
            entered = True
            style.box(axes, x - 0.42, y - 0.28, 0.34, 0.28, "c", edge=style.QUERY, fill=style.QUERY_WASH, size=11)
            style.route(axes, [(x - 0.25, y), (x - 0.25, y + 0.16), (x - 0.02, y + 0.16)], color=style.QUERY)
    first = next((i for i, (asking, _) in enumerate(layers) if asking == 1), None)
    if first is not None:  # the patches that stay go to each of these layers
        y = bottom + first * gap
        for i in range(first, len(layers)):
            level = bottom + i * gap + 0.09
            points = [
                (x + wide / 2, y - 0.12),
                (x + wide + 0.82, y - 0.12),
                (x + wide + 0.82, level),
                (x + wide + 0.02, level),
            ]
            style.route(axes, points, color=style.EDGE, line=1.2, head=7)
    top = bottom + len(layers) * gap
    style.arrow(axes, (x + wide / 2, top - 0.18), (x + wide / 2, top), head=7)
    style.box(axes, x + wide / 2 - 0.5, top + 0.02, 1.0, 0.32, "class", edge=style.QUERY, size=10.5)


def checks(numbers: Numbers) -> list[Check]:
    early, both = [PATCHES, PATCHES], [PATCHES + 1, PATCHES + 1]
    return [
        equal("ViT: who asks and who is looked at", str(numbers["ViT"]), str([both] * LAYERS)),
        equal("late token: the same", str(numbers["ViT, late token"]), str([early] * LATE + [both] * (LAYERS - LATE))),
        equal("CaiT: the same", str(numbers["CaiT"]), str([early] * (LAYERS - LOOKS) + [[1, PATCHES + 1]] * LOOKS)),
        below("class attention against the class row of full attention", numbers["class row"], 1e-12),
        equal("CaiT: change of the patches in its last two layers", numbers["patches"], 0.0),
    ]
