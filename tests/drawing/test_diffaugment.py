"""DiffAugment: nothing where it has no strength, what the paper says where it has, and gradients of gradients."""

from functools import partial

import pytest
import torch
from torch import Tensor

from regard.modalities.drawing.diffaugment import DiffAugment, brightness, contrast, cut_out, saturation, translated

ALL = DiffAugment(colour=1.0, translation=0.25, cutout=0.5)


def images(b: int = 4, c: int = 3, side: int = 8) -> Tensor:
    torch.manual_seed(0)
    return torch.randn(b, c, side, side, dtype=torch.float64)


def test_without_strength_images_stay_as_they_are() -> None:
    x = images()
    state = torch.get_rng_state()
    assert DiffAugment()(x) is x
    assert torch.equal(torch.get_rng_state(), state)


def test_each_image_and_each_call_is_changed_by_itself() -> None:
    x = images(1).expand(3, -1, -1, -1)
    one, two = ALL(x), ALL(x)
    assert one.shape == x.shape
    assert not torch.allclose(one, two)
    assert not torch.allclose(one[0], one[1])


def test_colours_keep_what_they_should() -> None:
    x = images()
    assert torch.allclose((brightness(x, 1.0) - x).std((1, 2, 3)), torch.zeros(4).double(), atol=1e-12)
    assert (brightness(x, 1.0) - x).abs().max() <= 0.5
    assert torch.allclose(saturation(x, 1.0).mean(1), x.mean(1))
    assert torch.allclose(contrast(x, 1.0).mean((1, 2, 3)), x.mean((1, 2, 3)))
    share = contrast(x, 1.0).std((1, 2, 3)) / x.std((1, 2, 3))
    assert ((share >= 0.5) & (share <= 1.5)).all()
    grey = images(c=1)
    assert torch.allclose(saturation(grey, 1.0), grey)  # it has none


def test_images_move_by_whole_pixels_and_zeros_come_in() -> None:
    x, seen = images(200, 1), set()
    for before, after in zip(x[:, 0], translated(x, 0.25)[:, 0], strict=True):
        padded = torch.zeros(12, 12, dtype=torch.float64)
        padded[2:10, 2:10] = before
        places = [
            (i, j) for i in range(5) for j in range(5) if torch.equal(padded[4 - i : 12 - i, 4 - j : 12 - j], after)
        ]
        assert len(places) == 1
        seen.add(places[0])
    assert len(seen) == 25  # every shift of up to two pixels either way


def test_a_square_is_cut_out() -> None:
    x = torch.ones(100, 2, 8, 8)
    sizes = set()
    for one in 1 - cut_out(x, 0.5):
        assert torch.equal(one[0], one[1])
        rows, columns = one[0].sum(1), one[0].sum(0)
        sizes.add((int(rows.count_nonzero()), int(columns.count_nonzero())))
        assert one[0].sum() == rows.max() * columns.max()  # a rectangle
    assert max(sizes) == (4, 4)
    assert min(min(size) for size in sizes) >= 2  # its middle lies within the image


@pytest.mark.parametrize(
    "change", [ALL, partial(translated, share=0.25), partial(cut_out, share=0.5), partial(contrast, strength=1.0)]
)
def test_it_is_differentiated_twice(change: DiffAugment) -> None:
    x = images(2, 2, 4).requires_grad_()

    def same(x: Tensor) -> Tensor:
        torch.manual_seed(1)
        return change(x).square()

    assert torch.autograd.gradcheck(same, x)
    assert torch.autograd.gradgradcheck(same, x)


@pytest.mark.parametrize(("name", "value"), [("colour", -0.1), ("translation", 1.5), ("cutout", 2)])
def test_strengths_beyond_their_range_are_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name} = {value} is not between 0 and 1"):
        DiffAugment(**{name: value})
