"""What the rows and columns of a map stand for, so that labels, distances and overlays know where they are."""

from dataclasses import dataclass
from math import prod


@dataclass(frozen=True)
class Axis:
    """kind:   "text", "image" ...
    size:   positions in all
    labels: one word for each position, where there are words
    grid:   the shape of the space that the positions walk through, row by row; those before it (a class token) have
            no place in it
    """

    kind: str
    size: int
    labels: tuple[str, ...] | None = None
    grid: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.labels is not None and len(self.labels) != self.size:
            raise ValueError(f"{len(self.labels)} labels for an axis of {self.size} positions")
        if self.grid is not None and prod(self.grid) > self.size:
            raise ValueError(f"a grid of {self.grid} does not fit an axis of {self.size} positions")

    @property
    def special(self) -> int:
        """How many positions stand before the grid."""
        return self.size - prod(self.grid) if self.grid is not None else 0
