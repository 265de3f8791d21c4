"""Reading a config: every problem is named, nothing is guessed, nothing is turned into something else."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.nn.config import (
    above_zero,
    config_problems,
    not_above_zero,
    not_divided,
    not_one_of,
    not_positive,
    not_shares,
    parse,
    positive,
    refuse,
    shares,
)
from regard.nn.mechanisms import build_mixer, layer_choices, unknown_choices
from regard.nn.site import Site


@dataclass(frozen=True, kw_only=True)
class Small:
    dim: int
    rate: float = 0.1
    name: str = "a"
    tied: bool = True
    depth: int | None = None
    norm: Literal["pre", "post"] = "pre"
    sizes: tuple[int, ...] = ()
    choice: str | Mapping[str, Any] | tuple[Any, ...] = "softmax"


NUMBER = (int, float)
GOOD = [
    {"dim": 8},
    {"dim": 8, "rate": 1, "depth": None, "sizes": [1, 2]},
    {"dim": 8, "depth": 3, "norm": "post", "choice": {"kind": "x", "deep": {"er": [1]}}},
    {"dim": 8, "choice": ["a", {"kind": "b"}], "tied": False},
]


@pytest.mark.parametrize("data", GOOD)
def test_good(data: dict[str, Any]) -> None:
    config = parse(Small, data)
    for key, value in data.items():
        assert getattr(config, key) == (tuple(value) if isinstance(value, list) else value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dim": True}, "dim = True is not an integer"),
        ({"dim": 8.0}, "dim = 8.0 is not an integer"),
        ({"dim": "8"}, "dim = '8' is not an integer"),
        ({"dim": None}, "dim = None is not an integer"),
        ({"dim": [8]}, "dim = .* is not an integer"),
        ({"dim": 10**13}, "dim = 10000000000000 is too large"),
        ({"dim": -(10**13)}, "dim"),
        ({"dim": 10**500}, "dim = 1000.*[.][.][.] is too large"),
        ({"rate": float("nan")}, "rate = nan is not a number"),
        ({"rate": float("inf")}, "rate = inf is not a number"),
        ({"rate": -float("inf")}, "rate"),
        ({"rate": 10**500}, "rate = 1000.*[.][.][.] is too large"),
        ({"rate": False}, "rate = False is not a number"),
        ({"rate": "0.1"}, "rate"),
        ({"name": 3}, "name = 3 is not a string"),
        ({"tied": 1}, "tied = 1 is not true or false"),
        ({"tied": "true"}, "tied"),
        ({"depth": 1.5}, "depth = 1.5 is not an integer or null"),
        ({"depth": True}, "depth"),
        ({"norm": "Pre"}, "norm = 'Pre' is not one of 'pre', 'post'"),
        ({"norm": ["pre"]}, "norm"),
        ({"norm": {"pre": 1}}, "norm"),
        ({"sizes": [1, "2"]}, "sizes = .* is not a list of integers"),
        ({"sizes": 3}, "sizes"),
        ({"sizes": [True]}, "sizes"),
        ({"sizes": "12"}, "sizes"),
        ({"choice": 3}, "choice"),
        ({"choice": None}, "choice"),
        ({"deph": 3}, "unknown key 'deph'; did you mean 'depth'"),
        ({"zzzz": 3}, "unknown key 'zzzz'; valid keys are dim, rate"),
        ({3: 3}, "unknown key '3'"),
    ],
)
def test_bad(changes: dict[Any, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse(Small, {"dim": 8} | changes)


def test_all_problems_at_once() -> None:
    with pytest.raises(ValueError, match="dim is missing") as error:
        parse(Small, {"rate": "x", "nam": 1, "norm": 2})
    for part in ("rate = 'x'", "'nam'; did you mean 'name'", "norm = 2", "dim is missing"):
        assert part in str(error.value)


def test_a_field_that_no_file_can_hold() -> None:
    @dataclass
    class Odd:
        inner: set[int]

    with pytest.raises(TypeError, match="field of type"):
        parse(Odd, {"inner": {1}})


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*Small.__dataclass_fields__, "dimm", ""]), anything))
def test_anything_is_read_or_refused(data: dict[str, Any]) -> None:
    """Whatever a file holds, the only error is a ValueError; and what was read is what stood there."""
    try:
        config = parse(Small, data)
    except ValueError:
        return
    assert type(config.dim) is int
    assert type(config.tied) is bool
    assert isinstance(config.rate, NUMBER)
    assert config.rate == config.rate
    for key, value in data.items():
        assert getattr(config, key) == (tuple(value) if isinstance(value, list) else value)


@given(anything)
def test_any_choice_of_attention_is_built_or_refused(choice: Any) -> None:
    for one in [choice, {"kind": choice}, {"kind": "top-k", "keep": choice}]:
        try:
            build_mixer(one, Site(dim=8, heads=2))
        except ValueError:
            continue


@dataclass(frozen=True, kw_only=True)
class Checked:
    dim: int | None = 8
    heads: int | None = 2
    depth: int | None = None
    dropout: float | None = 0.0
    act: str | None = "relu"
    attention: Any = "softmax"

    def __post_init__(self) -> None:
        refuse(
            not_positive(self, "dim", "depth", "heads"),
            not_above_zero(self, "dim"),
            not_shares(self, "dropout"),
            not_divided(self, "dim", "heads"),
            not_one_of(["relu", "gelu"], self, "act"),
            unknown_choices(self, "attention"),
        )


@pytest.mark.parametrize(
    ("changes", "problems"),
    [
        ({}, []),
        ({"dim": 9}, ["dim = 9 is not a multiple of heads = 2"]),
        ({"dim": 0}, ["dim = 0 must be at least 1", "dim = 0 must be greater than 0"]),
        ({"dim": -3}, ["dim = -3 must be at least 1", "dim = -3 must be greater than 0"]),
        ({"heads": 0}, ["heads = 0 must be at least 1"]),
        ({"heads": -3}, ["heads = -3 must be at least 1"]),
        ({"depth": 0}, ["depth = 0 must be at least 1"]),
        ({"dropout": 1.0}, ["dropout = 1.0 must be at least 0 and less than 1"]),
        ({"dropout": -0.1}, ["dropout = -0.1 must be at least 0 and less than 1"]),
        ({"dropout": float("nan")}, ["dropout = nan must be at least 0 and less than 1"]),
        ({"act": "gellu"}, ["act = 'gellu' is not one of relu, gelu; did you mean 'gelu'?"]),
        ({"act": "x"}, ["act = 'x' is not one of relu, gelu"]),
        ({"attention": []}, ["attention is an empty list; it needs at least one name"]),
        (
            {"attention": ["dot", "dott", "dott", ("dot",)]},
            ["'dott'; did you mean 'dot'?", "unknown attention ('dot',)"],
        ),
        (
            {"attention": {"kind": "top-k", "kep": 1, "keep": "x"}},
            ["'top-k': keep = 'x' is not an integer; unknown key 'kep'"],
        ),
        ({"dim": None, "heads": None, "dropout": None, "act": None, "attention": None}, []),
    ],
)
def test_checks(changes: dict[str, Any], problems: list[str]) -> None:
    try:
        Checked(**changes)
        found = []
    except ValueError as error:
        found = str(error).split("\n")
    assert len(found) == len(problems)
    assert all(problem in line for problem, line in zip(problems, found, strict=True))


def test_impossible_values_are_told_beside_unknown_keys_and_wrong_types() -> None:
    """Nothing follows from a value that could not be read: 8 heads are not held against a default width."""
    data = {"dimm": 3, "dim": "x", "heads": 3, "depth": 0, "act": "rellu", "attention": "sofmax"}
    with pytest.raises(ValueError, match="unknown key") as error:
        parse(Checked, data)
    lines = str(error.value).split("\n")
    told = [
        "'dimm'; did you mean 'dim'?",
        "dim = 'x'",
        "depth = 0 must be at least 1",
        "did you mean 'relu'?",
        "did you mean 'softmax'?",
    ]
    assert len(lines) == len(told)
    for part in told:
        assert sum(part in line for line in lines) == 1
    with pytest.raises(ValueError, match="dim = 8 is not a multiple of heads = 3"):
        parse(Checked, {"heads": 3})
    assert config_problems(Checked, {"heads": 3}) == []


def test_a_check_that_needs_what_could_not_be_read() -> None:
    @dataclass
    class Plain:
        dim: int = 3

        def __post_init__(self) -> None:
            if self.dim > 3:
                raise ValueError("too much")

    with pytest.raises(ValueError, match="dim = 'x' is not an integer"):
        parse(Plain, {"dim": "x"})
    with pytest.raises(ValueError, match="too much"):
        parse(Plain, {"dim": 4})


def test_a_default_that_is_made() -> None:
    @dataclass
    class Made:
        table: Mapping[str, Any] = field(default_factory=lambda: {"dim": 3})

        def __post_init__(self) -> None:
            if "dim" not in self.table:
                raise ValueError("no dim")

    assert parse(Made, {}).table == {"dim": 3}
    with pytest.raises(ValueError, match="no dim"):
        parse(Made, {"table": {}})


def test_single_checks_raise() -> None:
    for check, name in ((positive, "dim"), (above_zero, "dim"), (shares, "dropout")):
        check(Small(dim=1), "depth")  # None
        with pytest.raises(ValueError, match=f"{name} = -1 must be"):
            check(SimpleNamespace(dim=-1, dropout=-1), name)


def test_a_word_that_is_near() -> None:
    with pytest.raises(ValueError, match="norm = 'pst' is not one of 'pre', 'post'; did you mean 'post'"):
        parse(Small, {"dim": 8, "norm": "pst"})


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ("sofmax", "unknown attention 'sofmax'; did you mean 'softmax'"),
        ({"kind": "top-k", "kep": 3}, "attention 'top-k': unknown key 'kep'; did you mean 'keep'"),
        ({"kind": "top-k", "keep": 0}, "must be at least 1, got 0"),
        ({"kind": "top-k", "keep": 2.0}, "keep = 2.0 is not an integer"),
        ({"kind": "local-p", "window": 0}, "got 0"),
        ({"kind": "local-p", "window": -2}, "got -2"),
        ({"kind": "softmax", "scale": "x"}, "scale = 'x' is not a number or null"),
        ("SDPA", "unknown attention 'SDPA'; use softmax instead, which already uses the fused"),
        ({"keep": 3}, "unknown attention {'keep': 3}; valid names are"),
        ({"kind": ["softmax"]}, "unknown attention"),
        ({}, "unknown attention {}; valid names are softmax"),
    ],
)
def test_a_bad_choice_of_attention(choice: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build_mixer(choice, Site(dim=8, heads=2))


@pytest.mark.parametrize("choice", [{"kind": "top-k", "keep": 1}, {"kind": "local-p", "window": 1}])
def test_the_smallest_settings(choice: Any) -> None:
    assert build_mixer(choice, Site(dim=8, heads=2)) is not None


def test_several_attentions_take_turns() -> None:
    assert layer_choices("a", 3) == ["a", "a", "a"]
    assert layer_choices(("a", {"kind": "b"}), 3) == ["a", {"kind": "b"}, "a"]
    with pytest.raises(ValueError, match="empty list"):
        layer_choices((), 3)
