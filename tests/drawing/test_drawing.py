"""Images of seeds: the same to the bit, however many are drawn; on the command line, in files, on the page."""

import base64
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

import regard
from regard.cli.app import main
from regard.contracts.reach import model_of
from regard.errors import ConfigError, InputError
from regard.modalities.drawing.drawer import DrawnImage
from regard.modalities.drawing.page import DrawingDocument, NoiseInput
from regard.modalities.drawing.processor import Drawn
from regard.modalities.drawing.processor_kind import DRAWN
from regard.modalities.drawing.seeds import noise_of
from regard.modalities.drawing.settings import Drawing
from regard.modalities.drawing.views import DRAWINGS, grid_image
from regard.modalities.images.processor import Images
from regard.modalities.processor import ProcessorFolder
from regard.model import Model
from regard.zoo import FAMILIES


@pytest.fixture(params=["transgan", "convgan"])
def model(request: pytest.FixtureRequest) -> Model:
    torch.manual_seed(0)
    return model_of(request.param)


def drawn(model: Model, **how: Any) -> list[torch.Tensor]:
    return [one.pixels for one in model.draw(how=Drawing(**how))]


def test_an_image_is_the_same_however_many_are_drawn(model: Model) -> None:
    one, four, many = (drawn(model, n=n, seed=7) for n in (1, 4, 16))
    assert (len(one), len(four), len(many)) == (1, 4, 16)
    for some in (one, four):
        assert all(torch.equal(x, y) for x, y in zip(some, many, strict=False))
    assert len({x.numpy().tobytes() for x in many}) == 16
    assert not torch.equal(drawn(model, seed=8)[0], one[0])
    assert torch.equal(model.draw(7)[0].pixels, one[0])


def test_noise_is_normal_and_belongs_to_seed_and_number() -> None:
    x = noise_of(5, 2, 20_000)
    assert torch.equal(x, noise_of(5, 2, 20_000))
    assert torch.equal(x[:10], noise_of(5, 2, 10))
    assert abs(float(x.mean())) < 0.03
    assert abs(float(x.std()) - 1) < 0.02
    assert abs(float((x * noise_of(5, 3, 20_000)).mean())) < 0.03
    assert not torch.equal(x, noise_of(2, 5, 20_000))
    assert x[:4].tolist() == pytest.approx(FIRST)  # what is drawn of a seed today is drawn of it for ever


FIRST = [-0.161088943712034, -0.2601023707126261, 0.25435469252829856, -1.2203758028887326]


def test_truncation_draws_from_the_middle() -> None:
    wide, narrow = noise_of(1, 0, 5000), noise_of(1, 0, 5000, 0.5)
    assert narrow.abs().max() <= 0.5
    assert torch.equal(wide.argsort(), narrow.argsort())  # each number stays in its place
    inside = wide[wide.abs() < 0.5]
    assert float(narrow.std()) == pytest.approx(float(inside.std()), rel=0.05)
    assert torch.allclose(noise_of(1, 0, 5000, 30.0), wide, atol=1e-9)


def test_pixels_are_those_that_were_learned() -> None:
    images = Images(size=2, channels=1)
    pixels = torch.tensor([[[0, 255], [100, 37]]], dtype=torch.uint8)
    assert torch.equal(Drawn(images).pixels(images.normalise(pixels)), pixels)
    beyond = torch.tensor([[[-3.0, 3.0], [float(-1), 1.0]]])
    assert Drawn(images).pixels(beyond).tolist() == [[[0, 255], [0, 255]]]


def test_the_processor_is_read_strictly(tmp_path: Path) -> None:
    home = ProcessorFolder(tmp_path, FAMILIES["convgan"], FAMILIES["convgan"].example())
    data = Drawn(Images(size=8, channels=1)).to_data()
    assert DRAWN.read(json.loads(json.dumps(data)), home).images == Images(size=8, channels=1)
    for wrong in (data | {"size": 3}, {"kind": "drawings"}, data | {"images": 3}, data | {"images": {"kind": "text"}}):
        with pytest.raises(ConfigError):
            DRAWN.read(wrong, home)


@pytest.mark.parametrize("given", ["a cat", "-1", "1.5", 1.5, True, -3, [3], "9" * 19, "٣"])
def test_what_is_no_seed_is_refused(given: Any) -> None:
    with pytest.raises(InputError, match="not a seed"):
        model_of("convgan").draw(given)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"n": 0}, "n = 0 must be at least 1"),
        ({"n": 10_001}, "n = 10001 is more than 10000 images"),
        ({"seed": -1}, "seed = -1 must be at least 0"),
        ({"truncation": 0.0}, "truncation = 0.0 must be greater than 0"),
    ],
)
def test_settings_that_draw_nothing_are_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        Drawing(**changes)


def test_a_look_draws_the_first_image() -> None:
    model = model_of("transgan")
    found = model.look(7)
    assert found.answer is not None
    data = found.answer.data()
    DrawingDocument.model_validate(data, strict=True)
    raw = base64.b64decode(data["png"].partition(",")[2])
    shown = torch.tensor(list(Image.open(io.BytesIO(raw)).tobytes()), dtype=torch.uint8)
    assert torch.equal(shown, model.draw(7)[0].pixels.permute(1, 2, 0).flatten())
    assert found.answer.headline() == "an image of 8 x 8 pixels"
    assert found.answer.subject() == "the image of seed 7"
    maps = [site for site in found.sites.values() if site.kind == "weights"]
    assert [(site.rows.size, site.columns.size) for site in maps] == [(16, 16), (16, 16)]  # of windows of 4 x 4


def test_the_page_gives_a_seed() -> None:
    assert NoiseInput(kind="noise", seed=3).given(None) == (3,)  # type: ignore[arg-type]
    for seed in (-1, 2**53, 1.5, "3"):
        with pytest.raises(ValueError, match="seed"):
            NoiseInput.model_validate({"kind": "noise", "seed": seed})


def squares(count: int, channels: int = 1) -> list[DrawnImage]:
    return [DrawnImage(torch.full((channels, 3, 4), 40 * i, dtype=torch.uint8), 1, i) for i in range(count)]


def test_a_grid_has_all_images_in_their_order() -> None:
    sheet = grid_image(squares(5, 3))
    assert sheet.size == (3 * 4 + 2, 2 * 3 + 1)
    assert [sheet.getpixel((x, y))[0] for y in (0, 4) for x in (0, 5, 10)] == [0, 40, 80, 120, 160, 0]  # type: ignore[index]
    assert grid_image(squares(1)).size == (4, 3)


def test_a_terminal_shows_the_first_few() -> None:
    dark_and_light = DrawnImage(torch.tensor([[[0, 255]]], dtype=torch.uint8), 1, 0)
    assert DRAWINGS.lines([dark_and_light]) == ["seed 1, image 0", "  @@"]
    assert DRAWINGS.lines(squares(6))[-1] == "and 2 more; write all of them to a file with --out"
    wide = DrawnImage(torch.zeros(1, 100, 100, dtype=torch.uint8) + 255, 1, 0)
    assert [len(line) for line in DRAWINGS.lines([wide])[1:]] == [64] * 32


@pytest.fixture
def folder(tmp_path: Path) -> str:
    torch.manual_seed(0)
    regard.save(model_of("convgan"), tmp_path / "model")
    return str(tmp_path / "model")


def test_the_command_draws(folder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "x.png"
    assert main(["draw", "-m", folder, "--n", "4", "--seed", "7", "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"4 images of seed 7 drawn to {out}\n"
    with Image.open(out) as sheet:
        assert sheet.size == (17, 17)
        alone = sheet.crop((0, 0, 8, 8)).tobytes()
    assert main(["draw", "-m", folder, "--seed", "7", "--out", str(out)]) == 0
    assert Image.open(out).tobytes() == alone
    capsys.readouterr()
    assert main(["draw", "-m", folder, "--seed", "7", "--n", "2", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["kind"], line["seed"], line["number"]) for line in lines] == [("drawing", 7, 0), ("drawing", 7, 1)]
    assert main(["draw", "-m", folder, "--seed", "7", "--n", "2", "--out", str(tmp_path / "x.jsonl")]) == 0
    assert capsys.readouterr().out == f"2 images of seed 7 written to {tmp_path / 'x.jsonl'}\n"
    assert [json.loads(line) for line in (tmp_path / "x.jsonl").read_text().splitlines()] == lines
    assert main(["draw", "-m", folder]) == 0
    assert capsys.readouterr().out.startswith("seed 0, image 0\n")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--n", "0"], "--n 0 must be at least 1"),
        (["--truncation", "-1"], "--truncation -1.0 must be greater than 0"),
        (["--out", "x.gif"], "unsupported output format"),
        (["--out", "no/x.png"], "folder not found"),
        (["a cat"], "the input is not a seed"),
    ],
)
def test_the_command_refuses(
    words: list[str], told: str, folder: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(folder).parent)
    before = sorted(Path().iterdir())
    assert main(["draw", "-m", folder, *words]) == 2
    assert told in capsys.readouterr().err
    assert sorted(Path().iterdir()) == before


def test_others_cannot_draw(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="this vit cannot draw images"):
        model_of("vit").draw(3)
