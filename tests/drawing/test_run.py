"""From the run file to a generator that draws: trained, killed, resumed to the bit, loaded; and what is refused."""

from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.cli.app import main
from regard.modalities.drawing.settings import Drawing
from regard.run import training
from regard.run.templates import run_template
from tests.undrawn import undrawn

RUN = """\
data = { kind = "digits", batch = 16, size = 8 }
model = { name = "transgan-tiny", image = 8, noise = 8, dim = 64, depth = [1, 1], heads = 2, window = 4 }
train = { steps = 6, evaluate = 3, save = 2, log = 1, moving = 0.5 }

[task]
kind = "imitate"
critic_steps = 2
critic = { kind = "transformer", dim = 16, depth = [1, 1], heads = 2 }
augment = { colour = 1.0, translation = 0.125, cutout = 0.5 }

[optimizer]
kind = "adam"
rate = 1e-3
betas = [0.0, 0.99]

[optimizer.discriminator]
rate = 2e-3
"""


@pytest.fixture(autouse=True)
def no_pictures() -> Any:
    with undrawn():
        yield


def trained(tmp_path: Path, name: str, text: str = RUN, *words: str) -> Path:
    (tmp_path / "gan.toml").write_text(text)
    assert main(["train", str(tmp_path / "gan.toml"), f"folder={tmp_path / name}", *words]) == 0
    return tmp_path / name


def weights(folder: Path) -> bytes:
    return (folder / "model" / "model.safetensors").read_bytes()


def test_a_killed_run_ends_as_one_that_was_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a penalty, random changes, a moving average, and a step of the discriminator alone in between."""
    whole = trained(tmp_path, "whole")
    original = training.Engine.update

    def dying(self: Any, step: int, *rest: Any) -> Any:
        if step == 3:
            raise KeyboardInterrupt
        return original(self, step, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(training.Engine, "update", dying)
        main(["train", str(tmp_path / "gan.toml"), f"folder={tmp_path / 'killed'}"])
    assert main(["resume", str(tmp_path / "killed")]) == 0
    assert weights(tmp_path / "killed") == weights(whole)
    models = [regard.load(folder) for folder in (whole, tmp_path / "killed")]
    one, two = ([image.pixels for image in model.draw(how=Drawing(n=3, seed=1))] for model in models)
    assert all(map(torch.equal, one, two))
    assert one[0].shape == (1, 8, 8)
    assert (models[0].family, models[0].task, models[0].labels) == ("transgan", "imitate", ())
    assert "On held-out data: pixel distance" in models[0].card


def test_the_journal_has_both_parts(tmp_path: Path) -> None:
    folder = trained(tmp_path, "run")
    lines = list(training.Journal(folder).lines())
    steps = [line for line in lines if "discriminator.loss" in line]
    assert [line["step"] for line in steps] == [1, 2, 3, 4, 5, 6]
    assert [line["step"] for line in steps if "generator.loss" in line] == [2, 4, 6]
    assert all({"discriminator.penalty", "discriminator.drift"} <= line.keys() for line in steps)
    assert [line["held_out"].keys() for line in lines if "held_out" in line] == [{"pixel distance", "gap"}] * 2


@pytest.mark.parametrize(
    "data",
    [
        'data = { kind = "digits", batch = 16, size = 8, augment = { mirror = 0.5 } }',
        'data = { kind = "images", train = "pictures", batch = 4, share = 0.25, size = "auto" }',
    ],
)
def test_all_kinds_of_images_are_imitated(tmp_path: Path, data: str) -> None:
    from regard.modalities.images.sources.files import example

    example(tmp_path).pop("train")
    (tmp_path / "images").rename(tmp_path / "pictures")
    model = 'model = { name = "convgan-mnist", noise = 8, dims = [8, 6] }'
    text = "\n".join([data, model, *RUN.splitlines()[2:]]).replace(
        '{ kind = "transformer", dim = 16, depth = [1, 1], heads = 2 }', '{ kind = "convolution", dims = [4, 6] }'
    )
    if "digits" in data:
        text = text.replace("noise = 8", "noise = 8, image = 8")
    loaded = regard.load(trained(tmp_path, "run", text))
    channels = 1 if "digits" in data else 3
    assert loaded.draw(3)[0].pixels.shape == (channels, 8, 8)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["task.penalty=-1"], "penalty = -1.0 must be at least 0"),
        (["task.critic_steps=0"], "critic_steps = 0 must be at least 1"),
        (["task.loss=wgan"], "task.loss"),
        (["task.critic.kind=mlp"], "task.critic"),
        (["task.critic.depth=[1]"], "is not two numbers, one for each scale"),
        (["task.critic.dim=18"], "dim = 18 is not a multiple of 4 x heads = 8"),
        (["task.augment.cutout=2"], "cutout = 2.0 is not between 0 and 1"),
        (["data.mean=[0.1]"], "generated pixels lie between -1 and 1"),
        (["data.augment.mixup=0.2"], "mixup and cutmix would be imitated"),
        (["model.image=7"], "image = 7 is not a multiple of 2"),
        (["optimizer.critic.rate=1"], "the task does not have this part; it has generator, discriminator"),
        (["model={name='vit-tiny'}"], "expected a transgan or convgan model"),
    ],
)
def test_bad_settings_are_refused(tmp_path: Path, capsys: Any, words: list[str], told: str) -> None:
    (tmp_path / "gan.toml").write_text(RUN)
    assert main(["train", str(tmp_path / "gan.toml"), f"folder={tmp_path / 'run'}", *words]) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_the_template_is_a_run_of_transgan() -> None:
    text = run_template("imitate")
    for word in ('kind = "imitate"', 'name = "transgan-tiny"', "translation = 0.125", "betas = [0.0, 0.99]"):
        assert word in text
