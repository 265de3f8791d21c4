"""Images drawn from texts: they belong to their seed, keep what is known, and say what does not fit."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from torch import Tensor

import regard
from regard.cli.app import main
from regard.contracts.reach import model_of
from regard.errors import InputError, Notice
from regard.modalities.drawing.prompt_drawer import PromptDrawer
from regard.modalities.drawing.prompt_runners import drawer_for_prompts
from regard.modalities.drawing.settings import Drawing
from regard.modalities.drawing.step_progress import colour_lines
from regard.model import Model
from regard.sample.loop import DrawnStep
from regard.sample.settings import Denoising

PROMPT = "a b c"
FEW = Denoising(steps=3, guidance=3.0)


def stirred(model: Model) -> Model:
    """Or its answers would be zero."""
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.net.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


@pytest.fixture(scope="module")
def model() -> Model:
    torch.manual_seed(0)
    return stirred(model_of("diffusion"))


@pytest.fixture(scope="module")
def drawer(model: Model) -> PromptDrawer:
    return drawer_for_prompts(model)


def drawn(drawer: PromptDrawer, prompt: str = PROMPT, how: Drawing | None = None, **settings: Any) -> list[Tensor]:
    how = how or Drawing()
    return [one.pixels for one in drawer.draw(prompt, replace(how, denoising=replace(FEW, **settings)))]


def picture(level: int = 200) -> Image.Image:
    return Image.new("RGB", (8, 8), (level, 20, 100))


def left_half() -> Image.Image:
    mask = Image.new("L", (8, 8), 0)
    mask.paste(255, (0, 0, 4, 8))
    return mask


def test_a_seed_belongs_to_an_image_and_not_to_a_batch(drawer: PromptDrawer) -> None:
    many = drawn(drawer, how=Drawing(n=16, seed=5), eta=0.5, solver="ddim")
    for count in (1, 4):
        some = drawn(drawer, how=Drawing(n=count, seed=5), eta=0.5, solver="ddim")
        assert all(torch.equal(one, other) for one, other in zip(some, many, strict=False))
    assert not torch.equal(many[0], many[1])
    assert not torch.equal(many[0], drawn(drawer, how=Drawing(seed=6))[0])


def test_the_words_matter_and_guidance_follows_them(drawer: PromptDrawer) -> None:
    assert not torch.equal(drawn(drawer)[0], drawn(drawer, "c b a")[0])
    asked: list[int] = []
    original = drawer.net.denoise

    def counted(noisy: Tensor, *given: Any, **named: Any) -> Tensor:
        asked.append(len(noisy))
        return original(noisy, *given, **named)

    drawer.net.denoise = counted  # type: ignore[method-assign]
    try:
        plain = drawn(drawer, guidance=1.0)[0]
        assert asked == [1, 1, 1], "without guidance the net is asked once a step"
        assert torch.equal(plain, drawn(drawer, how=Drawing(), guidance=1.0)[0])
        del asked[:]
        drawn(drawer)
        assert asked == [2, 2, 2]
    finally:
        del drawer.net.denoise  # type: ignore[method-assign]


def test_the_negative_prompt_takes_the_place_of_no_words(drawer: PromptDrawer) -> None:
    other = drawn(drawer, how=Drawing(negative="c c"))[0]
    assert not torch.equal(other, drawn(drawer)[0])
    assert torch.equal(drawn(drawer, "c c", Drawing(negative="c c"))[0], drawn(drawer, "c c", guidance=1.0)[0])


def test_known_pixels_stay_exactly(drawer: PromptDrawer) -> None:
    known = picture()
    (found,) = drawn(drawer, how=Drawing(init=known, mask=left_half()))
    (free,) = drawn(drawer)
    wanted = torch.tensor([200, 20, 100], dtype=torch.uint8)[:, None, None].expand(3, 8, 4)
    assert torch.equal(found[:, :, 4:], wanted)
    assert not torch.equal(found[:, :, :4], wanted)
    assert not torch.equal(found[:, :, :4], free[:, :, :4]), "what is known says nothing to what is drawn"


def test_a_white_mask_draws_all_anew(drawer: PromptDrawer) -> None:
    found = drawn(drawer, how=Drawing(init=picture(), mask=Image.new("L", (8, 8), 255)))
    assert torch.equal(found[0], drawn(drawer)[0])


def test_less_strength_changes_less(drawer: PromptDrawer) -> None:
    begun = torch.tensor([200, 20, 100.0])[:, None, None]
    gaps = [
        float((drawn(drawer, how=Drawing(init=picture()), steps=10, strength=x)[0] - begun).abs().mean())
        for x in (0.1, 1.0)
    ]
    assert gaps[0] < gaps[1]


def test_each_step_can_be_watched_and_stopped(drawer: PromptDrawer) -> None:
    seen: list[tuple[int, int]] = []

    def watch(number: int, step: DrawnStep) -> None:
        seen.append((number, step.index))
        if number == 1:
            raise KeyboardInterrupt

    done: list[Any] = []
    with pytest.raises(KeyboardInterrupt):
        done.extend(drawer.draw(PROMPT, Drawing(n=3, denoising=FEW), watch))
    assert seen == [(0, 0), (0, 1), (0, 2), (1, 0)]


def test_what_is_too_long_is_cut_and_told(model: Model, drawer: PromptDrawer) -> None:
    longest = model.config.length - 2  # between its begin and its end
    whole, more = " ".join(["a"] * longest), " ".join(["a"] * (longest + 5))
    assert drawer.notes(whole) == []
    with pytest.warns(Notice, match="its last"):
        found = model.draw(more, how=Drawing(denoising=FEW))
    assert torch.equal(found[0].pixels, drawn(drawer, whole)[0])


@pytest.mark.parametrize("prompt", ["", "日本 \u0000 🎨", "a" * 3000, "<end> <begin>", "\ud800"])
def test_odd_prompts(drawer: PromptDrawer, prompt: str) -> None:
    assert drawn(drawer, prompt)[0].shape == (3, 8, 8)


def test_a_model_that_reads_padding_is_given_it(model: Model) -> None:
    net = type(model.net)(replace(model.config, padding="read", filler=3)).eval()
    net.load_state_dict(model.net.state_dict())
    drawer = PromptDrawer(net, model.processor)
    ids = drawer.tokens(PROMPT).ids
    assert len(ids) == model.config.length
    assert set(ids[-5:]) == {3}
    assert not torch.equal(drawn(drawer)[0], drawn(drawer_for_prompts(model))[0])


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({"n": 0}, "n = 0 must be at least 1"),
        ({"mask": left_half()}, "mask needs init"),
        ({"negative": "c", "denoising": Denoising(guidance=1.0)}, "negative needs a guidance"),
        ({"n": 10**9}, "more than 10000 images"),
    ],
)
def test_settings_that_make_no_sense(how: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Drawing(**how)


@pytest.mark.parametrize(
    ("how", "told"),
    [
        (Drawing(denoising=Denoising(strength=0.5)), "strength needs an image"),
        (Drawing(truncation=1.0), "truncation is for generators"),
        (Drawing(denoising=Denoising(steps=500)), "steps = 500 is greater than the 40 time steps"),
        (Drawing(init=picture(), mask=Image.new("L", (8, 8), 0)), "no white pixels"),
        (Drawing(init="no.png"), "no.png"),
        (Drawing(init=picture(), mask="no.png"), "no.png"),
    ],
)
def test_what_does_not_fit_the_model(model: Model, how: Drawing, told: str) -> None:
    with pytest.raises(InputError) as left:
        model.draw(PROMPT, how=how)
    assert told in str(left.value)


def test_no_prompt_and_no_text(model: Model) -> None:
    for given in (None, 3, [3]):
        with pytest.raises(InputError):
            model.draw(given)


def test_every_step_can_be_looked_at(model: Model) -> None:
    """As many calls of each layer as there are steps; the words are read once. Looking changes no pixel."""
    looked = model.look(PROMPT, 4)
    calls = {name: len(site.records) for name, site in looked.sites.items()}
    assert {calls[name] for name in calls if name.startswith("denoiser.")} == {20}
    assert {calls[name] for name in calls if name.startswith("text.")} == {1}
    crossed = next(site for name, site in looked.sites.items() if name.endswith(".cross"))
    assert crossed.columns.labels == ("<begin>", "a", "b", "c", "<end>") or "a" in crossed.columns.labels
    assert crossed.rows.grid is not None
    weights = crossed.map().weights
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights.sum(-1)))
    assert torch.equal(looked.answer.drawn.pixels, model.draw(PROMPT, how=Drawing(seed=4))[0].pixels)


def test_a_crossed_out_word_draws_another_image(model: Model) -> None:
    looked = model.look(PROMPT, 4)
    other = looked.change(regard.look.changes.Token("text", 2))
    assert not torch.equal(looked.answer.drawn.pixels, other.answer.drawn.pixels)


@pytest.fixture
def folder(model: Model, tmp_path: Path) -> str:
    regard.save(model, tmp_path / "model")
    return str(tmp_path / "model")


def test_the_command_draws_what_python_draws(folder: str, model: Model, tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "x.png"
    words = ["draw", PROMPT, "-m", folder, "--steps", "3", "--guidance", "3", "--seed", "2"]
    assert main([*words, "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"1 image of seed 2 drawn to {out}\n"
    with Image.open(out) as image:
        pixels = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8).view(8, 8, 3).permute(2, 0, 1)
    assert torch.equal(pixels, model.draw(PROMPT, how=Drawing(seed=2, denoising=FEW))[0].pixels)
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["seed"] == 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--steps", "0", "--guidance", "-1"], ["--steps 0 must be at least 1", "--guidance -1.0 must be at least 0"]),
        (["--solver", "best"], ["'best' is not one of ddpm, ddim, dpm-solver++, plms, euler"]),
        (["--mask", "m.png"], ["mask needs init"]),
        (["--strength", "0.5"], ["strength needs an image"]),
        (["--eta", "0.5"], ["eta = 0.5 is only for the solver 'ddim'"]),
        (["--init", "no.png"], ["no.png"]),
    ],
)
def test_the_command_refuses(words: list[str], told: list[str], folder: str, capsys: Any) -> None:
    assert main(["draw", PROMPT, "-m", folder, *words]) == 2
    err = capsys.readouterr().err
    assert "Traceback" not in err
    assert all(one in err.replace("--eta 0.5", "eta = 0.5") for one in told), err


def test_an_interrupt_keeps_what_is_done(folder: str, tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    original = PromptDrawer.draw

    def two(self: PromptDrawer, *given: Any) -> Iterator[Any]:
        for i, one in enumerate(original(self, *given)):
            if i == 2:
                raise KeyboardInterrupt
            yield one

    monkeypatch.setattr(PromptDrawer, "draw", two)
    out = tmp_path / "x.png"
    assert main(["draw", PROMPT, "-m", folder, "--steps", "2", "--n", "9", "--out", str(out)]) == 130
    assert "stopped after 2 of 9 images" in capsys.readouterr().err
    assert Image.open(out).size == (17, 8)


def test_a_preview_has_two_rows_in_a_line() -> None:
    pixels = torch.zeros(3, 4, 2, dtype=torch.uint8)
    pixels[0, 0] = 255
    lines = colour_lines(pixels)
    assert len(lines) == 2
    assert lines[0].count("\x1b[38;2;255;0;0m\x1b[48;2;0;0;0m▀") == 2
    assert len(colour_lines(torch.zeros(1, 300, 300, dtype=torch.uint8))) == 24
