"""The curves of a run: drawn from any journal, and true to it."""

import math
import os
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from PIL import Image

from regard import style
from regard.errors import InputError
from regard.train import curves
from regard.train.curves import curves_of, draw, main, page, short, smooth, spread_heights, summary, thinned

Line = dict[str, Any]


def journal(steps: int, every: int = 10) -> list[Line]:
    lines: list[Line] = []
    for step in range(every, steps + 1, every):
        loss = 2 + 5 * math.exp(-step / 200) + 0.1 * math.sin(step)
        lines.append({"step": step, "epoch": step / 7, "loss": loss, "norm": 1.0 + loss, "rate": 1e-3 / step})
        if step % (10 * every) == 0:
            lines.append({"step": step, "held_out": {"loss": loss + 0.5, "bleu": step / 100}})
    return lines


def titles(lines: list[Line]) -> list[str]:
    return [axes.get_title(loc="left") for axes in page(curves_of(lines), "run").axes]


@pytest.mark.parametrize(
    "lines",
    [[], journal(10), journal(1000), [{"step": 5, "held_out": {"loss": 1.0}}], [{"step": 0, "rate": 0.0}]],
    ids=["nothing", "one line", "many lines", "only held out", "only a rate"],
)
def test_both_pictures_whatever_there_is(lines: list[Line], tmp_path: Path) -> None:
    draw(lines, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["curves.png", "curves.svg"]
    with Image.open(tmp_path / "curves.png") as picture:
        picture.load()
        assert picture.width == 1200
    assert (tmp_path / "curves.svg").read_text("utf-8").rstrip().endswith("</svg>")


def test_the_same_lines_give_the_same_bytes(tmp_path: Path) -> None:
    found = []
    for _ in range(2):
        draw(journal(300), tmp_path)
        found.append([(tmp_path / f"curves.{kind}").read_bytes() for kind in ("png", "svg")])
    assert found[0] == found[1]


def test_a_hundred_thousand_lines_make_a_small_picture(tmp_path: Path) -> None:
    draw(journal(100_000, every=1), tmp_path)
    assert (tmp_path / "curves.svg").stat().st_size < 500_000


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["$x_{$", "模型", "a" * 200, "with space & <tag>"])
def test_a_run_may_have_any_name(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    draw([{"step": 1, "$y^{$": 1.0, "held_out": {"<&>": 2.0}}], tmp_path / name)
    assert (tmp_path / name / "curves.svg").exists()


def test_its_name_is_drawn_as_it_stands() -> None:
    title = page(curves_of([{"step": 1, "loss": 1.0}]), "costs $5 or $10").texts[0]
    assert (title.get_text(), title.get_parse_math()) == ("costs $5 or $10", False)


def test_numbers_go_to_their_curves() -> None:
    lines: list[Line] = [
        {"step": 10, "epoch": 0.5, "loss": 3.0, "rate": 1, "word": "x", "yes": True},
        {"step": 10, "held_out": {"loss": 4.0, "bleu": None}},
        {"step": 20, "loss": float("nan"), "rate": 2},
        {"loss": 9.0},
        {"step": None, "loss": 9.0},
        {"step": 30, "loss": 1.0},
    ]
    found = {(curve.table, curve.name): (curve.steps.tolist(), curve.values.tolist()) for curve in curves_of(lines)}
    assert found == {
        ("", "loss"): ([10, 30], [3, 1]),
        ("", "rate"): ([10, 20], [1, 2]),
        ("held_out", "loss"): ([10], [4]),
    }


def test_each_measure_has_its_panel() -> None:
    assert titles(journal(200)) == ["loss", "bleu", "rate", "norm"]
    parts: Line = {"step": 1, "critic.rate": 1.0, "generator.rate": 1.0, "critic.norm": 1.0}
    assert titles([{**parts, "fooled": 1.0, "real": 2.0}]) == [
        *["fooled", "real"],
        *["critic.rate", "generator.rate", "critic.norm"],
    ]
    many = [{"step": 1, "loss": 1.0, "held_out": {f"m{i}": 1.0 for i in range(12)}}]
    assert titles(many) == ["loss", *(f"m{i}" for i in range(9))]
    assert any("3 more" in text.get_text() for text in page(curves_of(many), "run").texts)


def test_what_the_large_panel_shows() -> None:
    def shown(lines: list[Line]) -> list[tuple[str, str]]:
        return [(curve.table, curve.name) for curve in main([x for x in curves_of(lines) if not x.beside])]

    assert shown(journal(200)) == [("", "loss"), ("held_out", "loss")]
    named = [{"step": 1, "entropy": 1.0, "held_out": {"loss": 2.0, "bleu": 1.0, "entropy": 3.0}}]
    assert shown(named) == [("", "entropy"), ("held_out", "loss"), ("held_out", "entropy")]
    assert shown([{"step": 1, "held_out": {"bleu": 1.0, "loss": 2.0}}]) == [("held_out", "loss")]
    assert shown([]) == []


def test_training_is_indigo_and_what_is_held_out_is_ochre() -> None:
    axes = page(curves_of(journal(1000)), "run").axes[0]
    faint, training, held_out, ring = axes.lines
    assert faint.get_color() == style.mix(style.WEIGHT, 0.28)
    assert training.get_color() == style.WEIGHT
    assert held_out.get_color() == style.SECOND
    assert list(held_out.get_xdata()) == list(range(100, 1001, 100))
    assert ring.get_xdata() == held_out.get_xdata()[np.argmin(held_out.get_ydata())]
    assert len(faint.get_xdata()) == len(training.get_xdata()) == 100


def test_the_line_of_words_tells_the_last_and_the_best() -> None:
    values = [(10, 5.0), (20, 2.0), (30, 3.0)]
    lines: list[Line] = [{"step": step, "held_out": {"loss": value}} for step, value in values]
    lines += [{"step": 30, "loss": 1.25}]
    assert summary(main(curves_of(lines))) == (
        "After 30 steps: training 1.25, held out 3; best held out 2, at step 20."
    )


def test_a_loss_that_falls_far_is_shown_by_ratio() -> None:
    def scale(values: list[float]) -> str:
        lines = [{"step": i, "loss": value} for i, value in enumerate(values)]
        return page(curves_of(lines), "run").axes[0].get_yscale()

    assert scale([5.0, 2.0, 1.0]) == "linear"
    assert scale([5.0, 0.1, 0.01]) == "log"
    assert scale([5.0, 0.0]) == "linear"
    assert scale([5.0, -1.0]) == "linear"


def test_one_wild_number_does_not_flatten_the_rest() -> None:
    lines = [{"step": i, "loss": 1e6 if i == 500 else 2.0 + math.sin(i)} for i in range(1000)]
    bottom, top = page(curves_of(lines), "run").axes[0].get_ylim()
    assert bottom < 1.1
    assert 2.9 < top < 4


@given(some.lists(some.floats(-1e3, 1e3), min_size=1, max_size=300))
def test_smoothing_stays_within_and_keeps_what_is_straight(values: list[float]) -> None:
    smoothed = smooth(np.array(values))
    assert len(smoothed) == len(values)
    assert smoothed.min() >= min(values) - 1e-6
    assert smoothed.max() <= max(values) + 1e-6
    assert smoothed[0] == pytest.approx(values[0], abs=1e-9)
    line = np.linspace(values[0], values[-1], len(values))
    reach = max(1, len(values) // 80)
    assert smooth(line)[: len(line) - reach] == pytest.approx(line[: len(line) - reach], abs=1e-6)


def test_the_smoothed_end_is_a_mean_of_many() -> None:
    values = np.where(np.arange(1000) % 2, 1.0, 3.0)
    assert smooth(values)[-1] == pytest.approx(2.0, abs=0.1)


@given(some.integers(1, 5000), some.integers(0, 2**32 - 1))
def test_thinning_keeps_the_ends_and_the_extremes(count: int, seed: int) -> None:
    y = np.random.default_rng(seed).standard_normal(count)
    x = np.arange(count, dtype=float)
    thin_x, thin_y = thinned(x, y)
    assert len(thin_x) <= curves.POINTS + 2
    assert (np.diff(thin_x) > 0).all()
    assert (y[thin_x.astype(int)] == thin_y).all()
    assert (thin_x[0], thin_x[-1]) == (0, count - 1)
    assert (thin_y.min(), thin_y.max()) == (y.min(), y.max())


@given(some.lists(some.floats(0, 100), min_size=1, max_size=6).map(sorted))
def test_labels_stand_apart_and_in_order(heights: list[float]) -> None:
    moved = spread_heights(heights, 16.0)
    assert all(b - a >= 16.0 - 1e-9 for a, b in pairwise(moved))
    assert sum(moved) == pytest.approx(sum(heights))
    if all(b - a >= 16.0 for a, b in pairwise(heights)):
        assert moved == pytest.approx(heights)


@pytest.mark.parametrize(
    ("value", "text"),
    [(2.1142, "2.114"), (0, "0"), (4.5e-4, "4.5e−4"), (50530.2, "50,530"), (-3.0, "−3"), (1.25e9, "1.25e9")],
)
def test_short_numbers(value: float, text: str) -> None:
    assert short(value) == text


def test_what_cannot_be_written_is_named_and_the_old_one_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw(journal(20), tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def full(path: Path, raw: bytes) -> int:
        with open(path, "wb") as file:
            file.write(raw[:100])
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(InputError) as raised:
        draw(journal(40), tmp_path)
    assert raised.value.where == str(tmp_path / "curves.svg")
    assert re.search(r"with \d+ bytes free", raised.value.expected)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
