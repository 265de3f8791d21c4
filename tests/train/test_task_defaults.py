"""A short run file is trained as its task usually is."""

from dataclasses import fields
from pathlib import Path

import pytest

from regard.run.settings import RunSettings, read_run, task_defaults
from regard.run.templates import all_templates, template_run
from regard.train.runfile_text import run_file_text

LEAST = '[task]\nkind = "classify"\n[data]\nkind = "labelled"\ntrain = ["a.tsv"]\n'


def run_of(text: str, folder: Path, *overrides: str) -> RunSettings:
    (folder / "run.toml").write_text(text)
    return read_run(folder / "run.toml", overrides)


def test_a_file_that_fine_tunes_has_its_rate_and_warmup(tmp_path: Path) -> None:
    """It got a rate of another task and a warm-up of 4,000 steps."""
    run = run_of(LEAST + '[start]\nmodel = "./m"\nlearn = "adapters"\n', tmp_path, "train.steps=500")
    usual = template_run(all_templates()["fine-tune"])
    assert (run.optimizer, run.schedule) == (usual.optimizer, usual.schedule)
    assert (run.train.steps, run.train.evaluate) == (500, usual.train.evaluate)


def test_keys_that_are_given_stay(tmp_path: Path) -> None:
    model = '[model]\nname = "bert-mini"\n'
    run = run_of(LEAST + model + "[optimizer]\nrate = 0.01\n[schedule]\nkind = 'constant'\n", tmp_path)
    usual = template_run(all_templates()["classify-text"])
    assert run.optimizer.rate == 0.01
    assert run.optimizer.decay == usual.optimizer.decay
    assert run.schedule.kind == "constant"


@pytest.mark.parametrize("name", all_templates())
def test_every_template_is_what_its_task_begins_with(name: str, tmp_path: Path) -> None:
    """Written short, without the tables of training, it is read as the template."""
    whole = template_run(all_templates()[name])
    text = run_file_text(whole)
    short = text[: text.index("[train]")]
    found = run_of(short, tmp_path)
    for key in ("train", "optimizer", "schedule"):
        assert getattr(found, key) == getattr(whole, key)


@pytest.mark.parametrize("name", all_templates())
def test_what_may_be_none_is_so_by_default(name: str) -> None:
    """A run's own file leaves out what is None: read again, it must not become something else."""
    defaults = task_defaults({"task": all_templates()[name].task.kind, "data": all_templates()[name].data.kind})
    for table in defaults.values():
        plain = type(table)()
        for one in fields(table):
            if getattr(plain, one.name) is None:
                assert getattr(table, one.name) is None
