"""How long a comparison may take, and how far it is."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

Progress = Callable[[str, float | None], None]  # what is being done, and the seconds left, if anyone knows


def silent(doing: str, left: float | None) -> None:
    pass


@dataclass
class Budget:
    seconds: float
    progress: Progress = silent
    now: Callable[[], float] = time.monotonic
    planned: float | None = field(default=None, init=False)  # seconds in all, as soon as they can be foretold

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Time counts from now on."""
        self.began = self.now()

    @property
    def spent(self) -> float:
        return self.now() - self.began

    @property
    def left(self) -> float:
        return max(self.seconds - self.spent, 0.0)

    def plan(self, ahead: float) -> None:
        """From here on it takes so many seconds more, or as many as there are."""
        self.planned = self.spent + min(ahead, self.left)

    def tell(self, doing: str) -> None:
        self.progress(doing, None if self.planned is None else max(self.planned - self.spent, 0.0))
