"""Run files are read strictly: defaults, kinds, every problem at once, overrides."""

from dataclasses import dataclass
from typing import Literal

import pytest

from regard.train.runfile import read, required_setting, setting
from tests.train.runfiles import LEAST, SGD, AdamW, Data, Deep, Run, Train, problems


def test_defaults_and_what_the_file_says() -> None:
    run = read(
        Run,
        """
        name = "ours"
        [train]
        steps = 5
        deep.letters = ["x", "y"]
        [data]
        train = "a.tsv"
        [model]
        depth = 3
        """,
        "run.toml",
    )
    assert run.name == "ours"
    assert run.train == Train(steps=5, deep=Deep(ratio=0.25, letters=("x", "y")))
    assert run.data == Data(train="a.tsv")
    assert run.model == {"dim": 64, "depth": 3}
    assert run.optimizer == AdamW(rate=3e-4)
    assert run.smoke is None


def test_whole_numbers_become_floats_and_lists_tuples() -> None:
    run = read(
        Run, LEAST + "optimizer.betas = [0, 1]\ntrain.clip = 2\ndata.attention = ['a', {kind = 'b'}]", "run.toml"
    )
    assert isinstance(run.optimizer, AdamW)
    assert [type(beta) for beta in run.optimizer.betas] == [float, float]
    assert type(run.train.clip) is float
    assert run.data.attention == ("a", {"kind": "b"})


def test_kinds() -> None:
    def optimizer(text: str, *overrides: str) -> AdamW | SGD:
        return read(Run, LEAST + text, "run.toml", overrides).optimizer

    assert optimizer("[optimizer]\nbetas = []") == AdamW(rate=3e-4, betas=())  # the default's kind, and what it says
    assert optimizer("[optimizer]\nkind = 'sgd'\nmomentum = 0.5") == SGD(momentum=0.5)
    assert optimizer("optimizer = 'sgd'") == SGD()
    assert optimizer("[optimizer]\nbetas = []", "optimizer=sgd", "optimizer.momentum=0.9") == SGD(momentum=0.9)
    assert problems(LEAST + "\n[optimizer]\nkind = 'adam'") == [
        "run.toml:4: optimizer.kind: 'adam' is not one of 'adamw', 'sgd'; did you mean 'adamw'?"
    ]
    assert problems(LEAST + "[optimizer]\nkind = 'sgd'\nbetas = []") == [
        "run.toml:4: optimizer.betas: unknown key; optimizer 'sgd' has no such setting; "
        "valid keys are kind, rate, momentum"
    ]
    assert problems(LEAST + "optimizer = {kind = 'x', rat = 1, lr = 2, betas = []}\n") == [  # all in one go
        "run.toml:2: optimizer.kind: 'x' is not one of 'adamw', 'sgd'",
        "run.toml:2: optimizer.rat: unknown key; did you mean 'rate'?",
        "run.toml:2: optimizer.lr: unknown key; use optimizer.rate instead",
    ]
    assert problems(LEAST + "optimizer = 5\n") == ["run.toml:2: optimizer: 5 is not a table"]
    assert problems(LEAST + "optimizer.kind = [1]\n") == [
        "run.toml:2: optimizer.kind: [1] is not one of 'adamw', 'sgd'"
    ]


def test_a_kind_without_default_must_be_named() -> None:
    @dataclass(frozen=True)
    class Bare:
        optimizer: AdamW | SGD = required_setting("how the weights move")

    assert problems("[optimizer]\nrate = 1", kind=Bare) == [
        "run.toml:1: optimizer.kind: missing: one of 'adamw', 'sgd'"
    ]
    assert problems("", kind=Bare) == ["run.toml: optimizer: missing: a table; how the weights move"]


def test_none_where_it_is_allowed() -> None:
    run = read(
        Run, LEAST + 'train.clip = "none"\ndata.note = "none"', "run.toml", ["train.patience=none", "smoke=none"]
    )
    assert run.train.clip is None
    assert run.train.patience is None
    assert run.smoke is None
    assert run.data.note == "none"  # a text is a text
    assert problems(LEAST + 'seed = "none"') == ["run.toml:2: seed: 'none' is not an integer"]
    assert problems(LEAST + 'train.clip = "nan"') == ["run.toml:2: train.clip: 'nan' is not a number"]


def test_all_problems_at_once_in_the_order_of_the_file() -> None:
    text = """\
        seed = "x"
        [train]
        stesp = 5
        steps = 0
        precision = "bfloat61"
        compiled = 1
        [train.deep]
        ratio = 1.5
        letters = ["a", 1]
        [smoke]
        [model]
        when = 2020-01-01
        list = [1,
            inf]
        [trian]
        """
    assert problems(text, "train.clip=fast", "seeds=3") == [
        "run.toml: data.train: missing: a string; the file to learn from",
        "run.toml:1: seed: 'x' is not an integer",
        "run.toml:3: train.stesp: unknown key; did you mean 'steps'?",
        "run.toml:4: train: steps = 0 must be at least 1",
        "run.toml:5: train.precision: 'bfloat61' is not one of 'float32', 'bfloat16'; did you mean 'bfloat16'?",
        "run.toml:6: train.compiled: 1 is not true or false",
        "run.toml:8: train.deep: ratio = 1.5 must be at least 0 and less than 1",
        "run.toml:9: train.deep.letters: ['a', 1] is not a list of strings",
        "run.toml:10: smoke.factor: missing: a number; below which share of its start the loss must fall",
        "run.toml:12: model.when: 2020-01-01 is a date or time; put it in quotes to use it as a string",
        "run.toml:14: model.list[1]: inf is not a finite number",
        "run.toml:15: trian: unknown key; did you mean 'train'?",
        "override seeds=3: seeds: unknown key; did you mean 'seed'?",
        "override train.clip=fast: train.clip: 'fast' is not a number",
    ]


def test_a_key_in_the_wrong_table() -> None:
    assert problems(LEAST + "[train]\nmomentum = 0.5\n") == [
        "run.toml:3: train.momentum: unknown key; optimizer 'adamw' has no such setting "
        "(other kinds have optimizer.momentum)"
    ]
    assert problems(LEAST + "[train]\nmomentum = 0.5\n[optimizer]\nkind = 'sgd'\n") == [
        "run.toml:3: train.momentum: unknown key; did you mean 'optimizer.momentum'?"
    ]
    assert problems(LEAST + "[train]\nxyz = 0.5\n")[0].endswith(
        "unknown key; valid keys are steps, clip, patience, precision, compiled, deep"
    )


def test_checks_of_a_table_and_of_several() -> None:
    assert problems(LEAST + "[train]\nsteps = 3\npatience = 4") == [
        "run.toml:4: train: patience is longer than all steps"
    ]
    assert problems(LEAST + "seed = 2000") == ["run.toml:2: seed = is above all steps"]
    # with the one table unread, the check of both is left out; what is wrong in the table is told
    assert problems(LEAST + "seed = 2000\ntrain.steps = 'x'") == ["run.toml:3: train.steps: 'x' is not an integer"]


def test_a_fault_of_a_check_is_not_hidden() -> None:
    @dataclass(frozen=True)
    class Broken:
        size: int = setting(1, "a size")

        def __post_init__(self) -> None:
            self.size.nonsense()  # type: ignore[attr-defined]

    with pytest.raises(AttributeError):
        read(Broken, "", "run.toml")


def test_many_problems() -> None:
    lines = problems(LEAST + "".join(f"x{i} = 1\n" for i in range(150)))
    assert len(lines) == 101
    assert lines[99].startswith("run.toml:101: x99: unknown key; valid keys are name, seed")
    assert lines[100] == "and 50 more"


@pytest.mark.parametrize(
    ("override", "key", "value"),
    [
        ("model.x=2000", "x", 2000),
        ("model.x=1_000", "x", 1000),
        ("model.x = 0.5", "x", 0.5),
        ("model.x=true", "x", True),
        ("model.x=performer", "x", "performer"),
        ("model.x=runs/a b.tsv", "x", "runs/a b.tsv"),
        ("model.x=a=b", "x", "a=b"),
        ("model.x=", "x", ""),
        ('model.x="2000"', "x", "2000"),
        ("model.x=[1, 2]", "x", [1, 2]),
        ('model.x={kind = "lsh", rounds = 4}', "x", {"kind": "lsh", "rounds": 4}),
        ('model."a=b"=1', "a=b", 1),
        ("model.x=1\n[train]\nsteps = 5", "x", "1\n[train]\nsteps = 5"),  # one value, not a way to write a file
        ("model.dim=7", "dim", 7),
    ],
)
def test_an_override(override: str, key: str, value: object) -> None:
    run = read(Run, LEAST + "[model]\nx = 'before'", "run.toml", [override])
    assert run.model == {"dim": 64, "x": "before"} | {key: value}
    assert run.train == Train()


@pytest.mark.parametrize("overrides", [("optimizer.rate=0.1", "optimizer=AdamWW"), ("optimizer=AdamWW",)])
def test_the_override_that_names_a_wrong_kind_is_blamed(overrides: tuple[str, ...]) -> None:
    wrong = "optimizer.kind: 'AdamWW' is not one of 'adamw', 'sgd'; did you mean 'adamw'?"
    assert problems(LEAST, *overrides) == [f"override optimizer=AdamWW: {wrong}"]
    assert problems(LEAST + "optimizer = 'AdamWW'", *overrides[:-1], "optimizer.rate=0.2") == [f"run.toml:2: {wrong}"]


def test_a_name_in_capitals_is_near() -> None:
    @dataclass(frozen=True)
    class Adam:
        kind: Literal["adam"] = "adam"

    @dataclass(frozen=True)
    class Two:
        optimizer: Adam | AdamW = setting(Adam(), "how the weights move")

    (line,) = problems("optimizer = 'AdamW'", kind=Two)
    assert line.endswith("'AdamW' is not one of 'adam', 'adamw'; did you mean 'adamw'?")


def test_a_text_where_a_list_belongs() -> None:
    """One file needs no brackets, in the file or in a shell; no name at all is none."""
    assert read(Run, LEAST + 'train.deep.letters = "größe.csv"', "run.toml", []).train.deep.letters == ("größe.csv",)
    assert read(Run, LEAST, "run.toml", ["train.deep.letters=a b.csv"]).train.deep.letters == ("a b.csv",)
    (line,) = problems(LEAST + 'train.deep.letters = ""')
    assert line.endswith("is not a list of strings")


def test_overrides_come_before_checks_and_the_last_one_counts() -> None:
    run = read(Run, LEAST + "train.steps = 'x'", "run.toml", ["train.steps=5", "train.steps=6", "data.train=b.tsv"])
    assert run.train.steps == 6
    assert run.data.train == "b.tsv"
    run = read(Run, LEAST, "run.toml", ["model.attention=performer", "model.attention.features=8"])
    assert run.model == {"dim": 64, "attention": {"kind": "performer", "features": 8}}
    run = read(Run, LEAST + "[train]\ndeep = {x = 1}", "run.toml", ["train.deep={}"])
    assert run.train.deep == Deep(ratio=0.25)


def test_a_text_may_look_like_a_number() -> None:
    run = read(Run, LEAST, "run.toml", ["name=2024", "data.note=2024-01-05"])
    assert (run.name, run.data.note) == ("2024", "2024-01-05")
    assert problems(LEAST + "name = 2024") == ["run.toml:2: name: 2024 is not a string"]  # a file says what it means


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("train.stesp=3", "override train.stesp=3: train.stesp: unknown key; did you mean 'steps'?"),
        ("steps=3", "override steps=3: steps: unknown key; did you mean 'train.steps'?"),
        ("train.steps=0", "override train.steps=0: train: steps = 0 must be at least 1"),
        ("train.steps", "override train.steps: expected key=value, such as train.steps=2000"),
        ("=3", "override =3: expected key=value, such as train.steps=2000"),
        ("a b=3", "override a b=3: expected key=value, such as train.steps=2000"),
        ("a." * 40 + "b=3", f"override {'a.' * 40}b=3: expected key=value, such as train.steps=2000"),
        ("seed.x=3", "override seed.x=3: seed.x: seed is not a table"),
        ("train=3", "override train=3: train: 3 is not a table"),
        ("train={stesp = 3}", "override train={stesp = 3}: train.stesp: unknown key; did you mean 'steps'?"),
        ("model.x=nan", "override model.x=nan: model.x: nan is not a finite number"),
        ("se\x1bd=3", r"override 'se\x1bd=3': expected key=value, such as train.steps=2000"),
        ('"se\x1bd"=3', r"""override '"se\x1bd"=3': 'se\x1bd': unknown key; did you mean 'seed'?"""),
        ("name=\udcff", r"override 'name=\udcff': invalid Unicode text"),
    ],
)
def test_a_wrong_override(override: str, line: str) -> None:
    assert problems(LEAST + "seed = 1\n[train]\nsteps = 5", override) == [line]


@pytest.mark.parametrize("value", ["[softmax, performer]", '"open', "{kind = lsh}", "[" * 5000])
def test_an_override_that_is_no_toml(value: str) -> None:
    (line,) = problems(LEAST, f"model.attention={value}")
    assert line.startswith("override ")
    assert len(line) < 400
    assert line.endswith("; strings in a list or a table need quotes")
