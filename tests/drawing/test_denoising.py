"""Learning to draw from captions: the loss by its definition, and runs from the file to the loaded model."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from regard.cli.app import main
from regard.contracts.reach import model_of
from regard.errors import InputError
from regard.modalities.captions.matching import Matched
from regard.modalities.drawing.denoising import Denoise, without_captions
from regard.run import training
from regard.run.settings import read_run
from regard.sample.prediction import PREDICTIONS, add_noise, alphas_at, training_target
from regard.sample.schedules import alphas

EMPTY = torch.tensor([1, 2])

RUN = """\
task.kind = "draw"
[data]
kind = "scenes"
rows = 24
batch = 8
[model]
name = "diffusion-tiny"
image = 8
times = 40
text = { dim = 8, depth = 1, heads = 2, hidden = 12 }
denoiser = { kind = "unet", dim = 8, multipliers = [1, 2], depth = 1, attended = [0], heads = 2, norm_groups = 4 }
autoencoder = { latent = 2, dim = 8, multipliers = [1, 2], depth = 1, norm_groups = 4, scale = 1.0 }
[train]
steps = 4
evaluate = 2
save = 2
log = 1
moving = 0.5
[optimizer]
kind = "adamw"
rate = 1e-2
[schedule]
kind = "constant"
"""
AUTOENCODER = """\
task.kind = "reconstruct"
[data]
kind = "scene-images"
rows = 16
batch = 8
[model]
name = "autoencoder-tiny"
image = 8
latent = 2
dim = 8
multipliers = [1, 2]
depth = 1
norm_groups = 4
[train]
steps = 2
evaluate = 2
save = 2
log = 1
[optimizer]
kind = "adamw"
rate = 1e-2
[schedule]
kind = "constant"
"""


def batch(count: int = 6) -> Matched:
    torch.manual_seed(3)
    keys = torch.arange(5)[None] < torch.tensor([5, 4, 3, 5, 2, 5])[:count, None]
    return Matched(torch.rand(count, 3, 8, 8, dtype=torch.float64), torch.randint(13, (count, 5)), keys)


@pytest.fixture(scope="module")
def net() -> Any:
    torch.manual_seed(0)
    made = model_of("diffusion").net.double()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return made


def loss_of(task: Denoise, given: Matched, seed: int = 0) -> Tensor:
    torch.manual_seed(seed)
    (found,) = task.losses(given, 0)
    return found.terms["loss"].sum


@pytest.mark.parametrize("prediction", PREDICTIONS)
def test_the_loss_is_the_distance_to_what_was_mixed_in(net: Any, prediction: Any) -> None:
    """A net that knows the answer has none; the drawn numbers are those of torch's generator, in this order."""
    config = replace(net.config, prediction=prediction)
    given = batch()

    class Knowing(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.config = config
            self.bias = 0.0

        def compress(self, images: Tensor) -> Tensor:
            return images

        def forward(self, noisy: Tensor, time: Tensor, ids: Tensor, *, keys: Tensor | None = None) -> Tensor:
            torch.manual_seed(0)
            assert torch.equal(torch.randint(config.times, (len(noisy),)), time)
            torch.rand(len(noisy))
            noise = torch.randn(noisy.shape, dtype=noisy.dtype)
            alpha = alphas_at(alphas(config.noise_schedule), time, noisy)
            torch.testing.assert_close(noisy, add_noise(given.images, noise, alpha))
            return training_target(prediction, given.images, noise, alpha) + self.bias

    knowing: Any = Knowing()
    assert float(loss_of(Denoise(knowing, EMPTY), given)) == pytest.approx(0, abs=1e-20)
    knowing.bias = 0.5
    assert float(loss_of(Denoise(knowing, EMPTY), given)) == pytest.approx(0.25 * 6)


def test_a_share_of_the_captions_is_left_out(net: Any) -> None:
    given = batch()
    shown = without_captions(given, torch.tensor([True, False, False, False, False, True]), EMPTY)
    assert shown.ids[0].tolist() == [1, 2, 0, 0, 0]
    assert shown.keys is not None
    assert given.keys is not None
    assert shown.keys[0].tolist() == [True, True, False, False, False]
    assert torch.equal(shown.ids[1:5], given.ids[1:5])
    assert torch.equal(shown.keys[1:5], given.keys[1:5])
    assert float(loss_of(Denoise(net, EMPTY, 0.0), given)) != float(loss_of(Denoise(net, EMPTY, 1.0), given))
    other = replace(given, ids=(given.ids + 1) % 13)
    assert float(loss_of(Denoise(net, EMPTY, 1.0), given)) == float(loss_of(Denoise(net, EMPTY, 1.0), other))


def test_an_empty_caption_longer_than_all_others_fits() -> None:
    given = Matched(torch.rand(2, 3, 8, 8), torch.tensor([[5], [6]]), None)
    shown = without_captions(given, torch.tensor([True, False]), EMPTY)
    assert shown.ids.tolist() == [[1, 2], [6, 0]]
    assert shown.keys is not None
    assert shown.keys.tolist() == [[True, True], [True, False]]


def test_an_evaluation_is_the_same_however_images_are_batched(net: Any) -> None:
    task, given = Denoise(net, EMPTY), batch()
    whole = task.evaluate(given)
    parts = [
        task.evaluate(Matched(given.images[rows], given.ids[rows], given.keys[rows]))  # type: ignore[index]
        for rows in (slice(0, 2), slice(2, 6))
    ]
    torch.testing.assert_close(whole["loss"], sum(part["loss"] for part in parts))
    torch.manual_seed(99)
    assert torch.equal(task.evaluate(given)["loss"], whole["loss"])


def run(folder: Path, text: str, name: str, *words: str) -> Path:
    (folder / f"{name}.toml").write_text(text)
    assert main(["train", str(folder / f"{name}.toml"), f"folder={folder / name}", *words]) == 0
    return folder / name


def weights(folder: Path) -> bytes:
    return (folder / "model" / "model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def autoencoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("autoencoder"), AUTOENCODER, "auto")


def with_start(folder: Path) -> str:
    return f'{RUN}\n[start]\nmodel = "{folder}"\npart = "autoencoder"\n'


@pytest.fixture(scope="module")
def first(autoencoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("first"), with_start(autoencoder), "run")


def test_the_latents_are_those_of_a_trained_autoencoder(autoencoder: Path, first: Path) -> None:
    """It stays as it was, and its latents are scaled."""
    model = regard.load(first)
    given = regard.load(autoencoder).net.state_dict()
    assert all(torch.equal(x, given[name]) for name, x in model.net.autoencoder.state_dict().items())
    own = model.config.autoencoder_config
    assert own.scale != 1.0
    images = torch.stack([one.image for one in scenes(24)]).float() / 127.5 - 1
    latents = model.net.compress(images)
    assert abs(float(latents.mean())) < 1e-3
    assert float(latents.std()) == pytest.approx(1, abs=1e-3)


def test_a_run_that_was_killed_ends_with_the_same_bits(
    autoencoder: Path, first: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = training.Engine.update

    def dying(self: Any, step: int, *rest: Any) -> Any:
        if step == 3:
            raise KeyboardInterrupt
        return original(self, step, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(training.Engine, "update", dying)
        (tmp_path / "killed.toml").write_text(with_start(autoencoder))
        main(["train", str(tmp_path / "killed.toml"), f"folder={tmp_path / 'killed'}"])
    assert main(["resume", str(tmp_path / "killed")]) == 0
    assert weights(tmp_path / "killed") == weights(first)
    assert (tmp_path / "killed/model/regard.json").read_bytes() == (first / "model/regard.json").read_bytes()


def scenes(count: int) -> list[Any]:
    from regard.modalities.captions.scenes import Scenes
    from regard.modalities.images.processor import Images

    rows = Scenes(count, Images(size=8, channels=3), 0)
    return [rows[i] for i in range(count)]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ((), "the autoencoder of the model has no trained weights"),
        (("latent = 2, dim = 8", "latent = 2, dim = 16"), "autoencoder.dim = 16, and 8 there"),
    ],
)
def test_autoencoders_that_do_not_fit(change: Any, told: str, autoencoder: Path, tmp_path: Path, capsys: Any) -> None:
    text = with_start(autoencoder).replace(*change) if change else RUN
    (tmp_path / "run.toml").write_text(text)
    assert main(["train", str(tmp_path / "run.toml"), f"folder={tmp_path / 'run'}"]) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_another_family_is_no_autoencoder(tmp_path: Path, capsys: Any) -> None:
    regard.save(model_of("vit"), tmp_path / "vit")
    (tmp_path / "run.toml").write_text(with_start(tmp_path / "vit"))
    assert main(["train", str(tmp_path / "run.toml"), f"folder={tmp_path / 'run'}"]) == 2
    assert "the given part is not an autoencoder" in capsys.readouterr().err


def test_a_model_that_draws_can_be_trained_further(first: Path, tmp_path: Path) -> None:
    text = RUN.partition("[model]")[0] + RUN[RUN.index("[train]") :]
    second = run(tmp_path, f'{text}\n[start]\nmodel = "{first}"\n', "second")
    one, two = (regard.load(folder) for folder in (first, second))
    assert one.config == two.config
    assert not torch.equal(one.net.denoiser.head.weight, two.net.denoiser.head.weight)
    assert torch.equal(one.net.autoencoder.encoder.stem.weight, two.net.autoencoder.encoder.stem.weight)


def test_the_autoencoder_of_a_model_that_draws_can_be_given(first: Path, tmp_path: Path) -> None:
    second = run(tmp_path, with_start(first), "second", "train.steps=2", "data.rows=8")
    one, two = (regard.load(folder).net.autoencoder.state_dict() for folder in (first, second))
    assert all(torch.equal(x, two[name]) for name, x in one.items())


def test_a_share_is_no_more_than_all(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(RUN.replace('task.kind = "draw"', 'task = { kind = "draw", drop = 2.0 }'))
    with pytest.raises(InputError, match="drop"):
        read_run(tmp_path / "run.toml")
