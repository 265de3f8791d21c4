"""`regard compare`: what it measures, what it leaves out and why, and that nothing is left hanging."""

import importlib
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import count, pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from regard.cli.app import main
from regard.comparison import comparing, costs, machine
from regard.comparison.costs import Seen, affordable, foretold
from regard.comparison.machine import Watch
from regard.comparison.nets import Nets, comparable, contenders, weights
from regard.comparison.report import Comparison, ComparisonRow, Lesson, Point, Spread, spread
from regard.errors import InputError
from regard.modalities.images.compared import Visual
from regard.modalities.text.compared import DECODER, READER, VALUES, Bytes, Textual, generated
from regard.models import bert, gpt, transformer, vit
from regard.nn.attention import Softmax
from regard.nn.mechanisms import MECHANISMS, Mechanism, Plain
from regard.zoo import find_preset

SIZES = {"dim": 16, "depth": 1, "heads": 2, "hidden": 32}


@pytest.fixture(autouse=True, scope="module")
def small() -> Iterator[None]:
    """The models that are compared, smaller than any that has a name."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name in ((gpt, "gpt-tiny"), (bert, "bert-tiny"), (transformer, "transformer-small")):
            patch.setitem(module.PRESETS, name, replace(module.PRESETS[name], **SIZES))
        patch.setitem(vit.PRESETS, "vit-tiny", replace(vit.PRESETS["vit-tiny"], patch=4, image=8, **SIZES))
        yield


@pytest.fixture(scope="module")
def found(small: None) -> Comparison:
    """One small comparison, that many tests look at."""
    choices = ["local", "local-p", {"kind": "top-k", "keep": 1}, "talking"]
    return regard.compare("gpt-tiny", choices, lengths=[32, 16], steps=4, rounds=3)


def row(found: Comparison, name: str) -> ComparisonRow:
    return next(row for row in found.rows if row.name == name)


# What is measured


def test_there_is_a_row_for_each_and_exact_attention_is_the_first(found: Comparison) -> None:
    assert [row.name for row in found.rows] == ["softmax", "local", "local-p", "top-k keep=1", "talking"]
    assert found.lengths == [16, 32]
    for one in found.rows:
        if one.name == "local-p":
            continue
        assert [point.length for point in one.points] == [16, 32]
        for point in one.points:
            assert point.step is not None
            assert point.forward is not None
            assert point.written is not None
            assert point.step.rounds == 3
            assert 0 < point.step.low <= point.step.median <= point.step.high
            assert point.step_bytes > point.forward_bytes > 0
        assert one.lesson.steps[0] == 0
        assert one.lesson.steps[-1] == 4
        assert all(before < after for before, after in pairwise(one.lesson.seconds))
    assert found.steps == 4
    assert found.seconds == min(one.lesson.seconds[-1] for one in found.rows if one.lesson.losses)


def test_what_cannot_be_built_is_a_row_with_its_reason(found: Comparison) -> None:
    one = row(found, "local-p")
    assert "cannot be causal" in one.reason
    assert not one.reason.startswith("attention")  # the row has its name already
    assert (one.points, one.lesson.losses) == ([], [])
    assert f"  local-p       {one.reason}" in str(found).splitlines()


def test_the_error_is_that_against_exact_attention(found: Comparison) -> None:
    assert [point.error for point in row(found, "softmax").points] == [0.0, 0.0]
    assert row(found, "softmax").lesson.error == 0.0
    for point in row(found, "local").points:  # its window is wider than these texts
        assert point.error < 1e-5
    assert row(found, "local").lesson.error < 1e-5
    assert all(point.error > 0.01 for point in row(found, "top-k keep=1").points)


def test_the_error_falls_with_what_is_kept() -> None:
    choices = [{"kind": "top-k", "keep": keep} for keep in (1, 4, 12, 16)]
    found = regard.compare("gpt-tiny", choices, lengths=[16], steps=0, rounds=3)
    errors = [one.points[0].error for one in found.rows[1:]]
    assert all(before > after for before, after in pairwise(errors))
    assert errors[-1] < 1e-6  # all keys are kept
    assert found.steps == 0
    assert found.seconds is None


def test_all_begin_with_the_same_weights_and_see_the_same_batches(found: Comparison) -> None:
    """An attention that is the same function learns the same, and from the same start."""
    exact, local = row(found, "softmax").lesson.losses, row(found, "local").lesson.losses
    assert local == pytest.approx(exact, rel=1e-4)
    assert exact[-1] < exact[0]
    assert row(found, "top-k keep=1").lesson.losses != pytest.approx(exact, rel=1e-4)


def test_weights_are_shared_where_names_and_shapes_agree() -> None:
    nets = Nets("gpt-tiny", Textual(DECODER, generated(0)), 0)
    exact, other = nets.build("softmax", 16), nets.like("talking", 16, nets.build("softmax", 16))
    assert all(torch.equal(x, weights(other)[name]) for name, x in weights(exact).items())
    assert weights(other).keys() > weights(exact).keys()  # it has some of its own
    assert comparable(other, exact)
    assert not comparable(exact, other)
    assert not comparable(nets.build("softmax", 32), exact)  # more positions
    twin = nets.like("cosine", 16, exact)
    assert all(x.data_ptr() == weights(twin)[name].data_ptr() for name, x in weights(exact).items())
    assert torch.equal(nets.build("softmax", 16).embed.weight, exact.embed.weight)


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_growth_is_the_power_that_costs_grow_with(power: float) -> None:
    points = [Point(n, step=spread([3 * n**power]), step_bytes=n) for n in (512, 1024, 4096)]
    one = ComparisonRow("any", "", points)
    assert one.growth(lambda x: x.step.median) == pytest.approx(power)
    assert one.growth(lambda x: x.step_bytes) == pytest.approx(1.0)
    assert ComparisonRow("any", "", points[:1]).growth(lambda x: x.step.median) is None


def timed(name: str, costs: dict[int, float]) -> ComparisonRow:
    return ComparisonRow(name, "", [Point(length, step=spread([cost])) for length, cost in costs.items()])


def test_where_it_becomes_faster_than_exact_attention() -> None:
    sizes = (128, 512, 2048)
    exact = timed("softmax", {n: n**2 for n in sizes})
    rows = [exact, timed("linear", {n: 256.0 * n for n in sizes}), timed("always", {n: 0.5 * n**2 for n in sizes})]
    rows += [timed("never", {n: 2.0 * n**2 for n in sizes}), timed("equal", {n: 0.99 * n**2 for n in sizes})]
    found = Comparison("any", "tokens", list(sizes), rows, "", 1, 0, 128, 8)
    assert found.crossing(rows[1]) == pytest.approx(256)
    assert found.crossing(rows[2]) == 128
    assert [found.crossing(one) for one in (rows[0], rows[3], rows[4])] == [None, None, None]
    noisy = ComparisonRow(
        "noisy", "", [Point(2048, step=spread([0.5 * 2048**2, 0.8 * 2048**2, 1.1 * 2048**2, 1.2 * 2048**2]))]
    )
    assert found.crossing(noisy) is None  # its quartiles reach those of exact attention


def test_a_lesson_tells_the_loss_at_any_time() -> None:
    lesson = Lesson([0, 10, 20], [0.0, 1.0, 3.0], [4.0, 2.0, 1.0])
    assert [lesson.at(x) for x in (0.0, 0.5, 1.0, 2.0, 3.0)] == pytest.approx([4.0, 3.0, 2.0, 1.5, 1.0])
    assert lesson.at(3.1) is None


def test_a_spread_has_quartiles() -> None:
    assert spread([5.0, 1.0, 2.0, 4.0, 3.0]) == Spread(3.0, 2.0, 4.0, 5)
    assert spread([7.0]) == Spread(7.0, 7.0, 7.0, 1)


# Every mechanism, every kind of model


@pytest.fixture
def table() -> Iterator[None]:
    """Afterwards it has the rows that it had, in their order."""
    before = dict(MECHANISMS)
    yield
    MECHANISMS.clear()
    MECHANISMS.update(before)


@pytest.mark.parametrize("few", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_every_mechanism_of_the_table_is_a_row(few: bool, table: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that joined it a moment ago, and one that breaks; a table of few, or for the slow tests all."""
    small = find_preset("gpt-tiny", {"dim": 32, "depth": 1})
    kept = ("softmax", "local-p", "performer", "fourier", "token-mlp") if few else tuple(MECHANISMS)
    for name in [name for name in MECHANISMS if name not in kept]:
        del MECHANISMS[name]

    class Broken(Softmax):
        def forward(self, *inputs: object) -> torch.Tensor:
            raise RuntimeError("a fault\nof ours")

    for name, kernel in (("new", Softmax), ("broken", Broken)):
        row_ = Mechanism(Plain, lambda c, s, kernel=kernel: s.attention(kernel(s.dropout)), "an idea")
        MECHANISMS[name] = row_
    monkeypatch.setattr("regard.comparison.comparing.find_preset", lambda name, changes: small)
    found = regard.compare("gpt-tiny", lengths=[16], steps=2, rounds=3)
    assert [one.name for one in found.rows] == list(MECHANISMS)
    for one in found.rows:
        assert one.reason or one.points[0].reason or (one.points[0].step and one.lesson.losses)
    assert row(found, "new").points[0].error == 0.0
    assert row(found, "broken").points[0].reason == "failed: RuntimeError: a fault"
    assert row(found, "broken").lesson.reason == "failed: RuntimeError: a fault"


@pytest.mark.parametrize("model", ["bert-tiny", "vit-tiny", "transformer-small"])
def test_other_kinds_of_models(model: str) -> None:
    found = regard.compare(model, ["local", "local-p"], lengths=[16, 30], steps=2, rounds=3)
    writes = model == "transformer-small"
    assert ("cannot be causal" in row(found, "local-p").reason) == writes
    for one in found.rows:
        if not one.reason:
            assert all(point.step and (point.written is not None) == writes for point in one.points)
            assert all(math.isfinite(loss) for loss in one.lesson.losses)
    assert all(point.error < 1e-5 for point in row(found, "local").points)
    assert found.lengths == ([16, 25] if model == "vit-tiny" else [16, 30])
    assert ("25 for 30" in str(found)) == (model == "vit-tiny")
    assert ("Text is tokenized into bytes" in str(found)) == (model != "vit-tiny")


def test_a_reader_gets_hidden_bytes_and_a_viewer_waves() -> None:
    batch = Textual(READER, Bytes("abc" * 1000, "abc")).one(64)
    assert (batch.ids[batch.chosen] == VALUES).all()
    assert torch.equal(batch.ids[~batch.chosen], batch.wanted[~batch.chosen])
    assert 0 < batch.chosen.float().mean() < 0.4
    viewer = Visual(vit.PRESETS["vit-tiny"])
    assert viewer.one(16).inputs.shape == (1, 3, 16, 16)
    assert viewer.real(8192) == 91**2


def test_what_is_held_out_is_not_learned_from() -> None:
    text = Bytes("a" * 900 + "b" * 100, "ab")
    assert (text.drawn(50, 20, np.random.default_rng(0), held_out=False) == ord("a")).all()
    assert (text.drawn(50, 20, np.random.default_rng(0), held_out=True) == ord("b")).all()


# What is left out


def test_costs_are_foretold_between_linear_and_square() -> None:
    assert foretold([Seen(100, 1.0, 10.0)], 200) == Seen(200, 4.0, 40.0)
    linear = [Seen(100, 1.0, 10.0), Seen(200, 2.0, 20.0)]
    assert 4.0 < foretold(linear, 400).seconds < 8.0
    flat = [Seen(100, 1.0, 10.0), Seen(200, 1.0, 10.0)]
    assert foretold(flat, 400) == Seen(400, 2.0, 20.0)
    cubic = [Seen(100, 1.0, 1.0), Seen(200, 8.0, 8.0)]
    assert foretold(cubic, 400) == Seen(400, 32.0, 32.0)


def test_the_most_expensive_are_left_out_and_exact_attention_last() -> None:
    prices = {"a": 5.0, "softmax": 4.0, "b": 3.0, "c": 1.0}
    assert affordable(prices, 20.0) == ["softmax", "c", "b", "a"]
    assert affordable(prices, 12.0) == ["softmax", "c", "b"]
    assert affordable(prices, 4.5) == ["softmax"]
    assert affordable(prices, 3.0) == []


def test_what_would_take_too_long_says_how_long() -> None:
    """By a clock on which every run takes ten minutes."""
    ticks = (600.0 * i for i in count())
    slow = Watch(wall=lambda: next(ticks), own=lambda: next(ticks), load=lambda: None)
    found = regard.compare("gpt-tiny", ["local"], lengths=[32, 64], steps=4, rounds=3, minutes=1, watch=slow)
    for one in found.rows:
        assert [point.step for point in one.points] == [None, None]
        assert all(point.reason.startswith("would take") and point.reason.endswith(" h") for point in one.points)
        assert "would take" in one.lesson.reason
    assert "would exceed --minutes" in str(found)


def test_what_would_need_too_much_memory_says_how_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "room", lambda: 50_000)
    found = regard.compare("gpt-tiny", ["local"], lengths=[64], steps=0, rounds=3)
    assert all("kB of memory, 50 kB available" in one.points[0].reason for one in found.rows)


def test_a_busy_machine_is_told() -> None:
    def watch(share: float, load: float | None) -> Watch:
        walls, owns = count(), count()
        found = Watch(
            wall=lambda: float(next(walls)), own=lambda: share * next(owns), load=lambda: load, cores=lambda: 4
        )
        assert found(lambda: "done").value == "done"
        return found

    assert watch(1.0, 0.5).busy() == ""
    assert watch(0.95, None).busy() == ""  # where the system tells no load
    assert "this process got 60% of a core" in watch(0.6, None).busy()
    assert "load average 5.0 on 4 cores" in watch(1.0, 5.0).busy()
    assert watch(0.5, None).slowness == 2.0
    found = regard.compare("gpt-tiny", [], lengths=[16], steps=0, rounds=3, watch=watch(0.4, None))
    assert "The machine was busy" in str(found)
    assert found.as_dict()["busy"]


def test_memory_is_known_without_proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine.memory(tmp_path / "none").free is None
    assert machine.memory(tmp_path / "none").total > 1 << 20

    def silent() -> machine.MemoryLimit:
        raise AttributeError("module 'os' has no attribute 'sysconf'")

    monkeypatch.setattr(machine, "memory", silent)
    assert machine.room() is None


@pytest.mark.parametrize(("at", "steps"), [("16 tokens: memory of local", 0), ("step 3 of 20", 2)])
def test_ctrl_c_gives_what_was_measured(at: str, steps: int) -> None:
    def progress(doing: str, left: float | None) -> None:
        if doing.startswith(at):
            raise KeyboardInterrupt

    found = regard.compare("gpt-tiny", ["local"], lengths=[16], steps=20, rounds=3, progress=progress)
    assert found.stopped
    assert found.steps == steps
    assert "Interrupted: results are incomplete" in str(found)
    assert (found.rows[0].points[0].step_bytes or 0) > 0
    found.as_dict()
    found.picture()


def test_time_left_shrinks_to_nothing() -> None:
    told: list[float] = []
    regard.compare(
        "gpt-tiny",
        [],
        lengths=[16],
        steps=5,
        rounds=3,
        progress=lambda doing, left: told.append(left) if left is not None else None,
    )
    assert told
    assert min(told) >= 0
    assert told[-1] < 60


# Files and words


def test_a_comparison_is_saved_in_four_forms(found: Comparison, tmp_path: Path) -> None:
    save(found, tmp_path, {".png": b"\x89PNG", ".svg": b"<?xml"})
    with pytest.raises(InputError, match=r"\.png or \.svg"):
        found.save(tmp_path / "x.txt")


def save(found: Comparison, folder: Path, kinds: dict[str, bytes]) -> None:
    """As each of these, which begin so; nothing else is left in the folder."""
    for kind, begins in kinds.items():
        found.save(folder / f"x{kind}")
        assert (folder / f"x{kind}").read_bytes().startswith(begins)
    assert sorted(x.name for x in folder.iterdir()) == sorted(f"x{kind}" for kind in kinds)


def test_a_comparison_is_a_page_and_data(found: Comparison, tmp_path: Path) -> None:
    save(found, tmp_path, {".html": b"<!doctype", ".json": b"{"})
    page = (tmp_path / "x.html").read_text()
    assert "<svg" in page
    assert "time per training step" in page
    data = json.loads((tmp_path / "x.json").read_text())
    assert data["rows"][0]["growth"]["step"] == row(found, "softmax").growth(lambda x: x.step.median)
    assert data["rows"][0]["loss_after_equal_steps"] == row(found, "softmax").lesson.losses[-1]


def test_no_name_in_the_picture_lies_on_another(found: Comparison) -> None:
    figure = found.picture()
    figure.canvas.draw()
    assert len(figure.axes) == 6
    for axes in figure.axes:
        boxes = sorted((text.get_window_extent() for text in axes.texts), key=lambda box: box.y0)
        other = [one for one in found.rows if any(point.error for point in one.points)]  # who is not exact
        judged = "error" in axes.get_title(loc="left") + axes.get_title()
        assert len(boxes) == (len(other) if judged else 4)
        assert all(below.y1 <= above.y0 + 1 for below, above in pairwise(boxes))


def test_the_command_line_prints_plain_lines_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "poem.txt"
    text.write_text("The sea, the sea, the open sea.\n" * 40)
    words = ["compare", "gpt-tiny", "--attention", "softmax, local-p", "--lengths", "16,32", "--steps", "2"]
    words += ["--rounds", "3", "--data", str(text), "--out", str(tmp_path / "x.svg")]
    assert main(words) == 0
    out, progress = capsys.readouterr()
    assert out.startswith("gpt-tiny: 2 attention mechanisms, one thread")
    assert "cannot be causal" in out
    assert "poem.txt" in out
    assert "\x1b" not in out + progress
    assert "left: " in progress
    assert (tmp_path / "x.svg").exists()
    assert main([*words, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in data["rows"]] == ["softmax", "local-p"]
    assert data["data"] == str(text)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["gpt-tiny", "--attention", "softmx"], "did you mean 'softmax'?"),
        (["gpt-tiny", "--attention", "softmx"], "performer" if "performer" in MECHANISMS else "talking"),
        (["gtp-tiny"], "did you mean 'gpt-tiny'?"),
        (["mlp-mnist"], "no exchangeable attention"),
        (["gpt-tiny", "--lengths", "16,many"], "16,many"),
        (["gpt-tiny", "--lengths", "4"], "at least 16"),
        (["gpt-tiny", "--lengths", "100000000"], "at most 1,048,576"),
        (["gpt-tiny", "--seed", "-1"], "seed is too small"),
        (["gpt-tiny", "--attention", "softmax,,local"], "--attention contains an empty name"),
        (["gpt-tiny", "--attention", ""], "--attention contains an empty name"),
        (["gpt-tiny", "--rounds", "1"], "at least 3"),
        (["gpt-tiny", "--minutes", "0"], "above 0"),
        (["gpt-tiny", "--minutes", "nan"], "above 0"),
        (["gpt-tiny", "--data", "nowhere.txt"], "nowhere.txt"),
        (["gpt-tiny", "--out", "x.txt"], ".png or .svg"),
        (["gpt-tiny", "--out", "nowhere/x.png"], "folder not found"),
        (["vit-tiny", "--data", __file__], "remove --data"),
    ],
)
def test_bad_input_is_refused_before_anything_is_measured(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs.Costs, "look", lambda *_: pytest.fail("it measured"))
    assert main(["compare", *words]) == 2
    out, lines = capsys.readouterr()
    assert told in lines
    assert out == ""


def test_a_text_that_is_too_short_says_how_long_it_must_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "short.txt").write_text("Too short.")
    assert main(["compare", "gpt-tiny", "--data", str(tmp_path / "short.txt"), "--lengths", "16"]) == 2
    assert "at least 170" in capsys.readouterr().err


def test_an_interrupted_command_prints_the_table(
    found: Comparison, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparing, "compare", lambda *a, **k: replace(found, stopped=True))
    assert main(["compare", "gpt-tiny"]) == 130
    assert "Interrupted: results are incomplete" in capsys.readouterr().out


def test_in_a_terminal_one_line_is_drawn_over(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = importlib.import_module("regard.cli.compare")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    ticker = module.Ticker()
    ticker("round 1", 61.0)
    ticker("round 2", 60.0)  # too soon to be read
    ticker.close()
    shown = capsys.readouterr().err
    assert "about 1:01 left: round 1" in shown
    assert "round 2" not in shown
    assert shown.endswith("\r\x1b[2K")


def test_contenders_are_named_by_what_is_unusual() -> None:
    named = contenders(["local", {"kind": "local", "window": 64}, {"kind": "local", "window": 256}, "softmax"])
    assert [one.name for one in named] == ["softmax", "local", "local window=64"]
    with pytest.raises(InputError, match="did you mean 'window'"):
        contenders([{"kind": "local", "windw": 64}])
