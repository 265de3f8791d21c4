"""The figures: complete table, verdicts from numbers, pictures without clipped text, and checks that can fail."""

import copy
import importlib
import json
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from regard import style
from regard.comparison import measure
from regard_lectures import figure, pictures, recheck, records, source, table
from regard_lectures.attention import all_costs

SLOW = 3.0  # seconds: figures that cost more are computed by the slow tests only
HOURS = 2000.0  # seconds: figures that cost more train whole models, and are computed by their own command only
COSTS = {row["id"]: row["cost"] for row in table.rows()}
NAMES = list(table.FIGURES)


def module(name: str) -> Any:
    return importlib.import_module(table.FIGURES[name])


def recorded(name: str) -> dict[str, Any]:
    found = table.record(name)
    assert found is not None, name
    return found


# The table --------------------------------------------------------------------------------------


def is_figure(path: Path) -> bool:
    return "CLAIM" in source.literals(path.read_text(encoding="utf8"))


def test_every_figure_stands_in_the_table_once():
    folder = Path(table.__file__).parent
    there = {f"regard_lectures.{path.parent.name}.{path.stem}" for path in folder.glob("*/*.py") if is_figure(path)}
    assert sorted(table.FIGURES.values()) == sorted(there)
    assert len(there) >= 26


def test_a_new_attention_changes_no_figure():
    """Who compares attentions names them: the library's own table may grow."""
    files = Path(table.__file__).parent.rglob("*.py")
    assert [path.name for path in files if "MECHANISMS" in path.read_text(encoding="utf8")] == []


def test_every_figure_has_its_record():
    assert [name for name in table.FIGURES if table.record(name) is None] == []


@pytest.mark.parametrize("row", table.rows(), ids=lambda row: row["id"])
def test_rows_say_what_a_reader_needs(row):
    assert re.fullmatch(r"\d+\.\d+[a-z]?", row["id"])
    assert row["command"] == f"regard figure {row['id']}"
    assert re.fullmatch(r"(00\d ?)+", row["deck"])
    assert row["title"]
    assert row["claim"].endswith(".")
    assert row["cost"] > 0
    assert row["verdict"] in ("confirmed", "partly", "contradicted", "quoted")
    words = ("quoted", "nothing was expected before the run") if row["verdict"] == "quoted" else (row["verdict"],)
    assert row["last"].startswith(words)
    assert re.fullmatch(r"(\d+ of \d+)?", row["agreement"])


def test_what_is_expected_and_found_is_told():
    """Of those that tell it; the others are named until they do."""
    lacking = table.lacking()
    for row in table.rows():
        if row["id"] not in lacking:
            assert row["expected"].endswith("."), row["id"]
            assert row["found"].endswith("."), f"{row['id']}: python -m regard_lectures.recheck {row['id']} records it"
            assert re.search(r"\d", row["found"]), f"{row['id']}: what was found has no number"
    if lacking:
        pytest.skip(f"{len(lacking)} of {len(NAMES)} lack EXPECTED or FOUND: {' '.join(lacking)}")


def test_titles_differ():
    titles = [row["title"] for row in table.rows()]
    assert len(set(titles)) == len(titles)


def test_reading_the_table_imports_nothing_heavy():
    code = "import sys; from regard_lectures.table import rows; rows(); print({'torch', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


# What was recorded ------------------------------------------------------------------------------


def near(got: Any) -> Any:
    """Equal up to rounding, which another machine's least squares may do otherwise."""
    return pytest.approx(got, rel=1e-9, abs=1e-12) if isinstance(got, float) else got


@pytest.mark.parametrize("name", NAMES)
def test_the_record_is_small_and_follows_from_its_numbers(name):
    """The verdict too, whatever it is: that it is a good one is not asked."""
    path, result, code = records.RESULTS / f"{name}.json", recorded(name), module(name)
    assert path.stat().st_size < 22_000
    again = records.judged(name, code, result["numbers"], result["made"])
    checks = [said | {"got": near(said["got"])} for said in result["checks"]]
    assert again | {"checks": checks} == result | {"checks": again["checks"]}, "python -m regard_lectures.recheck"
    assert set(result["made"]) - {"renamed_from"} == {
        "regard",
        "commit",
        "date",
        "torch",
        "machine",
        "threads",
        "seeds",
        "digest",
    }


SAMPLE = ["1.4", "2.8c", "3.7", "5.12", "10.6", "11.8c"]


def check_page(name: str) -> None:
    """All that is seen is on the page, and below it stands the verdict."""
    with style.font_family():
        picture = module(name).draw(recorded(name)["numbers"])
        assert isinstance(picture, Figure)
        canvas = FigureCanvasAgg(picture)
        canvas.draw()
        box = picture.get_tightbbox(canvas.get_renderer())  # in inches, of all that is seen
        strip = pictures.stamped(picture, records.words(recorded(name)))
        whole = picture.get_tightbbox(canvas.get_renderer())
    wide, high = picture.get_size_inches()
    said = [text.get_text() for text in picture.findobj(Text)]
    assert module(name).TITLE[:5] in "".join(said)
    assert min(box.x0, box.y0, wide - box.x1, high - box.y1) >= 0
    assert strip.y0 < whole.y0 < 0
    assert whole.x1 <= wide


@pytest.mark.parametrize("name", SAMPLE)
def test_nothing_of_a_picture_is_outside_its_page(name):
    check_page(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if name not in SAMPLE])
def test_nothing_of_any_picture_is_outside_its_page(name):
    check_page(name)


# Computing --------------------------------------------------------------------------------------


def computed(name: str) -> None:
    """Compute, and see that the same holds as in the record but what depends on the machine's speed; also as JSON."""
    code = module(name)
    numbers = code.compute()
    assert json.loads(json.dumps(numbers, allow_nan=False)) == numbers
    checks = code.checks(numbers)
    assert len({check.name for check in checks}) == len(checks)
    before = {check["name"]: check["ok"] for check in recorded(name)["checks"]}
    now = {check.name: check.ok for check in checks}
    assert [check for check in now if now[check] != before.get(check) and not check.startswith("seconds")] == []


@pytest.mark.parametrize("name", [name for name in NAMES if COSTS[name] <= SLOW])
def test_computed_again_the_same_holds(name, request, monkeypatch):
    if "REGARD_DATA" in (module(name).__doc__ or ""):
        monkeypatch.setenv("REGARD_DATA", str(request.getfixturevalue("shared_data")))
    computed(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if SLOW < COSTS[name] < HOURS])
def test_computed_again_the_same_holds_slow(name, shared_data, monkeypatch):
    monkeypatch.setenv("REGARD_DATA", str(shared_data))  # some need it
    computed(name)


@pytest.mark.parametrize("name", ["2.1d", "2.3", "2.6", "2.7b"])
def test_numbers_do_not_depend_on_what_was_drawn_before(name):
    first = module(name).compute()
    torch.randn(7)
    state = torch.random.get_rng_state()
    assert module(name).compute() == first
    assert torch.equal(torch.random.get_rng_state(), state)


# Every check can fail ---------------------------------------------------------------------------

SPOILED: dict[str, list[tuple[str, Any]]] = {
    "2.1": [("soft", 5.0), ("hard", 8.0), ("top", 0.5), ("own", 1.0)],
    "2.1b": [("chosen", 0), ("top", 0.4), ("law", 0.1)],
    "2.1c": [("before.weights.1", 0.0), ("after.weights.2", 0.4), ("loss.-1", 1.0)],
    "2.1d": [("total", 0.9), ("sum", 0.1), ("strongest", 0)],
    "2.2": [
        ("softmax(x).2", 0.9),
        ("softmax(2x).2", 0.5),
        ("shift", 0.1),
        ("rows", 0.1),
        ("jacobian", 0.1),
        ("ratio", 0.1),
        ("hot", 0.9),
        ("cold", 0.1),
    ],
    "2.2b": [("total", 1.1), ("order", False), ("weights", [0.2] * 6), ("lead", 1.0)],
    "2.2c": [
        ("unscaled.largest.-1", 0.5),
        ("unscaled.jacobian.-1", 0.3),
        ("scaled.largest.5", 0.5),
        ("scaled.jacobian.5", 0.1),
    ],
    "2.3": [("grid", 9), ("lists", 20), ("additive law", 1.0), ("dot law", 1.0), ("general", 1.0), ("fused", 1.0)],
    "2.3b": [
        ("additive.bytes.-1", 1_000_000),
        ("dot.bytes.-1", 100_000_000),
        ("additive.seconds.-1", 1e-9),
    ],
    "2.3c": [("bleu.dot", 10.0), ("seconds.additive", 1e-9)],
    "2.4": [("weights differ", 0.1), ("output differs", 0.1), ("fused differs", 0.1), ("wide", False)],
    "2.4b": [("shown", 0.4), ("weight", 0.4), ("accuracy", 0.5)],
    "2.4c": [(f"shapes.{i}", [9, 9]) for i in range(4)] + [("projected", 0.1), ("product", 0.1)],
    "2.4d": [
        ("operations.-1", 1),
        ("explicit.bytes.-1", 1_000_000),
        ("fused.bytes.-1", 100_000_000),
        ("explicit.seconds.4", 10.0),
        ("fused.seconds.-1", 10.0),
    ],
    "2.4e": [
        ("plain", 1.0),
        ("masked", 1.0),
        ("weights", 1.0),
        ("shapes.SoftMax", [7, 16]),
        ("shapes.MatMul ", [7]),
    ],
    "2.5": [(f"one head.{part}", 1) for part in "qkvo"]
    + [
        (part, 1)
        for part in (
            "unsplit value map",
            "per head",
            "attention per layer",
            "attention",
            "mlp per layer",
            "mlp",
            "embedding",
            "positions",
            "matrices",
            "total",
        )
    ],
    "2.5b": [("summed", 1.0), ("torch", 1.0), ("rank", 32), ("alone", 1.0), ("shapes.weights", [6, 6])],
    "2.5c": [(f"errors.{i}.-1", 0.1) for i in range(3)] + [(f"errors.{i}.0", 0.001) for i in range(3)],
    "2.5d": [("parameters.1", 7), ("accuracy.2.0", [0.1, 0.1]), ("accuracy.2", [[0.1, 0.1]] * 3)],
    "2.5e": [("accuracy.3", 0.2), ("favourites", [1] * 8)],
    "2.6": [("later", 1e-9), ("changed", 1e-9), ("same", 0.1), ("cross", [[1.0]])],
    "2.6b": [("without.final", 1.0), ("without.grammatical", 0.9), ("with.final", 0.1), ("with.grammatical", 0.5)],
    "2.6c": [("merged", 0.5), ("river", 0.01), ("bank", 0.01), ("said", ["sea wall"] * 3)],
    "2.7": [("formula", False), ("output", 0.1), ("gradient", 0.1), ("look-ahead.0.3", 1), ("both.0.3", 1)],
    "2.7b": [
        ("right.future weight", 1e-9),
        ("right.future slope", 1e-9),
        ("right.caught", True),
        ("off by one.future slope", 0.0),
        ("off by one.caught", False),
    ],
    "2.8": [("curves.softmax, explicit.bytes.-1", 1)]
    + [(f"curves.{mechanism}.seconds.-1", 99.0) for mechanism in ("additive", "softmax, fused")],
    "2.8b": [("counts.3.weights", 6), ("counts.3.operations", 1), ("counts.6.weights", 6), ("counts.6.operations", 1)],
    "2.8c": [
        ("curves", {}),
        *((f"curves.{mechanism}.seconds.-1", 99.0) for mechanism in all_costs.GROWTHS),
        *((f"curves.{mechanism}.bytes.-1", 1e12) for mechanism in (*all_costs.LEANLY, "softmax")),
    ],
}


def spoiled(numbers: Any, path: str, value: Any) -> Any:
    """A copy with one number replaced; parts of the path are keys, or places in a list."""
    numbers = copy.deepcopy(numbers)
    *parents, last = path.split(".")
    place = numbers
    for part in parents:
        place = place[int(part)] if isinstance(place, list) else place[part]
    place[int(last) if isinstance(place, list) else last] = value
    return numbers


def every_check_fails(name, spoils):
    """What a figure found, spoiled in one place after the other: each is noticed, and every check fails once.

    One that fails already need not be spoiled.
    """
    code, numbers = module(name), recorded(name)["numbers"]
    before = {check.name: (check.ok, check.got) for check in code.checks(numbers)}
    failed = {check for check, (ok, _) in before.items() if not ok}
    for path, value in spoils:
        checks = code.checks(spoiled(numbers, path, value))
        now = {check.name for check in checks if not check.ok and (False, check.got) != before.get(check.name)}
        assert now, f"nothing notices that {path} is {value}"
        failed |= now
    assert failed == set(before)


def test_all_of_section_2_is_spoiled_above():
    assert [name for name in NAMES if name.startswith("2.")] == list(SPOILED)


@pytest.mark.parametrize("name", list(SPOILED))
def test_every_check_can_fail(name):
    every_check_fails(name, SPOILED[name])


# The parts --------------------------------------------------------------------------------------


def test_run_writes_three_files_and_names_what_fails(tmp_path, monkeypatch):
    code, old = module("2.2b"), recorded("2.2b")
    result = table.run("2.2b", tmp_path / "out", check=True)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["2.2b.json", "2.2b.png", "2.2b.svg"]
    assert json.loads((tmp_path / "out" / "2.2b.json").read_text(encoding="utf8")) == result
    assert result | {"made": old["made"]} == old
    assert result["made"]["digest"] == source.digest(table.text_of("2.2b"))
    assert None not in [result["made"][key] for key in ("regard", "date", "torch", "machine", "threads", "seeds")]
    drawn = table.run("2.2b", tmp_path, check=False)
    assert (drawn["holds"], drawn["verdict"]) == (None, "confirmed")
    monkeypatch.setattr(
        code, "checks", lambda numbers: [figure.above("larger", 1.0, 2.0), figure.above("less", 1.0, 0.0)]
    )
    result = table.run("2.2b", tmp_path, check=True)
    assert (result["verdict"], result["holds"], result["failed"]) == ("partly", False, ["larger"])
    monkeypatch.setattr(code, "checks", lambda numbers: [])
    result = table.run("2.2b", tmp_path, check=True)
    assert (result["verdict"], result["holds"], records.words(result)) == (None, None, "quoted")


def test_pictures_are_the_same_bytes_every_time(tmp_path):
    for folder in ("a", "b"):
        table.run("2.2", tmp_path / folder, check=False)
    for kind in ("png", "svg", "json"):
        assert (tmp_path / "a" / f"2.2.{kind}").read_bytes() == (tmp_path / "b" / f"2.2.{kind}").read_bytes()


def test_bounds_of_checks():
    assert figure.above("", 2.0, 1.0).ok
    assert not figure.above("", 1.0, 1.0).ok
    assert not figure.below("", 1.0, 1.0).ok
    assert figure.within("", 1.0, 1.0, 2.0).ok
    assert not figure.within("", 2.1, 1.0, 2.0).ok
    assert figure.close("", 1.05, 1.0, 0.1).ok
    assert not figure.close("", 0.8, 1.0, 0.1).ok
    assert not figure.equal("", 3, 4).ok
    assert not figure.above("", float("nan"), 0.0).ok
    assert not figure.below("", float("nan"), 0.0).ok
    assert not figure.within("", float("nan"), 0.0, 1.0).ok
    assert not figure.close("", float("nan"), 0.0, 1.0).ok


def test_the_verdict_follows_from_the_checks():
    good, bad = figure.above("a", 2.0, 1.0), figure.above("b", 1.0, 2.0)
    assert figure.verdict([good, good]) == "confirmed"
    assert figure.verdict([good, bad]) == "partly"
    assert figure.verdict([bad, bad]) == "contradicted"
    assert figure.verdict([]) is None
    assert figure.verdict([figure.aside(good)]) is None
    assert figure.verdict([good, figure.aside(bad)]) == "partly"
    assert figure.verdict([bad, figure.aside(good)]) == "contradicted"


def test_starts_that_agree_are_counted():
    four = figure.starts_above("a", [3.0, 2.0, 2.0, 0.5, 4.0], 1.0)
    assert (four.ok, four.seeds, four.got, four.expected) == (True, (4, 5), "3, 2, 2, 0.5, 4", "> 1 in most starts")
    half = figure.in_starts("b", [True, False])
    assert (half.ok, half.seeds, half.got) == (False, (1, 2), "1 of 2")
    assert figure.starts_below("c", [0.5, 0.5, 2.0], 1.0).seeds == (2, 3)
    assert figure.starts_at_least("c", [0.0, 0.5, -0.1], 0.0).seeds == (2, 3)
    assert figure.starts_at_most("c", [0.0, 0.5, -0.1], 0.0).seeds == (2, 3)
    assert figure.starts_within("d", [0.5, 1.5, float("nan")], 0.0, 1.0).seeds == (1, 3)
    assert figure.agreement([four, figure.equal("e", 1, 1)]) == "4 of 5"
    assert figure.agreement([four, half]) == "1 of 2"
    assert figure.agreement([figure.equal("e", 1, 1)]) == ""


FILE = """
'''A figure.'''
import math
TITLE, SEED, SEEDS = "A", 1, 2
TINT = "red"
SIZES = [1, 2]

def helper(x: int) -> int:
    return x + SIZES[0]

def compute():
    return {"n": helper(SEED)}

def draw(numbers):
    return TINT

def checks(numbers):
    return []
"""


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("A figure.", "Another.", True),
        ("import math", "import cmath", True),
        ("red", "blue", True),
        ("return []", "return [1]", True),
        ("x: int", "x: float", True),
        ("    return x", "    # why\n    assert x\n    return x", True),
        ("[1, 2]", "[1, 3]", False),
        ("x + SIZES", "x - SIZES", False),
        ("helper(SEED)", "helper(7)", False),
    ],
)
def test_the_digest_is_of_what_makes_the_numbers(old, new, same):
    assert (source.digest(FILE) == source.digest(FILE.replace(old, new))) == same


def test_the_seeds_of_the_starts():
    assert source.starts(FILE) == [1, 2]
    assert source.starts("SEED = 3") == [3]
    assert source.starts("SEED = 0\nSEEDS = range(2)") == [0, 1]
    assert source.starts("from other import SEEDS\nSEED = 0\nx = SEEDS") is None


def test_what_is_stale_is_told_and_judged_again_all_the_same(tmp_path, monkeypatch):
    old = recorded("2.2b")
    monkeypatch.setattr(records, "RESULTS", tmp_path)
    records.write(tmp_path / "2.2b.json", old | {"verdict": "partly", "made": old["made"] | {"digest": "0"}})
    assert table.row("2.2b")["stale"]
    assert recheck.rechecked("2.2b")[1] == "confirmed"
    assert recorded("2.2b") == old | {"made": old["made"] | {"digest": "0"}}


def test_plain_keeps_significant_digits():
    assert figure.plain(torch.tensor([[123456.0, 0.000123456], [1.0, -2.5]], dtype=torch.float64), 3) == [
        [123000.0, 0.000123],
        [1.0, -2.5],
    ]


def test_heatmaps_keep_their_scale_and_put_queries_in_rows():
    with style.font_family():
        axes = Figure().subplots()
        style.heatmap(axes, [[0.1, 0.2, 0.3], [0.0, 0.0, 0.1]], ["a", "b"], ["x", "y", "z"])
    mesh = axes.collections[0]
    assert (mesh.norm.vmin, mesh.norm.vmax) == (0, 1)
    assert mesh.norm(0.25) == pytest.approx(0.5)  # the square root
    assert [text.get_text() for text in axes.get_yticklabels()] == ["a", "b"]
    assert axes.get_ylim() == (2, 0)  # the first query on top


def test_more_weight_is_always_darker():
    tones = [0.2126 * r + 0.7152 * g + 0.0722 * b for r, g, b, _ in style.WEIGHTS(range(256))]
    assert all(later < earlier for earlier, later in pairwise(tones))


def test_measures_count_what_is_there():
    assert measure.cost_exponent([1, 2, 4], [3.0, 12.0, 48.0]) == pytest.approx(2.0)
    assert measure.count_operations(lambda: torch.ones(3, 5) @ torch.ones(5, 7)) == 2 * 3 * 5 * 7
    assert measure.peak_bytes(lambda: torch.ones(1000)) == 4000
    assert measure.peak_bytes(lambda: torch.ones(1000).exp().sum()) == 8000
    assert measure.time_fastest([lambda: torch.ones(10)], rounds=1)[0] > 0
    threads = torch.get_num_threads()
    measure.peak_bytes(lambda: None)
    assert torch.get_num_threads() == threads
