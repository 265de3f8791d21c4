"""Runs of the verb `regard train`, small ones."""

import os
import signal
import sys
import time
from typing import Any

import numpy as np
import pytest

from regard.cli.app import main
from regard.train.engine import Engine


def pairs(bad: int = 0, count: int = 300) -> str:
    """Rows of a tsv; some have one column too few."""
    numbers = np.random.default_rng(0).integers(0, 9, (count, 4))
    rows = [" ".join(f"w{i}" for i in row) for row in numbers]
    return "".join(f"{row}\n" if i % 20 == 7 and i // 20 < bad else f"{row}\t{row}\n" for i, row in enumerate(rows))


def interrupt(monkeypatch: pytest.MonkeyPatch, at: int, *numbers: signal.Signals) -> None:
    """Signals to this very process, after so many steps."""
    plain = Engine.collect

    def collect(self: Engine, update: Any) -> None:
        plain(self, update)
        if update.step + 1 == at:
            for number in numbers:
                os.kill(os.getpid(), number)

    monkeypatch.setattr(Engine, "collect", collect)


def slowly(folder: str, environment: dict[str, str], words: list[str]) -> None:
    """The verb, in a process of its own that can be interrupted before its end."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    plain = Engine.update

    def slow(self: Engine, step: int, *rest: Any) -> Any:
        time.sleep(0.5 if step >= 9 else 0)
        return plain(self, step, *rest)

    Engine.update = slow
    sys.exit(main(words))
