"""Prompt-to-prompt: words are swapped, the attention maps of the first prompt stay."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from regard.cli.app import main
from regard.contracts.reach import model_of
from regard.errors import InputError
from regard.modalities.drawing.prompt_drawer import PromptDrawer
from regard.modalities.drawing.prompt_runners import drawer_for_prompts
from regard.modalities.drawing.settings import Drawing
from regard.model import Model
from regard.nn.tap import capture, listen, listeners_here
from regard.sample.settings import Denoising

FEW = Denoising(steps=4, guidance=3.0)
PROMPT, OTHER = "a b", "b a"


@pytest.fixture(scope="module")
def model() -> Model:
    torch.manual_seed(1)
    model = model_of("diffusion")
    with torch.no_grad():
        for parameter in model.net.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


@pytest.fixture(scope="module")
def drawer(model: Model) -> PromptDrawer:
    return drawer_for_prompts(model)


def last(drawer: PromptDrawer, prompt: str = PROMPT, **how: Any) -> Tensor:
    *_, step = drawer.steps(prompt, Drawing(**{"seed": 3, "denoising": FEW} | how), 0)
    return step.state


def test_the_maps_of_the_same_prompt_change_nothing(drawer: PromptDrawer) -> None:
    torch.testing.assert_close(last(drawer, keep=PROMPT, kept=1.0), last(drawer), atol=1e-4, rtol=1e-4)


def test_no_share_is_the_prompt_alone(drawer: PromptDrawer) -> None:
    assert torch.equal(last(drawer, keep=OTHER, kept=0.0), last(drawer))


def test_the_share_is_of_the_first_steps(drawer: PromptDrawer) -> None:
    """In them the maps of the prompt are those of the other one, in the same step; what guidance leads away from keeps
    its own."""
    with capture(drawer.net, "*.middle.*.cross.weights") as plain:
        last(drawer, OTHER)
    with capture(drawer.net, "*.middle.*.cross.weights") as alone:
        last(drawer)
    (others,), (own,) = plain.values(), alone.values()
    seen: list[Tensor] = []
    steps = drawer.steps(PROMPT, Drawing(seed=3, denoising=FEW, keep=OTHER, kept=0.5), 0)
    while True:
        with capture(drawer.net, "*.middle.*.cross.mixed") as mixed:
            if next(steps, None) is None:
                break
        seen.append(next(iter(mixed.values())))  # of both images while maps are kept
    assert [len(one) for one in seen] == [2, 2, 1, 1], "the other image is drawn no further than it is needed"
    assert not torch.allclose(others[1][0], own[1][0], atol=1e-3)
    assert not torch.allclose(last(drawer, keep=OTHER, kept=0.5), last(drawer), atol=1e-3)
    assert not torch.allclose(last(drawer, keep=OTHER, kept=0.5), last(drawer, keep=OTHER, kept=1.0), atol=1e-4)
    assert not torch.allclose(last(drawer, keep=OTHER, kept=1.0), last(drawer, OTHER), atol=1e-3), "the words are new"


def test_the_first_step_is_that_of_maps_that_were_put_in_by_hand(drawer: PromptDrawer) -> None:
    with capture(drawer.net, "denoiser.*.cross.weights") as maps:
        next(drawer.steps(OTHER, Drawing(seed=3, denoising=FEW), 0))

    def put(name: str, weights: Tensor) -> Tensor:
        weights = weights.clone()
        weights[0] = maps[name][0][0]
        return weights

    with listen(drawer.net, "denoiser.*.cross.weights", put):
        wanted = next(drawer.steps(PROMPT, Drawing(seed=3, denoising=FEW), 0)).state
    found = next(drawer.steps(PROMPT, Drawing(seed=3, denoising=FEW, keep=OTHER), 0)).state
    assert torch.equal(found, wanted)


def test_nobody_is_listened_to_between_the_steps(drawer: PromptDrawer) -> None:
    steps = drawer.steps(PROMPT, Drawing(denoising=FEW, keep=OTHER), 0)
    next(steps)
    assert not listeners_here()


def test_an_image_with_kept_maps_belongs_to_its_seed_and_number(model: Model) -> None:
    many = model.draw(PROMPT, how=Drawing(n=2, denoising=FEW, keep=OTHER))
    one = model.draw(PROMPT, how=Drawing(n=1, denoising=FEW, keep=OTHER))
    assert torch.equal(many[0].pixels, one[0].pixels)
    assert not torch.equal(many[0].pixels, many[1].pixels)


def test_other_numbers_of_tokens_are_refused(model: Model) -> None:
    with pytest.raises(InputError, match="different numbers of tokens") as left:
        model.draw(PROMPT, how=Drawing(denoising=FEW, keep="a"))
    told = str(left.value)
    assert "keep" in told
    assert "1 tokens to keep, 2 in the prompt" in told


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({"keep": "a", "kept": 1.5}, "kept = 1.5 is not between 0 and 1"),
        ({"keep": "a", "kept": -0.1}, "kept = -0.1 is not between 0 and 1"),
        ({"keep": "a", "kept": float("nan")}, "kept = nan is not between 0 and 1"),
        ({"kept": 0.5}, "kept needs keep"),
    ],
)
def test_settings_that_make_no_sense(how: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Drawing(**how)


def test_the_command_keeps_maps(model: Model, tmp_path: Path, capsys: Any) -> None:
    regard.save(model, tmp_path / "model")
    words = ["draw", PROMPT, "-m", str(tmp_path / "model"), "--steps", "4", "--json"]
    said = []
    for more in ([], ["--keep", OTHER], ["--keep", OTHER, "--kept", "0"], ["--keep", OTHER, "--kept", "1"]):
        assert main([*words, *more]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[2]
    assert len(set(said)) == 3
    assert main([*words, "--keep", "a"]) == 2
    assert "different numbers of tokens" in capsys.readouterr().out
