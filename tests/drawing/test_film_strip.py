"""The film of a drawing: a row for each word, a column for each step, and the estimates below."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from PIL import Image
from torch import Tensor

import regard
from regard.contracts.reach import model_of
from regard.look.trace import Finished, TracedSite
from regard.modalities.drawing.film_strip import film_of, shown_steps
from regard.modalities.drawing.prompt_runners import drawer_for_prompts
from regard.modalities.drawing.word_maps import maps_of_words, word_pieces
from regard.model import Model
from regard.nn.axis import Axis


@pytest.fixture(scope="module")
def model() -> Model:
    torch.manual_seed(1)
    model = model_of("diffusion")
    with torch.no_grad():
        for parameter in model.net.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def crossing(name: str, side: int, *weights: Tensor) -> TracedSite:
    records = tuple(Finished(x) for x in weights)
    columns = weights[0].shape[-1]
    grid = Axis("patches", side * side, grid=(side, side))
    return TracedSite(name, "weights", (name, "text"), grid, Axis("text", columns), records)


def test_a_map_is_the_mean_over_layers_and_heads_of_the_sum_over_pieces() -> None:
    """Of the prompt alone, the first of the batch, at the step that is asked for, in the finest layer's size."""
    torch.manual_seed(0)
    fine, other, coarse = (torch.rand(2, 2, 16, 4), torch.rand(2, 2, 16, 4), torch.rand(2, 2, 1, 4))
    found: Any = SimpleNamespace(
        sites={"fine": crossing("fine", 4, other, fine), "coarse": crossing("coarse", 1, coarse, coarse + 1)}
    )
    (told,) = maps_of_words(found, [(1, 2)], [1])
    wanted = (fine[0, :, :, 1:3].sum(-1).mean(0) + (coarse + 1)[0, :, :, 1:3].sum(-1).mean(0)) / 2
    torch.testing.assert_close(told[0], wanted.view(4, 4))


def test_pieces_of_words_are_joined() -> None:
    assert word_pieces(("cir", "cle</w>", "a</w>")) == {(0, 1): "circle", (2,): "a"}
    assert word_pieces((" cir", "cle", " a")) == {(0, 1): "circle", (2,): "a"}


@pytest.mark.parametrize(("count", "shown"), [(1, [0]), (3, [0, 1, 2]), (20, [0, 3, 5, 8, 11, 14, 16, 19])])
def test_the_first_and_the_last_step_are_shown(count: int, shown: list[int]) -> None:
    assert shown_steps(count) == shown


def test_a_film_has_the_words_and_ends_with_the_drawn_image(model: Model) -> None:
    found = model.look("a b c", 4)
    (axes,) = film_of(drawer_for_prompts(model), "a b c", found).axes
    said = [text.get_text() for text in axes.texts]
    assert [word for word in said if word in ("a", "<unknown>", "<begin>", "<end>")] == ["a", "<unknown>", "<unknown>"]
    assert len(axes.images) == (3 + 1) * 8
    last = torch.from_numpy(axes.images[-1].get_array().data).permute(2, 0, 1)  # type: ignore[union-attr]
    drawn = found.answer.drawn.pixels
    assert (last * 255 - drawn).abs().max() <= 1, "the last estimate is the image"
    first = torch.from_numpy(axes.images[-8].get_array().data).permute(2, 0, 1)  # type: ignore[union-attr]
    assert (first * 255 - drawn).abs().max() > 1


def test_a_prompt_without_words_and_a_very_long_one(model: Model, tmp_path: Path) -> None:
    model.look("", 1).save(tmp_path / "empty.png")
    (axes,) = film_of(drawer_for_prompts(model), "", model.look("", 1)).axes
    assert len(axes.images) == 8
    model.look("$x$ " + "a" * 3000, 1).save(tmp_path / "long.svg")


def test_look_saves_the_film_and_a_site_its_map(model: Model, tmp_path: Path) -> None:
    found = model.look("a b", 1)
    found.save(tmp_path / "film.png")
    site = next(name for name in found.sites if name.endswith(".cross"))
    found.save(tmp_path / "site.png", f"{site}@0")
    with Image.open(tmp_path / "film.png") as film, Image.open(tmp_path / "site.png") as one:
        assert film.width > 1000
        assert film.size != one.size


def test_a_crossed_out_word_has_no_share(model: Model) -> None:
    found = model.look("a b", 1).change(regard.look.changes.Token("text", 2))
    shares = maps_of_words(found, [(1,), (2,)], [0, 19])
    assert float(shares[0].min()) > 0
    assert float(shares[1].abs().max()) == 0
