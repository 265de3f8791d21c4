"""What the rows and columns of a map stand for, so that labels, distances and overlays know where they are."""

from dataclasses import dataclass
from math import prod

from torch import Tensor


@dataclass(frozen=True)
class WindowCut:
    """A grid that was cut into windows, and attention within each: rolled up and to the left by ``shift``, filled up
    below and on the right to whole windows, which then follow each other row by row."""

    grid: tuple[int, int]
    window: tuple[int, int]
    shift: tuple[int, int] = (0, 0)

    @property
    def windows(self) -> tuple[int, int]:
        """Number of windows, vertically and horizontally."""
        return -(-self.grid[0] // self.window[0]), -(-self.grid[1] // self.window[1])

    @property
    def sides(self) -> tuple[int, int]:
        """of the grid, filled up to whole windows"""
        return self.windows[0] * self.window[0], self.windows[1] * self.window[1]

    @property
    def count(self) -> int:
        return self.windows[0] * self.windows[1]

    @property
    def over(self) -> "Axis":
        return Axis("window", self.count, grid=self.windows)

    def places(self) -> list[list[tuple[int, int] | None]]:
        """The row and column of each position of each window in the whole grid; None where there is only filling."""
        (height, width), found = self.window, []
        for top in range(0, self.sides[0], height):
            for left in range(0, self.sides[1], width):
                rows = [(top + i + self.shift[0]) % self.sides[0] for i in range(height)]
                columns = [(left + j + self.shift[1]) % self.sides[1] for j in range(width)]
                inside = [(i, j) if i < self.grid[0] and j < self.grid[1] else None for i in rows for j in columns]
                found.append(inside)
        return found

    def inside(self) -> list[tuple[list[int], list[int]]]:
        """Of each window, the places that are no filling, and the positions of the whole grid, row by row, there."""
        found = []
        for places in self.places():
            real = [(i, place[0] * self.grid[1] + place[1]) for i, place in enumerate(places) if place is not None]
            found.append(([i for i, _ in real], [position for _, position in real]))
        return found

    def where(self, position: int) -> tuple[int, int]:
        """The window of a position of the whole grid, counted row by row, and its place in there."""
        row, column = divmod(position, self.grid[1])
        (tall, wide), (down, right) = self.window, self.shift
        row, column = (row - down) % self.sides[0], (column - right) % self.sides[1]
        return row // tall * self.windows[1] + column // wide, row % tall * wide + column % wide


@dataclass(frozen=True)
class AxisCut:
    """Attention along one axis, for each position of another one: along the residues of an alignment for each of its
    sequences, along its sequences for each residue, along the heads of a U-Net's level for each pixel."""

    over: "Axis"

    @property
    def count(self) -> int:
        return self.over.size


# What the first axis of a map stands for beside the inputs: (b * count, h, q, k), one map for each position of
# ``over``. The windows of a grid are shown as one map of the whole; of another axis each position has its own map.
Cut = WindowCut | AxisCut


@dataclass(frozen=True)
class Axis:
    """kind:   "text", "image" ...
    size:   positions in all
    labels: one word for each position, where there are words
    grid:   the shape of the space that the positions walk through, row by row; those before it (a class token) have
            no place in it
    cut:    where each input has several maps, after each other on their first axis: what that axis stands for
    """

    kind: str
    size: int
    labels: tuple[str, ...] | None = None
    grid: tuple[int, ...] | None = None
    cut: Cut | None = None

    def __post_init__(self) -> None:
        if self.labels is not None and len(self.labels) != self.size:
            raise ValueError(f"got {len(self.labels)} labels for an axis of {self.size} positions")
        if self.grid is not None and prod(self.grid) > self.size:
            raise ValueError(f"a grid of {self.grid} does not fit an axis of {self.size} positions")

    @property
    def windows(self) -> WindowCut | None:
        """The windows that its grid was cut into, if it was."""
        return self.cut if isinstance(self.cut, WindowCut) else None

    @property
    def special(self) -> int:
        """Number of positions before the grid, such as a class token."""
        return self.size - prod(self.grid) if self.grid is not None else 0


def image_axis(images: Tensor, patch: int, special: int = 0) -> Axis:
    """The axis of image patches, after ``special`` tokens that are not patches. (b, channels, height, width)"""
    rows, columns = images.shape[-2] // patch, images.shape[-1] // patch
    return Axis("image", special + rows * columns, grid=(rows, columns))
