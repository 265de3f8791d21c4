"""The figures of T5, Switch and GPT-3: every check can fail, and their toys and measures are what they say."""

from typing import Any

import pytest

from regard.figures.table import FIGURES
from tests.test_figures import every_check_fails

STAIRS = [min(abs(offset) // 2, 15) for offset in range(-300, 301)]
SPOILED: dict[str, list[tuple[str, Any]]] = {
    "4.3": [
        ("prompts.zero-shot", "Translate English to German:\ncheese =>"),
        ("prompts.few-shot", "Translate English to French:\nsea otter => loutre de mer\ncheese => fromage"),
        ("prompts.zero-shot", "Translate English to French:\na => b\ncheese =>"),
        ("prompts.one-shot", "Translate English to French:\ncheese =>"),
        ("prompts.one-shot", "Translate English to French:\npeppermint => menthe poivrée\ncheese =>"),
        ("digests.2", "0" * 64),
        ("parameters", 170_000_000_000),
    ],
    "4.3b": [
        ("runs.1.repeated", 3),
        ("runs.0.after", "0"),
        ("runs.1.after", "0"),
        ("runs.0.right.0", 0.1),
        ("runs.1.right.8", 0.4),
        ("runs.0.told", 0.9),
        ("runs.1.untold", 0.1),
        ("best", [1.0] * 9),
    ],
    "4.3c": [
        *((f"rows.{i}.parameters", 1) for i in range(8)),
        ("rows.3.heads", 24),
        ("xl as printed.parameters", 1_310_000_000),
    ],
    "4.4": [(f"answers.{i}", "dnetta" if i == 1 else "T5") for i in range(6)],
    "4.4b": [
        ("encoder.differ", 1),
        ("decoder.differ", 2),
        ("encoder.buckets", STAIRS),
        ("decoder.buckets", STAIRS),
        ("encoder.buckets.0", 14),
        ("decoder.buckets.0", 30),
        ("decoder.buckets.299", 2),
        ("decoder.buckets.310", 3),
        ("decoder.buckets.100", 7),
    ],
    "4.4c": [
        (f"curves.{task}.{place}", value)
        for task in ("reverse:", "upper:", "translate-digits:")
        for place, value in ((-1, 0.94), (0, 0.2))
    ],
    "4.5": [
        ("differs", 0.1),
        ("dropped", 2),
        ("dropped", 0),
        ("output of dropped", 0.1),
        ("least of kept", 0.0),
        ("kept", [1, 2, 1, 3, 1, 2]),
        ("load by hand", 1.0),
        ("likely.1", [0.9, 0.9, 0.1]),
    ],
    "4.5b": [
        *((f"{experts}.losses", [[3.0] * 13] * 2) for experts in (2, 4, 8)),
        ("4.operations", 200_000),
        ("8.weights", 60_000),
    ],
    "4.5c": [("steps.2", 540.0), ("steps.4", 540.0), ("steps.8", 540.0), ("steps.1", 600.0)],
    "4.5d": [
        ("with.evenness.0.-1", [0.85, 0.95]),
        ("without.evenness.0.1", [0.5, 0.8]),
        ("without.evenness.1.-1", [0.9, 0.5]),
        ("without.shares", [[[0.125] * 8] * 2] * 2),
    ],
    "4.5e": [("8.0", [3.4] * 4), ("8.1", [1.0] * 4), ("1.0", [3.4] * 4)],
}


def test_all_of_these_sections_are_spoiled_above() -> None:
    assert [name for name in FIGURES if name.startswith(("4.3", "4.4", "4.5"))] == list(SPOILED)


@pytest.mark.parametrize("name", list(SPOILED))
def test_every_check_can_fail(name: str) -> None:
    every_check_fails(name, SPOILED[name])
