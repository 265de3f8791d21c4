"""6.3: TransGAN (Jiang, Chang and Wang, 2021, figure 2): both of its nets, as large as for CIFAR-10.

Grids, widths and parameters were read off the nets, as they ran on the meta device, where they cost nothing.
"""

import math
from collections.abc import Callable

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard import style
from regard.models.transgan import PRESETS, GrowingStage, TransGAN
from regard.models.transgan_critic import Config, MultiScaleCritic
from regard.nn.block import Block
from regard.zoo import count_parameters
from regard_lectures.figure import Check, Numbers, equal

TITLE = "Two transformers teach each other to draw"
DECKS = ("003",)
CLAIM = "TransGAN's generator grows its grid by PixelShuffle; its discriminator looks at patches of two sizes."
EXPECTED = (
    "Generator: 8 x 8 x 1024, 16 x 16 x 256, 32 x 32 x 64 with 5, 4 and 2 blocks; each shuffle quarters the channels"
    " and keeps tokens x channels. Discriminator: 256 tokens of 288 channels, then 64 of 384, with 3 blocks each,"
    " and one block with a class token."
)
FOUND = (
    "As expected. Each shuffle keeps 65,536 numbers; the generator has 83,331,311 parameters, the discriminator"
    " 10,203,361, as many as counted by the paper's layers."
)
COST = 0.5
SEED = 0

BATCH = 1
GRIDS = [[8, 8, 1024], [16, 16, 256], [32, 32, 64]]
Hook = Callable[[nn.Module, tuple[Tensor, ...]], None]


def compute() -> Numbers:
    with torch.device("meta"):
        generator = TransGAN(PRESETS["transgan-cifar"]).eval()
        critic = MultiScaleCritic(Config()).eval()
        inputs: dict[str, list[int]] = {}
        for part in (generator, critic):
            for name, module in part.named_modules():
                if isinstance(module, GrowingStage | Block):
                    module.register_forward_pre_hook(shape_to(inputs, name))
        with torch.no_grad():
            image = generator(torch.zeros(BATCH, generator.config.noise))
            score = critic(image)
    stages = []
    for i, stage in enumerate(generator.stages):
        before, after = inputs[f"stages.{i}"], inputs[f"stages.{i}.blocks.0"]
        stages.append(
            {
                "before": before,
                "after": after,
                "blocks": len(list(stage.get_submodule("blocks").children())),
                "weights": count_parameters(stage),
            }
        )
    fine, coarse, last = (inputs[name] for name in ("fine_blocks.0", "coarse_blocks.0", "last"))
    return {
        "noise": generator.config.noise,
        "heads": generator.config.heads,
        "stages": stages,
        "colours": [list(generator.colours.kernel_size), generator.colours.out_channels],
        "image": list(image.shape[1:]),
        "score": list(score.shape[1:]),
        "start": count_parameters(generator.start),
        "generator": count_parameters(generator),
        "fine": {"tokens": fine, "patch": critic.fine.projection.kernel_size[0], "blocks": len(critic.fine_blocks)},
        "coarse": {
            "tokens": coarse,
            "patch": critic.coarse.projection.kernel_size[0],
            "blocks": len(critic.coarse_blocks),
            "added": critic.coarse.projection.out_channels,
        },
        "last": last,
        "discriminator": count_parameters(critic),
    }


def shape_to(found: dict[str, list[int]], name: str) -> Hook:
    """Keeps the shape of what a module is given, without the batch."""

    def keep(module: nn.Module, given: tuple[Tensor, ...]) -> None:
        found[name] = list(given[0].shape[1:])

    return keep


def draw(numbers: Numbers) -> Figure:
    note = (
        "As large as for CIFAR-10, read off both nets. Squares are the grids; the bar below each is as long as its"
        " tokens have channels.\nTokens × channels stay the same in each shuffle."
    )
    figure = style.page(TITLE, note, height=7.6)
    axes = style.stage(figure)
    title(axes, 6.05, "Generator", numbers["generator"])
    draw_generator(axes, numbers)
    title(axes, 2.95, "Discriminator", numbers["discriminator"])
    draw_discriminator(axes, numbers)
    return figure


def title(axes: Axes, y: float, name: str, weights: int) -> None:
    style.write(axes, 0.3, y, name, ha="left", size=13, va="baseline")
    style.write(axes, 1.75, y, f"{weights:,} parameters", ha="left", size=10.5, color=style.SOFT, va="baseline")


def draw_generator(axes: Axes, numbers: Numbers) -> None:
    middle = 4.85
    style.box(axes, 0.3, middle - 0.35, 0.95, 0.7, f"z\n{numbers['noise']}", edge=style.EDGE, fill=style.SUNK)
    joined(axes, 1.25, 1.95, middle, "linear")
    x = 2.0
    for i, stage in enumerate(numbers["stages"]):
        side, _, width = stage["after"]
        if i:
            joined(axes, x, x + 1.2, middle, "shuffle")
            x += 1.25
        size = grid(axes, x, middle, side, style.WEIGHT)
        block_text(axes, x + size / 2, middle, size, side**2, width, stage["blocks"])
        x += size + 0.05
    joined(axes, x, x + 1.05, middle, "1 × 1\nconvolution")
    channels, side, _ = numbers["image"]
    style.box(axes, x + 1.1, middle - 0.35, 1.15, 0.7, f"image\n{side} × {side} × {channels}", fill=style.SUNK)


def draw_discriminator(axes: Axes, numbers: Numbers) -> None:
    middle = 1.75
    fine, coarse, last = numbers["fine"], numbers["coarse"], numbers["last"]
    channels, side, _ = numbers["image"]
    style.box(axes, 0.3, middle - 0.35, 1.15, 0.7, f"image\n{side} × {side} × {channels}", fill=style.SUNK)
    joined(axes, 1.45, 2.35, middle, f"{fine['patch']} × {fine['patch']}\npatches")
    tokens, width = fine["tokens"]
    size = grid(axes, 2.4, middle, round(tokens**0.5), style.SECOND)
    block_text(axes, 2.4 + size / 2, middle, size, tokens, width, fine["blocks"])
    x = 2.4 + size + 0.05
    joined(axes, x, x + 1.5, middle, "average\nof 2 × 2")
    x += 1.55
    tokens, width = coarse["tokens"]
    size = grid(axes, x, middle, round(tokens**0.5), style.SECOND)
    block_text(axes, x + size / 2, middle, size, tokens, width, coarse["blocks"])
    words = f"{coarse['patch']} × {coarse['patch']} patches: + {coarse['added']} channels"
    style.route(
        axes, [(0.87, middle + 0.37), (0.87, 2.72), (x + size / 2, 2.72), (x + size / 2, middle + size / 2 + 0.05)]
    )
    style.write(axes, 3.6, 2.6, words, size=10, color=style.SOFT)
    x += size + 0.05
    joined(axes, x, x + 1.3, middle, "+ class\ntoken")
    count = numbers["last"][0]
    style.box(axes, x + 1.35, middle - 0.35, 1.2, 0.7, f"1 block\n{count} × {last[1]}", edge=style.SECOND)
    joined(axes, x + 2.55, x + 3.35, middle, "linear")
    style.box(axes, x + 3.4, middle - 0.35, 0.8, 0.7, "score", fill=style.SUNK)


def joined(axes: Axes, start: float, end: float, y: float, words: str) -> None:
    style.arrow(axes, (start + 0.04, y), (end, y))
    style.write(axes, (start + end) / 2, y + 0.08, words, size=9.5, color=style.SOFT, va="bottom")


def grid(axes: Axes, x: float, y: float, side: int, tint: str) -> float:
    """Centred at height y.  -> its size in inches"""
    size: float = 0.52 * (side / 8) ** 0.7
    style.block(axes, x, y - size / 2, size, size, style.mix(tint, 0.3))
    for i in range(1, side):
        place = i * size / side
        axes.plot([x + place, x + place], [y - size / 2, y + size / 2], color="white", lw=0.5, zorder=3)
        axes.plot([x, x + size], [y - size / 2 + place, y - size / 2 + place], color="white", lw=0.5, zorder=3)
    style.frame(axes, x, y - size / 2, size, size, tint, line=1.2)
    return size


def block_text(axes: Axes, x: float, y: float, size: float, tokens: int, width: int, blocks: int) -> None:
    low = y - size / 2
    style.block(axes, x - width / 2000, low - 0.15, width / 1000, 0.06, style.INK)
    style.write(axes, x, low - 0.32, f"{tokens:,} × {width:,}", size=10.5)
    style.write(axes, x, low - 0.54, f"{blocks} blocks", size=10.5, color=style.SOFT)


def block_weights(width: int, blocks: int, bias: int = 0) -> int:
    """Four projections and a feed-forward layer of four times the width, with biases; two layer norms."""
    return blocks * (12 * width**2 + 13 * width + bias)


def weights_of(sides: tuple[int, ...], widths: tuple[int, ...], blocks: tuple[int, ...], heads: int, noise: int) -> int:
    """Of the generator, by the paper: linear layer, positions, blocks with biases by distance, colours."""
    count = (noise + 1) * sides[0] ** 2 * widths[0]
    for side, width, depth in zip(sides, widths, blocks, strict=True):
        count += side**2 * width + block_weights(width, depth, heads * (2 * side - 1) ** 2)
    return count + 3 * (widths[-1] + 1)


def critic_weights() -> int:
    """Patches, positions, class token, blocks, the last norm, score."""
    patches = (3 * 2**2 + 1) * 288 + (3 * 4**2 + 1) * 96
    positions = 256 * 288 + 64 * 384 + 384
    return patches + positions + block_weights(288, 3) + block_weights(384, 4) + 2 * 384 + 385


def checks(numbers: Numbers) -> list[Check]:
    stages = numbers["stages"]
    shuffled = stages[1:]
    fine, coarse = numbers["fine"], numbers["coarse"]
    told = [
        (stage["before"][-1] / stage["after"][-1], size(stage["before"]) == size(stage["after"])) for stage in shuffled
    ]
    return [
        equal("grids of the generator", str([stage["after"] for stage in stages]), str(GRIDS)),
        equal("its blocks", str([stage["blocks"] for stage in stages]), "[5, 4, 2]"),
        equal("each shuffle: channels by channels after", str([ratio for ratio, _ in told]), "[4.0, 4.0]"),
        equal("each shuffle keeps tokens x channels", str([kept for _, kept in told]), "[True, True]"),
        equal("to colours: kernel, channels", str(numbers["colours"]), "[[1, 1], 3]"),
        equal("discriminator: tokens, channels", str([fine["tokens"], coarse["tokens"]]), "[[256, 288], [64, 384]]"),
        equal(
            "its patches, and channels of the large ones",
            str([fine["patch"], coarse["patch"], coarse["added"]]),
            "[2, 4, 96]",
        ),
        equal("its blocks at the two scales", str([fine["blocks"], coarse["blocks"]]), "[3, 3]"),
        equal("its last block", str(numbers["last"]), "[65, 384]"),
        equal(
            "parameters of the generator",
            numbers["generator"],
            weights_of((8, 16, 32), (1024, 256, 64), (5, 4, 2), 4, 256),
        ),
        equal("parameters of the discriminator", numbers["discriminator"], critic_weights()),
    ]


def size(shape: list[int]) -> int:
    return math.prod(shape)
