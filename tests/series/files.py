"""Small csv files of series."""

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np


def wide(path: Path, columns: dict[str, np.ndarray], *, hours: float = 1.0) -> Path:
    """A column of times, and one for each series."""
    start, count = datetime(2024, 1, 1), len(next(iter(columns.values())))
    lines = [",".join(["time", *columns])]
    for i in range(count):
        lines.append(",".join([str(start + timedelta(hours=i * hours)), *(f"{x[i]:.6f}" for x in columns.values())]))
    path.write_text("\n".join(lines) + "\n")
    return path


def sine(count: int, period: float = 12.0, level: float = 0.0, size: float = 1.0) -> np.ndarray:
    return level + size * np.sin(2 * np.pi * np.arange(count) / period)
