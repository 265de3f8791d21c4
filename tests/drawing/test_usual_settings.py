"""How a model draws that was read from a folder of another library, and what options change of that."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

import regard
from regard.cli.app import main
from regard.contracts.reach import model_of
from regard.modalities.drawing.settings import USUAL, Drawing, usual_of, with_options
from regard.model import Model
from regard.sample.settings import Denoising

TOLD = {"solver": "ddim", "spacing": "leading", "offset": 1}


def told_by_a_folder(**sampling: Any) -> Model:
    torch.manual_seed(1)
    model = model_of("diffusion")
    net = type(model.net)(replace(model.config, times=200, sampling=sampling or None)).eval()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return replace(model, net=net)


def test_a_folder_says_how_its_model_draws() -> None:
    model = told_by_a_folder(**TOLD)
    wanted = Denoising(solver="ddim", spacing="leading", offset=1, steps=50, guidance=7.5)
    assert usual_of(model.config) == wanted
    plain = model.draw("a b")[0].pixels
    assert torch.equal(plain, model.draw("a b", how=Drawing(denoising=wanted))[0].pixels)
    assert not torch.equal(plain, model.draw("a b", how=Drawing(denoising=USUAL))[0].pixels)
    looked = model.look("a b", 0)
    assert torch.equal(looked.answer.drawn.pixels, plain)
    assert looked.example.time.count == 50


def test_a_model_of_no_folder_draws_as_usual() -> None:
    assert usual_of(told_by_a_folder().config) == USUAL
    assert usual_of(object()) == USUAL


def test_every_step_of_a_solver_is_a_moment() -> None:
    """The pseudo linear multistep method asks more often than it has steps."""
    looked = told_by_a_folder(solver="plms", spacing="leading", offset=1).look("a", 0)
    crossed = next(site for name, site in looked.sites.items() if name.endswith(".cross"))
    assert looked.example.time.count == len(crossed.records)


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ({"steps": 5}, {"steps": 5}),
        ({"spacing": "trailing"}, {"spacing": "trailing", "offset": 0}),
        ({"solver": "euler"}, {"solver": "euler", "eta": 0.0}),
        ({"eta": 0.25}, {"eta": 0.25}),
    ],
)
def test_single_options_leave_the_others_as_they_are(asked: dict[str, Any], wanted: dict[str, Any]) -> None:
    told = Denoising(solver="ddim", spacing="leading", offset=1, eta=0.5, steps=50, guidance=7.5)
    assert with_options(told, asked) == replace(told, **wanted)


def test_the_command_changes_single_settings(tmp_path: Path, capsys: Any) -> None:
    model = told_by_a_folder(**TOLD)
    regard.save(model, tmp_path / "model")
    assert main(["draw", "a b", "-m", str(tmp_path / "model"), "--steps", "4", "--out", str(tmp_path / "x.png")]) == 0
    how = Drawing(denoising=replace(usual_of(model.config), steps=4))
    with Image.open(tmp_path / "x.png") as image:
        assert image.tobytes() == model.draw("a b", how=how)[0].image.tobytes()
