"""The examples of docs/extending.md, run from outside of the package; and what is refused without them."""

import importlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard import plugins
from regard.cli.app import main
from regard.contracts import reach
from regard.contracts.report import Contract, verdict_of
from regard.errors import InputError
from regard.folders import load
from regard.plugins import PluginSource, source_digest
from tests.plugins.conftest import examples

LINES = "".join(f"the {one} sees a {other}\n" for one in ("dog", "cat", "bird") for other in ("fish", "cow", "hen"))
RUN = """
folder = "{folder}"
[task]
kind = "{task}"
[data]
kind = "text"
train = ["text.txt"]
share = 0.2
budget = 64
longest = 10
vocabulary = {{kind = "words", size = 40}}
[model]
name = "gpt-tiny"
length = 16
dim = 16
depth = 1
heads = 2
hidden = 16
attention = "{attention}"
[train]
steps = 2
save = 2
evaluate = 2
"""


def run_file(folder: Path, task: str = "language", attention: str = "laplace") -> tuple[Path, Path]:
    (folder / "text.txt").write_text(LINES)
    file, run = folder / "run.toml", folder / "run"
    file.write_text(RUN.format(folder=run, task=task, attention=attention))
    return file, run


def test_every_subject_has_a_whole_example() -> None:
    subjects = ["attention", "mixer", "text_family", "family", "task", "data", "analysis", "figure"]
    assert list(examples()) == [f"{name}.py" for name in subjects]


@pytest.mark.parametrize("name", ["mixer", "analysis", "figure", "data"])
def test_an_example_keeps_its_contracts(folder: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["contract", str(folder / f"{name}.py"), "--json"])
    told = json.loads(capsys.readouterr().out)
    assert [verdict for verdict in told if not verdict["holds"]] == []
    assert code == 0
    assert len(told) >= 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["attention", "text_family", "family", "task"])
def test_a_larger_example_keeps_its_contracts(folder: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["contract", str(folder / f"{name}.py")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(line.startswith(("holds  ", "not tried  ")) for line in lines)
    assert len(lines) > 2


# What an attention does that is broken in one way, and what must be said of it.
BROKEN = {
    "the future": ("mask.dense(q.shape[-2]", "Mask(keys=mask.keys, pairs=mask.pairs).dense(q.shape[-2]", "later keys"),
    "padding": ("mask.dense(q.shape[-2]", "Mask(mask.causal, mask.start).dense(q.shape[-2]", "a nonzero weight"),
    "sums": ("return masked_softmax(", "return 2 * masked_softmax(", "the sum of each row of weights"),
    "bias": ("** 0.5, bias)\n        return", "** 0.5, None)\n        return", "ignores the bias"),
    "one head": ("- repeat_heads(k,", "- repeat_heads(k[:, :1],", "does not depend on its own keys"),
    "groups": ("repeat_heads(k, q.shape[-3])", "k", "grouped heads share keys"),
}  # fmt: skip


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_attention_fails_in_words(folder: Path, what: str, capsys: pytest.CaptureFixture[str]) -> None:
    old, new, told = BROKEN[what]
    text = examples()["attention.py"]
    assert text.count(old) == 1
    (folder / "attention.py").write_text(text.replace(old, new))
    assert main(["contract", str(folder / "attention.py"), "--json"]) == 1
    failed = [one for one in json.loads(capsys.readouterr().out) if not one["holds"]]
    assert any(told in f"{one['contract']} {one['words']}" for one in failed)
    assert all(one["words"] for one in failed)


def test_a_mixer_is_tried_in_the_models_that_take_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without dropout of weights, of which it has none; what no file has is missed after loading."""
    text = examples()["mixer.py"]
    assert main(["contract", str(folder / "mixer.py"), "--json"]) == 0
    told = [one for one in json.loads(capsys.readouterr().out) if "saved, loaded and trained" in one["contract"]]
    assert [(one["contract"].split()[1], one["tried"]) for one in told] == [
        ("gpt", False),
        ("bert", True),
        ("vit", True),
    ]
    plugins.forget("mixer.py")
    here, mean = "self.map = nn.Linear(dim, dim)", "x.mean(-2, keepdim=True)"
    assert (text.count(here), text.count(mean)) == (1, 1)
    drawn = f'{here}\n        self.register_buffer("drawn", torch.rand(1), persistent=False)'
    changed = text.replace(here, drawn).replace(mean, f"{mean} * self.drawn")
    (folder / "mixer.py").write_text(f"import torch\n{changed}")
    assert main(["contract", str(folder / "mixer.py"), "--json"]) == 1
    failed = [
        one["words"] for one in json.loads(capsys.readouterr().out) if "saved" in one["contract"] and not one["holds"]
    ]
    assert len(failed) == 2
    assert all("these buffers have no values" in words and "drawn; they are registered" in words for words in failed)


def test_a_task_that_sums_means_fails_in_words(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = examples()["task.py"]
    (old,) = re.findall(r"Term\((\w+)\.sum\(\)", text)[:1]
    (folder / "task.py").write_text(text.replace(f"Term({old}.sum()", f"Term({old}.mean()"))
    assert main(["contract", str(folder / "task.py"), "--json"]) == 1
    failed = [one for one in json.loads(capsys.readouterr().out) if not one["holds"]]
    assert [one["contract"] for one in failed] == ["splitting a batch does not change its loss"]
    assert "with the batch in two parts" in failed[0]["words"]


def test_contracts_are_asked_without_the_extra_for_serving(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "regard.serve.model_list", None)  # as where fastapi is missing
    assert reach.shelf_of(Path()) is None
    verdict = verdict_of("vit", Contract("it is served", lambda: reach.served("vit")))
    assert (verdict.holds, verdict.words) == (True, "the web page requires the extra [serve]")


def test_a_file_that_exits_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "leaves.py").write_text("raise SystemExit(0)\n")
    assert main(["contract", str(tmp_path / "leaves.py")]) == 2
    assert "the plug-in cannot be loaded" in capsys.readouterr().err


def test_what_fails_is_told_with_numbers_and_where(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new, _ = BROKEN["the future"]
    (folder / "attention.py").write_text(examples()["attention.py"].replace(old, new))
    assert main(["contract", str(folder / "attention.py")]) == 1
    told = capsys.readouterr().out
    assert "FAILS  attention 'laplace': " in told
    assert "holds  attention 'laplace': " in told
    assert "expected 0 (mask 'causal', 5 queries and 5 keys)" in told


@pytest.fixture
def begun(folder: Path) -> Path:
    """A run with the attention of the document; its tables are as before."""
    file, run = run_file(folder)
    assert main(["--plugin", str(folder / "attention.py"), "train", str(file)]) == 0
    plugins.forget("attention.py")
    return run


def told_by(error: InputError) -> str:
    return " ".join((error.what, error.got, error.expected, error.fix))


def test_a_run_is_resumed_and_measured_with_its_plugin_alone(
    begun: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded = json.loads((begun / "plugins.json").read_text())["plugins"]
    assert [one["name"] for one in recorded] == ["attention.py"]
    for verb in ("resume", "evaluate"):
        capsys.readouterr()
        assert main([verb, str(begun)]) == 2
        told = capsys.readouterr().err
        assert "the plug-in attention.py is required" in told
        assert "--plugin PATH/attention.py" in told
    given = [f"--plugin={folder / 'attention.py'}"]
    assert main(["resume", str(begun), *given]) == 0
    assert main([*given, "evaluate", str(begun), "--split", "held_out"]) == 0


def test_a_changed_plugin_is_refused_and_recorded_on_purpose(begun: Path, folder: Path) -> None:
    file = folder / "attention.py"
    before = json.loads((begun / "model" / "regard.json").read_text())["plugins"][0]["sha256"]
    with pytest.raises(InputError, match=r"attention\.py is required but not loaded"):
        load(begun)
    file.write_text(file.read_text() + "# a changed one\n")
    after = plugins.load_file(file).sha256
    for refused in (lambda: load(begun), lambda: main(["resume", str(begun)]) == 2 and load(begun / "model")):
        with pytest.raises(InputError, match="differs from the one recorded") as error:
            refused()
        assert before in told_by(error.value)
        assert after in told_by(error.value)
        assert "convert" in told_by(error.value)
    regard.convert(begun / "model", folder / "anew")
    assert json.loads((folder / "anew" / "regard.json").read_text())["plugins"][0]["sha256"] == after
    again = load(folder / "anew")
    assert torch.equal(next(again.parameters()), next(load(folder / "anew").parameters()))


def test_a_run_without_its_plugin_is_not_served_and_the_terminal_tells(begun: Path, folder: Path) -> None:
    from regard.serve.model_list import ModelShelf

    shelf = ModelShelf(begun.parent)
    assert not [row for row in shelf.rows() if row.source == "run"]
    (line,) = shelf.left_out()
    assert "attention.py" in line
    assert "--plugin" in line
    plugins.load_file(folder / "attention.py")
    assert [row.name for row in shelf.rows() if row.source == "run"] == ["run:run"]
    assert not shelf.left_out()
    assert shelf.get("run:run").model.config.attention == "laplace"


def test_what_uses_no_row_of_a_plugin_records_none(folder: Path, tmp_path: Path) -> None:
    plugins.load_file(folder / "attention.py")
    for attention in ("softmax", ("softmax", {"kind": "laplace", "sharpness": 2.0})):
        place = tmp_path / str(len(str(attention)))
        regard.save(regard.build("gpt-tiny", depth=2, dim=16, heads=2, vocab=9, attention=attention), place)
        assert ("plugins" in json.loads((place / "regard.json").read_text())) == (attention != "softmax")


@pytest.mark.parametrize(
    "recorded",
    ["attention.py", [3], [{"name": "a.py"}], [{"name": "a.py", "sha256": 3}], [{"name": "", "sha256": ""}],
     [{"name": "a.py", "sha256": "", "code": "import os"}], {"name": "a.py", "sha256": ""}],
)  # fmt: skip
def test_a_folder_whose_plugins_cannot_be_read_is_refused(tmp_path: Path, recorded: Any) -> None:
    regard.save(regard.build("gpt-tiny", depth=1, dim=16, heads=2, vocab=9), tmp_path / "model")
    file = tmp_path / "model" / "regard.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"plugins": recorded}))
    with pytest.raises(InputError, match="invalid list of plug-ins"):
        load(tmp_path / "model")


def test_a_plugin_beside_a_folder_is_never_run(begun: Path) -> None:
    """Neither that of the model's folder nor that of the run's, whatever it is called."""
    for place in (begun, begun / "model"):
        (place / "attention.py").write_text("raise SystemExit('this ran')\n")
    with pytest.raises(InputError, match="not loaded"):
        load(begun)
    assert main(["resume", str(begun)]) == 2


def test_a_task_of_a_file_is_trained_and_its_model_needs_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, run = run_file(folder, "calm", "softmax")
    given = ["--plugin", str(folder / "task.py")]
    assert main([*given, "init", "calm"]) == 0
    assert 'kind = "calm"' in capsys.readouterr().out
    assert main([*given, "train", str(file)]) == 0
    assert [one["name"] for one in json.loads((run / "plugins.json").read_text())["plugins"]] == ["task.py"]
    plugins.forget("task.py")
    with pytest.raises(InputError, match=r"task\.py"):
        load(run)
    assert main(["train", str(file), f"folder={folder / 'other'}"]) == 2
    assert "calm" in capsys.readouterr().err


def test_a_family_of_a_file_reads_foreign_checkpoints(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from safetensors.torch import save_file

    theirs = folder / "theirs"
    theirs.mkdir()
    told = {"model_type": "pixel_regression", "image_size": 4, "num_channels": 3, "num_classes": 5}
    (theirs / "config.json").write_text(json.dumps(told))
    weight = torch.randn(5, 48)
    save_file({"classifier.weight": weight, "classifier.bias": torch.zeros(5)}, theirs / "model.safetensors")
    assert main(["convert", str(theirs), str(folder / "ours")]) == 2
    assert "pixel_regression" in capsys.readouterr().err
    assert main(["--plugin", str(folder / "family.py"), "convert", str(theirs), str(folder / "ours")]) == 0
    assert torch.equal(load(folder / "ours").state_dict()["head.weight"], weight)
    regard.export(folder / "ours", folder / "back")
    assert json.loads((folder / "back" / "config.json").read_text()).items() >= told.items()
    plugins.forget("family.py")
    with pytest.raises(InputError, match=r"family\.py"):
        load(folder / "ours")


def test_a_figure_of_a_file_is_drawn(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["figure", "scaling", "--check", "--out", str(folder / "drawn")]
    assert main(["--plugin", str(folder / "figure.py"), *words]) == 0
    assert "scaling\tconfirmed" in capsys.readouterr().out
    assert {path.suffix for path in (folder / "drawn").iterdir()} == {".png", ".svg", ".json"}


def test_an_analysis_of_a_file_can_be_asked(folder: Path) -> None:
    from regard.contracts.reach import model_of
    from regard.look.analyses import AnalysisRequest, run_analysis

    plugins.load_file(folder / "analysis.py")
    told = run_analysis(model_of("bert").look("the dog sees a cat"), "entropy", AnalysisRequest())
    assert told["unit"] == "bits"
    assert all(0 <= bits <= 4 for heads in told["sites"].values() for bits in heads)


def test_a_file_that_registers_nothing_has_no_contracts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "empty.py").write_text("")
    assert main(["contract", str(folder / "empty.py")]) == 2
    assert "registers nothing" in capsys.readouterr().err


def install(folder: Path, name: str, points: dict[str, str], modules: dict[str, str]) -> None:
    """What pip would leave in a folder of installed packages: modules, and what a distribution says of itself."""
    told = folder / f"{name.replace('-', '_')}-1.2.dist-info"
    told.mkdir(parents=True)
    (told / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
    lines = [f"{point} = {place}" for point, place in points.items()]
    (told / "entry_points.txt").write_text("\n".join(["[regard.plugins]", *lines]) + "\n")
    for module, text in modules.items():
        (folder / f"{module}.py").write_text(text)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two packages with rows, one that cannot be imported, and one that registers none. Another that is no plug-in has
    no group."""
    mixer, analysis = examples()["mixer.py"], examples()["analysis.py"]
    both = {"mixing": "installed_mixer", "looking": "installed_analysis:add"}
    (last,) = re.findall(r"^regard\.register\(.*", analysis, re.MULTILINE)
    called = analysis.replace(last, f"def add():\n    {last}")
    site = tmp_path / "site"
    install(site, "Regard-Both", both, {"installed_mixer": mixer, "installed_analysis": called})
    one = examples()["figure.py"].replace('name="scaling"', 'name="scaled"')
    install(site, "regard-one", {"drawing": "installed_figure"}, {"installed_figure": one})
    install(site, "regard-bad", {"bad": "installed_bad"}, {"installed_bad": "raise RuntimeError('torn')"})
    install(site, "regard-none", {"none": "installed_none"}, {"installed_none": ""})
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setattr(plugins, "ASKED", [])
    yield
    for name in [name for name in sys.modules if name.startswith("installed_")]:
        del sys.modules[name]


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("name", ["Regard-Both", "regard_both"])
def test_the_rows_of_an_installed_package_are_checked(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Of all of its modules, and of no other package."""
    assert main(["contract", name, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {one["subject"] for one in told} == {"attention 'average'", "analysis 'entropy'"}
    assert all(one["holds"] for one in told)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("regard-bad", ("the plug-in package cannot be loaded", "installed_bad: RuntimeError: torn")),
        ("regard-none", ("the plug-in registers nothing", "entry points")),
        (
            "numpy",
            ("no installed package of this name", "regard-bad, regard-one, Regard-Both, regard-none", "give its path"),
        ),
        ("", ("no installed package of this name",)),
    ],
)
def test_a_package_without_rows_is_refused(
    name: str, told: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["contract", name]) == 2
    error = capsys.readouterr().err
    assert all(words in error for words in told), error


def test_rows_that_a_package_imports_at_once_are_those_of_its_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package whose __init__.py imports its rows registers them as soon as any of its modules is imported."""
    install(tmp_path, "regard-whole", {"rows": "installed_whole.rows"}, {})
    package = tmp_path / "installed_whole"
    package.mkdir()
    (package / "__init__.py").write_text("from installed_whole import rows\n")
    (package / "rows.py").write_text(examples()["mixer.py"])
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(plugins, "ASKED", [])
    (source,) = plugins.load_package("regard-whole")
    assert plugins.plugin_of("attention", "average") == source
    rows = package / "rows.py"
    assert source == PluginSource("regard-whole", source_digest(rows.read_bytes()), "1.2", str(rows))
    for name in [name for name in sys.modules if name.startswith("installed_whole")]:
        del sys.modules[name]


@pytest.mark.usefixtures("installed")
def test_a_contract_that_a_package_breaks_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "site" / "installed_mixer.py"
    old = "if real is None"
    assert file.read_text().count(old) == 1
    file.write_text(file.read_text().replace(old, "if True"))
    assert main(["contract", "regard-both"]) == 1
    assert "FAILS  attention 'average': right padding does not change" in capsys.readouterr().out


VERB = """
import regard
from regard.modalities.verb import Verb


def run(text: str) -> None:
    print(text[::-1])


row = Verb("mirror", "Write a text backwards.", {}, "str", f"{__name__}:run", "cannot mirror", "any")
regard.register(row, name="mirror")
"""


def test_a_verb_of_a_file_is_one_of_the_command_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "backwards.py").write_text(VERB)
    assert main(["mirror", "abc"]) == 2
    given = ["--plugin", str(folder / "backwards.py")]
    assert main([*given, "mirror", "abc"]) == 0
    assert capsys.readouterr().out == "cba\n"
    assert main([*given, "--help"]) == 0
    assert "Write a text backwards." in capsys.readouterr().out


def test_a_file_that_was_imported_is_not_run_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(folder))
    importlib.import_module("mixer")
    assert main(["contract", str(folder / "mixer.py")]) == 0
    assert "FAILS" not in capsys.readouterr().out
    del sys.modules["mixer"]


def test_the_option_needs_a_file_and_may_stand_anywhere(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "--plugin"]) == 2
    assert "requires a file name" in capsys.readouterr().err
    assert main(["models", "pixels*", "--plugin", str(folder / "family.py")]) == 0
    assert "pixels-mnist" in capsys.readouterr().out
    assert main(["--plugin", str(folder / "gone.py"), "models"]) == 2
    assert "plug-in file not found" in capsys.readouterr().err
