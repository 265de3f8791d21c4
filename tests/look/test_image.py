"""What is computed from maps and answers over images: rollout, distance, occlusion, filters, position similarity."""

from dataclasses import replace
from itertools import product

import pytest
import torch
from torch import Tensor

from regard.errors import InputError
from regard.look import occlusion as covering
from regard.look.distance import grid_distances, mean_distance
from regard.look.flow import attention_flow, flow_row
from regard.look.maps import Looked, Map, look_at
from regard.look.occlusion import average, blur, deletion_curve, grey_image, label_logit, occlusion_map, probability
from regard.look.patches import filter_components, position_similarity
from regard.look.rollout import over_image, rolled_out
from regard.look.windows import joined_map
from regard.models import mixer, swin, vit
from regard.nn.axis import Axis
from regard.nn.positions import sinusoid

SMALL = vit.Config(image=16, patch=4, channels=1, classes=3, dim=16, depth=3, heads=2, hidden=32)


def looked_at(net: torch.nn.Module, images: Tensor, table: dict[str, tuple[str, str]] = vit.AXES) -> Looked[Tensor]:
    with torch.no_grad():
        return look_at(net, "*", lambda: net(images), table=table, axes=net.axes(images))


def maps(count: int, size: int, *, heads: int = 2, batch: int = 1, special: int = 0) -> list[Map]:
    """Random weights of some layers over a square grid."""
    torch.manual_seed(0)
    n = size * size + special
    axis = Axis("image", n, grid=(size, size))
    return [Map(f"layer {i}", torch.randn(batch, heads, n, n).double().softmax(-1), axis, axis) for i in range(count)]


# Rollout ----------------------------------------------------------------------------------------


def test_rollout_is_the_product_of_all_layers_the_last_one_leftmost() -> None:
    layers = maps(3, 2, special=1, batch=2)
    one = torch.eye(5).double()
    first, second, third = ((layer.weights.mean(1) + one) / 2 for layer in layers)
    found = rolled_out(layers)
    assert torch.allclose(found.weights[:, 0], third @ second @ first, atol=1e-12)
    assert not torch.allclose(found.weights[:, 0], first @ second @ third, atol=1e-3)
    assert torch.allclose(found.weights.sum(-1), torch.ones(2, 1, 5).double(), atol=1e-12)
    assert (found.rows, found.columns) == (layers[0].rows, layers[0].columns)


def test_one_layer_and_uniform_attention() -> None:
    (layer,) = maps(1, 3)
    assert torch.allclose(rolled_out([layer]).weights[:, 0], (layer.weights.mean(1) + torch.eye(9)) / 2)
    even = [replace(layer, weights=torch.full((1, 2, 9, 9), 1 / 9)) for layer in maps(4, 3)]
    found = rolled_out(even).weights[0, 0]
    off = found[~torch.eye(9, dtype=torch.bool)]
    assert torch.allclose(off, off[0].expand_as(off))  # uniform but for the identity's part
    assert torch.allclose(found.diagonal() - off[0], torch.tensor(0.5**4))


def test_rollout_moves_with_the_positions() -> None:
    layers, order = maps(3, 3), torch.randperm(9)
    moved = [replace(layer, weights=layer.weights[..., order, :][..., order]) for layer in layers]
    assert torch.allclose(rolled_out(moved).weights, rolled_out(layers).weights[..., order, :][..., order], atol=1e-12)


def test_rollout_of_a_net() -> None:
    """That a change of a patch reaches the class token where rollout says it may, and what is shown is of the image."""
    torch.manual_seed(0)
    seen = looked_at(vit.ViT(SMALL).eval(), torch.randn(2, 1, 16, 16))
    assert list(seen.maps) == [f"blocks.{i}.mixer" for i in range(3)]
    found = rolled_out(seen.maps.values())
    assert found.weights.shape == (2, 1, 17, 17)
    shown = over_image(found)
    assert shown.shape == (2, 4, 4)
    assert torch.allclose(shown.sum((-2, -1)), torch.ones(2))
    row = found.weights[:, 0, 0, 1:]
    assert torch.allclose(shown.flatten(1), row / row.sum(-1, keepdim=True))


def test_without_a_class_token_all_are_asked() -> None:
    (layer,) = maps(1, 3)
    assert torch.allclose(over_image(layer).flatten(1), layer.weights.mean((1, 2)))
    with pytest.raises(InputError, match="does not belong to an image"):
        over_image(replace(layer, columns=Axis("text", 9)))


def test_rollout_refuses_what_has_no_shares() -> None:
    (layer,) = maps(1, 2)
    with pytest.raises(InputError, match="at least one attention map"):
        rolled_out([])
    with pytest.raises(InputError, match="needs attention weights"):
        rolled_out([replace(layer, kind="influence")])
    with pytest.raises(InputError, match=r"off by 0\.5"):
        rolled_out([replace(layer, weights=layer.weights / 2)])
    rolled_out([replace(layer, weights=layer.weights.bfloat16())])
    with pytest.raises(InputError, match=r"a weight of -0\.5"):
        rolled_out([replace(layer, weights=torch.tensor([[1.5, -0.5], [0.5, 0.5]])[None, None])])
    with pytest.raises(InputError, match="2 queries and 4 keys"):
        rolled_out([replace(layer, weights=layer.weights[..., :2, :])])
    with pytest.raises(InputError, match="as in layer 0"):
        rolled_out([layer, *maps(1, 3)])
    net = mixer.MLPMixer(mixer.Config(image=16, patch=4, channels=1, classes=3, dim=8, depth=2, tokens=8, hidden=16))
    with pytest.raises(InputError, match="only has an influence map"):
        rolled_out(looked_at(net, torch.randn(1, 1, 16, 16), mixer.AXES).maps.values())


# Flow -------------------------------------------------------------------------------------------


def narrowest(layers: list[Tensor], output: int, entry: int) -> float:
    """The least that must be cut to part an output from an input, over all ways to divide the places between them."""
    n, depth = len(layers[0]), len(layers)
    best = float("inf")
    for kept in product((False, True), repeat=n * (depth - 1)):
        inner = [list(kept[i * n : (i + 1) * n]) for i in range(depth - 1)]
        sides = [[i != entry for i in range(n)], *inner, [i == output for i in range(n)]]  # True: with the output
        total = 0.0
        for layer, low, high in zip(layers, sides, sides[1:], strict=False):
            total += sum(float(layer[i, j]) for i in range(n) for j in range(n) if high[i] and not low[j])
        best = min(best, total)
    return best


def test_flow_through_one_layer_is_its_row() -> None:
    (layer,) = maps(1, 2, batch=2)
    found = attention_flow([layer], 3)
    assert found.weights.shape == (2, 1, 1, 4)
    wanted = (layer.weights.mean(1) + torch.eye(4)) / 2
    assert torch.allclose(found.weights[:, 0, 0], wanted[:, 3], atol=1e-5)


def at_once() -> None:
    """Nobody waits."""


def test_the_largest_flow_is_the_narrowest_cut() -> None:
    torch.manual_seed(0)
    layers = [torch.randn(3, 3).mul(2).softmax(-1) for _ in range(3)]
    for output in range(3):
        found = flow_row(layers, output, at_once)
        wanted = [narrowest(layers, output, entry) for entry in range(3)]
        assert found.tolist() == pytest.approx(wanted, abs=1e-5)
    assert flow_row(layers, 0, at_once).tolist() != pytest.approx(flow_row(layers[::-1], 0, at_once).tolist(), abs=1e-3)


def test_flow_over_an_image() -> None:
    layers = maps(2, 2, special=1)
    found = attention_flow(layers)
    assert over_image(found).shape == (1, 2, 2)
    assert float(over_image(found).sum()) == pytest.approx(1)
    with pytest.raises(InputError, match="output position out of range"):
        attention_flow(layers, 5)
    with pytest.raises(InputError, match="at least one attention map"):
        attention_flow([])


# Distance ---------------------------------------------------------------------------------------


def weighing(weights: Tensor, grid: tuple[int, int], special: int = 0) -> Map:
    axis = Axis("image", special + grid[0] * grid[1], grid=grid)
    return Map("one", weights, axis, axis)


def test_looking_at_oneself_and_everywhere() -> None:
    n = 14 * 14
    assert float(mean_distance(weighing(torch.eye(n)[None, None], (14, 14)), 16)) == 0
    even = mean_distance(weighing(torch.full((1, 1, n, n), 1 / n).double(), (14, 14)), 16)
    assert float(even) == pytest.approx(116.492, abs=5e-4)  # by enumeration, in the spec sheet
    places = [(i, j) for i in range(3) for j in range(5)]
    mean = sum(((a - c) ** 2 + (b - d) ** 2) ** 0.5 for a, b in places for c, d in places) / len(places) ** 2
    found = mean_distance(weighing(torch.full((2, 3, 15, 15), 1 / 15).double(), (3, 5)))
    assert torch.allclose(found, torch.full((2, 3), mean).double())


def test_a_class_token_has_no_place() -> None:
    """What it is given and what it gives changes nothing; rows sum to 1 without it."""
    (bare,) = maps(1, 3)
    wanted = mean_distance(bare, 4)
    with_token = torch.zeros(1, 2, 10, 10).double()
    with_token[..., 1:, 1:] = bare.weights * torch.rand(1, 2, 9, 1)
    with_token[..., 0] = 1 - with_token.sum(-1)
    assert torch.allclose(mean_distance(weighing(with_token, (3, 3), 1), 4), wanted)
    with_token[:, :, 5] = 0
    with_token[:, :, 5, 0] = 1  # this patch looks at the token alone: it is left out
    others = [i for i in range(9) if i != 4]
    far = (bare.weights * grid_distances((3, 3))).sum(-1)[..., others].mean(-1) * 4
    assert torch.allclose(mean_distance(weighing(with_token, (3, 3), 1), 4), far)


def test_a_window_bounds_the_distance() -> None:
    config = swin.Config(image=32, patch=4, channels=1, classes=3, dim=8, depth=(2,), heads=(2,), hidden=16, window=4)
    net = swin.Swin(config).eval()
    images = torch.randn(1, 1, 32, 32)
    for name, found in looked_at(net, images, swin.AXES).maps.items():
        far = mean_distance(found, 4)
        assert far.shape == (1, 2), name
        assert torch.allclose(far, mean_distance(joined_map(found), 4))
        assert 0 < float(far.max()) <= 4 * 3 * 2**0.5  # from corner to corner of a window of 4 x 4 patches


def test_a_distance_needs_places() -> None:
    (layer,) = maps(1, 2)
    with pytest.raises(InputError, match="on the same grid"):
        mean_distance(replace(layer, rows=Axis("image", 4), columns=Axis("image", 4)))
    with pytest.raises(InputError, match="image of \\(2, 2\\) and image of \\(4, 1\\)"):
        mean_distance(replace(layer, columns=Axis("image", 4, grid=(4, 1))))


# Occlusion --------------------------------------------------------------------------------------


@pytest.mark.parametrize("cover", [grey_image(0.25), average, blur(3)])
@pytest.mark.parametrize("stride", [4, 2, 3])
def test_a_linear_model_loses_what_it_was_given(cover: covering.Cover, stride: int) -> None:
    """Oracle: a(p) is the sum of w (x - base) over the square; where squares overlap, a pixel has their mean."""
    torch.manual_seed(0)
    image, weights = torch.randn(2, 8, 12).double(), torch.randn(3, 2, 8, 12).double()
    found = occlusion_map(
        lambda x: torch.einsum("bchw,kchw->bk", x, weights),
        image,
        1,
        patch=4,
        stride=stride,
        cover=cover,
        read=label_logit,
    )
    each = (weights[1] * (image - cover(image))).sum(0)
    total, count = torch.zeros(8, 12).double(), torch.zeros(8, 12)
    for top in {*range(0, 5, stride), 4}:
        for left in {*range(0, 9, stride), 8}:
            total[top : top + 4, left : left + 4] += each[top : top + 4, left : left + 4].sum()
            count[top : top + 4, left : left + 4] += 1
    assert torch.allclose(found, total / count)
    assert count.min() >= 1


def test_nothing_is_lost_where_nobody_looks() -> None:
    image = torch.rand(1, 8, 8)
    found = occlusion_map(
        lambda x: x[:, 0, :4].flatten(1)[:, :5], image, 2, patch=2, cover=grey_image(-1), read=label_logit
    )
    assert float(found[4:].abs().max()) == 0
    assert torch.allclose(found[:2, 2:4], image[0, 0, 2] + 1)


def test_probability_and_logit() -> None:
    image, weights = torch.rand(1, 4, 4), torch.randn(3, 16)
    logits = image.flatten() @ weights.T
    covered = torch.zeros(16) @ weights.T
    for read, wanted in ((probability, logits.softmax(-1) - covered.softmax(-1)), (label_logit, logits - covered)):
        found = occlusion_map(lambda x: x.flatten(1) @ weights.T, image, 2, patch=4, cover=grey_image(0.0), read=read)
        assert torch.allclose(found, wanted[2].expand(4, 4), atol=1e-6)


def test_covers() -> None:
    image = torch.arange(18.0).view(2, 3, 3)
    assert average(image).unique().tolist() == [4.0, 13.0]
    assert torch.equal(blur(1)(image), image)
    assert float(blur(3)(image)[0, 1, 1]) == pytest.approx(4.0)
    assert float(blur(3)(image)[0, 0, 0]) == pytest.approx((4 * 0 + 2 * 1 + 2 * 3 + 4) / 9)
    with pytest.raises(InputError, match="odd"):
        blur(2)


@pytest.mark.parametrize(("patch", "stride"), [(9, 1), (0, 1), (4, 5), (4, 0)])
def test_squares_that_do_not_cover(patch: int, stride: int) -> None:
    with pytest.raises(InputError, match="invalid patch or stride"):
        occlusion_map(lambda x: x.flatten(1), torch.rand(1, 8, 8), 0, patch=patch, stride=stride)


def test_deletion_covers_the_worthiest_first() -> None:
    image = torch.rand(1, 4, 6) + 0.5
    worth = image[0].unflatten(1, (3, 2)).unflatten(0, (2, 2)).sum((1, 3))
    found = deletion_curve(
        lambda x: x.sum((1, 2, 3))[:, None], image, 0, worth, cover=grey_image(0.0), read=label_logit
    )
    cells = worth.flatten().sort(descending=True).values
    assert torch.allclose(found, image.sum() - torch.cat((torch.zeros(1), cells.cumsum(0))), atol=1e-5)
    with pytest.raises(InputError, match="not a multiple of the number of cells"):
        deletion_curve(lambda x: x, image, 0, torch.rand(3, 3))
    with pytest.raises(InputError, match="single image"):
        deletion_curve(lambda x: x, image[None], 0, worth)


# Filters and positions --------------------------------------------------------------------------


def test_components_are_those_of_the_covariance() -> None:
    """And with all of them the filters come back."""
    torch.manual_seed(0)
    filters = torch.randn(20, 3, 2, 2).double() * torch.arange(1, 13).view(3, 2, 2)
    found = filter_components(filters, 12)
    rows = filters.flatten(1)
    values, vectors = torch.linalg.eigh(torch.cov(rows.T))
    assert torch.allclose(found.shares, values.flip(0) / values.sum())
    match = (found.tiles.flatten(1) * vectors.T.flip(0)).sum(-1).abs()
    assert torch.allclose(match, torch.ones(12).double())
    centred = rows - rows.mean(0)
    basis = found.tiles.flatten(1)
    assert torch.allclose(centred @ basis.T @ basis, centred)
    with pytest.raises(InputError, match="1 to 12"):
        filter_components(filters, 13)


def test_similarity_of_sines_in_two_axes() -> None:
    """Half of the width tells the row and half the column: the cosine is the mean of both, highest at the place."""
    rows, columns = sinusoid(torch.arange(4), 32), sinusoid(torch.arange(5), 32)
    table = torch.cat((rows[:, None].expand(4, 5, 32), columns[None].expand(4, 5, 32)), -1).flatten(0, 1)
    found = position_similarity(torch.cat((torch.randn(2, 64), table))[None], (4, 5))
    assert found.shape == (4, 5, 4, 5)
    down, along = rows @ rows.T / 16, columns @ columns.T / 16
    assert torch.allclose(found, (down[:, None, :, None] + along[None, :, None, :]) / 2, atol=1e-5)
    flat = found.flatten(2).flatten(0, 1)
    assert torch.equal(flat.argmax(-1), torch.arange(20))
    assert float(found[1, 1, 1, 4]) > float(found[1, 1, 3, 4])  # the same row is nearer than another
    with pytest.raises(InputError, match="does not match the grid"):
        position_similarity(table, (5, 5))
