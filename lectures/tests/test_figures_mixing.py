"""The figures that train nets which mix without attention, or with less of it: every check can fail."""

from typing import Any

import pytest
import torch

from lectures.tests.test_figures import every_check_fails
from regard_lectures.efficient import any_order, equilateral, shuffled_patches, without_attention
from regard_lectures.table import FIGURES

SPOILED: dict[str, list[tuple[str, Any]]] = {
    "10.7b": [
        ("perceiver.straight", 0.8),
        ("perceiver.apart", 0.1),
        ("perceiver.places along", 0.5),
        ("perceiver.again", 0.1),
        ("perceiver.places left behind", 0.8),
        ("convolutional.straight", [0.8, 0.8, 0.8]),
        ("convolutional.mixed", [0.95] * 3),
    ],
    "10.7c": [
        ("calls.0", "look latents.again"),
        ("calls", ["look latents.cross"]),
        ("inputs.0", 49),
        ("inputs.1", 3),
        ("weights", 10_000_000),
        ("latents.0", 50_000),
        ("scores", 1e12),
    ],
    "10.8b": [
        ("ways.all look at all.weights", 10_000),
        ("ways.all look at all.scores", 10_000),
        ("writing", 256),
        ("ways.all look at all.right", [1.1] * 3),
        *((f"ways.{name}.right", [0.5] * 3) for name in equilateral.MAIN),
        ("on blobs", 0.01),
        ("ways.1 slot, 5 write.right", [1.1]),
    ],
    "10.9c": [
        ("Mixer.weights", 10_000),
        *((f"{name}.in order", [0.5] * 3) for name in ("Mixer", "ViT", "convolutional")),
        *((f"{name}.again", 0.1) for name in ("Mixer", "ViT")),
        ("convolutional.shuffled", [0.9] * 3),
        ("alike.in order", 0.0),
        ("alike.shuffled", 0.9),
        ("alike.shuffled, put back", 0.0),
    ],
    "10.10c": [
        ("words.none.0", 0.9),
        ("words.fourier.1", 0.9),
        ("words.random", [0.9] * 3),
        ("labels.none.1", 0.9),
        ("labels.fourier", [0.99] * 3),
        ("labels.attention", [0.6] * 3),
        ("seconds.256.fourier", 9.0),
        ("seconds.512.fourier", 9.0),
    ],
}


def test_all_of_these_figures_are_in_the_table() -> None:
    assert [name for name in FIGURES if name in SPOILED] == list(SPOILED)


@pytest.mark.parametrize("name", list(SPOILED))
def test_every_check_can_fail(name: str) -> None:
    every_check_fails(name, SPOILED[name])


def test_shuffled_patches_are_the_same_patches() -> None:
    images, order = torch.arange(784.0).view(1, 1, 28, 28), torch.randperm(49)
    cut = torch.nn.functional.unfold(images, 4, stride=4)  # (1, pixels of a patch, patches)
    turned = torch.nn.functional.unfold(shuffled_patches.shuffled(images, order), 4, stride=4)
    assert torch.equal(turned, cut[..., order])


def test_a_net_that_starts_along_says_the_same() -> None:
    images, order = torch.randn(2, 1, 28, 28), torch.randperm(49)
    for make in (shuffled_patches.mixer, shuffled_patches.vit):
        net = make()
        with torch.no_grad():
            net.head.weight.normal_()  # it begins at zero
            wanted = net(images)
            shuffled_patches.started_along(net, order)
            moved = net(shuffled_patches.shuffled(images, order))
        assert torch.allclose(moved, wanted, atol=1e-5)
        assert not torch.allclose(net(images), wanted, atol=1e-3)


def test_pixels_move_as_their_places_do() -> None:
    net, order = any_order.Perceiver(any_order.SMALL), torch.randperm(784)
    images = torch.randn(2, 1, 28, 28)
    with torch.no_grad():
        assert torch.equal(net.inputs(any_order.mixed(images, order))[..., 0], net.inputs(images)[:, order, 0])
        assert torch.allclose(any_order.Moved(net, order)(images), net(images), atol=1e-5)


def test_triangles_are_what_their_labels_say() -> None:
    """Blobs are found again by their brightness: the three corners' distances are equal where the label says so."""
    torch.manual_seed(0)
    images, labels = equilateral.triangles(40)
    for image, label in zip(images[:, 0], labels.tolist(), strict=True):
        corners = found_corners(image)
        sides = torch.pdist(corners)
        assert (float(sides.max() / sides.min()) < 1.1) == bool(label), (corners, label)


def found_corners(image: torch.Tensor) -> torch.Tensor:
    """The middle of what is near the brightest pixel, three times; each time that is wiped out.  -> (3, 2)"""
    places = torch.stack(torch.meshgrid(*[torch.arange(len(image))] * 2, indexing="ij"), -1)
    corners = []
    for _ in range(3):
        brightest = places.flatten(0, 1)[image.argmax()]
        near = image * ((places - brightest).square().sum(-1) < 17)
        corners.append((near[..., None] * places).sum((0, 1)) / near.sum())
        image = image - near
    return torch.stack(corners)


def test_no_mixing_keeps_tokens_apart_and_a_random_matrix_does_not() -> None:
    torch.manual_seed(0)
    ids = torch.randint(20, (1, 6))
    other = ids.clone()
    other[0, 3] = (ids[0, 3] + 1) % 20
    for kind, apart in (("none", True), ("random", False), ("fourier", False), ("attention", False)):
        net = without_attention.build(kind, "words", vocab=20, length=8).eval()
        with torch.no_grad():
            moved = (net.read(ids) - net.read(other)).abs().amax(-1)[0]
        assert moved[3] > 1e-3
        assert (float(moved[[0, 1, 2, 4, 5]].max()) < 1e-6) == apart, kind


def test_padding_is_nothing_to_a_random_matrix() -> None:
    torch.manual_seed(0)
    net = without_attention.build("random", "words", vocab=20, length=8).eval()
    ids = torch.randint(20, (1, 5))
    longer = torch.cat((ids, torch.zeros(1, 2, dtype=torch.long)), 1)
    keys = torch.arange(7)[None] < 5
    with torch.no_grad():
        assert torch.allclose(net.read(longer, keys=keys)[:, :5], net.read(ids), atol=1e-5)
