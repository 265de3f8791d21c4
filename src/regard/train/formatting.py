"""Numbers and texts as a line can show them."""

import math
from collections.abc import Mapping
from typing import Any

CONTROLS = {code: "\N{REPLACEMENT CHARACTER}" for code in (*range(32), *range(127, 160))}
CONTROLS |= {ord("\t"): " ", ord("\r"): " ", ord("\n"): "\n"}


def number(value: float) -> str:
    """Four digits after the point, so that it does not jump about; very small and large ones by their exponent."""
    if not math.isfinite(value):
        return str(value)
    return f"{value:.4f}" if value == 0 or 1e-3 <= abs(value) < 1e4 else f"{value:.2e}"


def format_count(value: float) -> str:
    """12345.6 -> 12.3k; below a hundred, a rate has a digit after the point."""
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:.1f}{letter}"
    return f"{value:.0f}" if value >= 100 or isinstance(value, int) else f"{value:.1f}"


def format_bytes(size: float) -> str:
    for unit, letters in ((1e9, "GB"), (1e6, "MB")):
        if size >= unit:
            return f"{size / unit:.{1 if unit == 1e9 else 0}f} {letters}"
    return f"{size / 1e3:.0f} kB"


def format_duration(seconds: float) -> str:
    """3:07, 2:03:07, 3 d 02:03"""
    if not math.isfinite(seconds):
        return "?"
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= 48:
        return f"{hours // 24} d {hours % 24:02d}:{minutes:02d}"
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def format_age(seconds: float) -> str:
    """In one unit: 12 s, 5 min, 3.2 h"""
    if seconds < 100:
        return f"{max(0.0, seconds):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def printable_text(text: str) -> str:
    """Samples hold anything: a control character would reach the terminal as a command."""
    return text.translate(CONTROLS)


def json_number(value: Any) -> Any:
    """For JSON, which has no NaN and no infinity: there is no number to tell, so it is null."""
    if isinstance(value, Mapping):
        return {name: json_number(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [json_number(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
