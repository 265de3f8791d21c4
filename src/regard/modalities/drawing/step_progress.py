"""Progress of drawing: image, step and time left on one line; in a terminal with colours also what there is so far."""

import os
from time import monotonic
from typing import IO, TYPE_CHECKING, Self

if TYPE_CHECKING:
    from torch import Tensor

    from regard.sample.loop import DrawnStep

    from .prompt_drawer import PromptDrawer

BETWEEN = 0.5  # seconds from one preview to the next
WIDEST = 48  # pixels of a preview
UP, CLEAR, PLAIN = "\x1b[{}A", "\x1b[J", "\x1b[0m"


class StepProgress:
    """Nothing is written where nobody looks: where the stream is no terminal."""

    def __init__(self, stream: IO[str], images: int, drawer: "PromptDrawer") -> None:
        self.stream, self.images, self.drawer = stream, images, drawer
        self.live = stream.isatty()
        self.colours = self.live and "NO_COLOR" not in os.environ and os.environ.get("TERM", "dumb") != "dumb"
        self.began, self.shown, self.lines = monotonic(), 0.0, 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.erase()

    def step_done(self, number: int, step: "DrawnStep") -> None:
        now = monotonic()
        if not self.live or now - self.shown < BETWEEN:
            return
        done = number * step.count + step.index + 1
        left = (now - self.began) / done * (self.images * step.count - done)
        told = f"image {number + 1}/{self.images}  step {step.index + 1}/{step.count}  {left:.0f} s left"
        preview = colour_lines(self.drawer.image(step.sample)) if self.colours else []
        self.erase()
        self.stream.write("\n".join([*preview, told]) + ("\n" if self.colours else "\r"))
        self.stream.flush()
        self.lines, self.shown = (len(preview) + 1 if self.colours else 0), now

    def erase(self) -> None:
        if self.lines:
            self.stream.write(UP.format(self.lines) + CLEAR)
            self.lines = 0
        elif self.live:
            self.stream.write("\x1b[2K\r" if self.colours else "")


def colour_lines(pixels: "Tensor") -> list[str]:
    """Two rows of pixels in each line: half blocks, the upper row as ink and the lower one as paper.  (c, h, w)"""
    import torch.nn.functional as F

    colours = pixels.float().expand(3, -1, -1)
    height, width = colours.shape[1:]
    if width > WIDEST:
        colours = F.adaptive_avg_pool2d(colours, (max(2 * round(height * WIDEST / width / 2), 2), WIDEST))
    rows = colours.round().int().permute(1, 2, 0).tolist()
    rows += [rows[-1]] * (len(rows) % 2)
    return ["".join(map(half_block, *pair)) + PLAIN for pair in zip(rows[::2], rows[1::2], strict=True)]


def half_block(above: list[int], below: list[int]) -> str:
    ink, paper = (";".join(map(str, colour)) for colour in (above, below))
    return f"\x1b[38;2;{ink}m\x1b[48;2;{paper}m▀"
