"""Mixers that see a sequence as a whole: what each paper says of its own, padding, refusals, and what moves what."""

import math
from itertools import permutations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.model import Model
from regard.nn import influence
from regard.nn.attention import MultiHeadAttention
from regard.nn.cache import Cache
from regard.nn.mask import Mask, TensorBias
from regard.nn.mixers.fourier import Fourier, at_once, by_length
from regard.nn.mixers.tokens import TokenMLP
from regard.nn.mixers.workspace import SharedWorkspace
from regard.nn.site import Site
from regard.nn.tap import capture, listen
from tests.contracts.families import net
from tests.contracts.tools import CHOICES, DIM, HEADS, close, gradients, mixer, numbers, ragged, stirred

WHOLE = [name for name in CHOICES if not isinstance(mixer(CHOICES[name]), MultiHeadAttention)]


def test_they_are_all_here() -> None:
    assert {CHOICES[name] if isinstance(CHOICES[name], str) else CHOICES[name]["kind"] for name in WHOLE} == {
        "fourier",
        "token-mlp",
        "workspace",
    }


@pytest.mark.parametrize("name", WHOLE)
def test_every_position_and_every_weight_takes_part(name: str) -> None:
    layer, x = mixer(CHOICES[name]), numbers(2, 7, DIM, grad=True)
    y = layer(x)
    assert y.shape == x.shape
    names = [name for name, _ in layer.named_parameters()]
    of_x, *found = gradients(y, x, *layer.parameters())
    for place, gradient in zip(names, found, strict=True):
        assert gradient.isfinite().all(), place
        assert gradient.abs().sum() > 0 or place.endswith(".k.bias"), place  # a softmax does not see that one
    assert of_x.abs().sum(-1).all()


@pytest.mark.parametrize("side", ["left", "right", "holes"])
@pytest.mark.parametrize("name", WHOLE)
def test_a_padded_row_is_the_row_by_itself(name: str, side: str) -> None:
    """In outputs and gradients, whatever stands at padding, be it NaN."""
    layer, x = mixer(CHOICES[name]).eval(), numbers(3, 8, DIM, grad=True)
    keys = ragged(3, 8, side) if side != "holes" else torch.rand(3, 8) < 0.6
    keys[0] = True
    garbage = x.masked_fill(~keys[..., None], torch.nan)
    y = layer(garbage, mask=Mask(keys=keys))
    (slopes,) = gradients(y.masked_fill(~keys[..., None], 0.0), x)
    assert slopes.isfinite().all()
    assert not slopes[~keys].any()
    for row in range(3):
        close(y[row, keys[row]], layer(x[row : row + 1, keys[row]])[0])


@pytest.mark.parametrize("name", WHOLE)
def test_a_row_of_padding_alone_and_no_positions(name: str) -> None:
    layer, x = mixer(CHOICES[name]).eval(), numbers(2, 5, DIM)
    keys = torch.tensor([[True] * 5, [False] * 5])
    y = layer(x, mask=Mask(keys=keys))
    assert y.isfinite().all()
    close(y[:1], layer(x[:1]))
    assert layer(x[:0]).shape == (0, 5, DIM)
    assert layer(x[:, :0]).shape == (2, 0, DIM)


@pytest.mark.parametrize("name", WHOLE)
def test_what_cannot_be_honoured_is_refused(name: str) -> None:
    layer, x = mixer(CHOICES[name]), numbers(2, 5, DIM)
    pairs = torch.ones(5, 5, dtype=torch.bool)
    with pytest.raises(ValueError, match="cannot be causal"):
        layer(x, mask=Mask(causal=True))
    with pytest.raises(ValueError, match="does not support cross-attention to a context"):
        layer(x, x)
    with pytest.raises(ValueError, match="cannot take a bias"):
        layer(x, bias=TensorBias(numbers(HEADS, 5, 5)))
    with pytest.raises(ValueError, match=r"does not support Mask\.pairs"):
        layer(x, mask=Mask(pairs=pairs))
    with pytest.raises(ValueError, match="cannot decode with a cache"):
        layer(x, cache=Cache())
    with pytest.raises(ValueError, match=r"padding mask \(keys\) of 4 positions, expected 5"):
        layer(x, mask=Mask(keys=pairs[:2, :4]))


# ----------------------------------------------------------------------------------------------------------- fourier


def waves(n: int) -> tuple[Tensor, Tensor]:
    """cos and sin of 2 pi i j / n, one pair at a time."""
    angles = [[2 * math.pi * i * j / n for j in range(n)] for i in range(n)]
    return torch.tensor(angles, dtype=torch.float64).cos(), torch.tensor(angles, dtype=torch.float64).sin()


@pytest.mark.parametrize(("n", "d"), [(5, 4), (6, 7), (1, 3), (8, 1)])
def test_the_transform_by_its_definition(n: int, d: int) -> None:
    x, (cos_n, sin_n), (cos_d, sin_d) = numbers(2, n, d), waves(n), waves(d)
    close(Fourier()(x), cos_n @ x @ cos_d - sin_n @ x @ sin_d)
    assert not list(Fourier().parameters())


def test_it_is_linear_and_four_times_is_the_identity() -> None:
    x, y, mix = numbers(2, 6, 4), numbers(2, 6, 4), Fourier()
    close(mix(2 * x - 3 * y), 2 * mix(x) - 3 * mix(y))
    z = x.to(torch.complex128)
    for _ in range(4):
        z = torch.fft.fft2(z, norm="ortho")
    close(z.real, x)
    close(z.imag, torch.zeros_like(x))


@pytest.mark.parametrize("d", [1, 2, 6, 7])
def test_all_lengths_at_once_are_each_length(d: int) -> None:
    """In outputs and gradients; also the lengths of whole batches, where float32 would lose the square of a place."""
    lengths = torch.tensor([9, 0, 1, 4, 9])
    x = numbers(5, 9, d).masked_fill((torch.arange(9) >= lengths[:, None])[..., None], 0.0).requires_grad_()
    one, two = by_length(x, lengths), at_once(x, lengths)
    real = (torch.arange(9) < lengths[:, None])[..., None]
    close(one, two * real)
    close(gradients(one, x)[0] * real, gradients(two * real, x)[0] * real)


def test_all_lengths_at_once_in_float32() -> None:
    lengths = torch.tensor([1500, 1021])
    x = torch.randn(2, 1500, 2).masked_fill((torch.arange(1500) >= lengths[:, None])[..., None], 0.0)
    error = at_once(x, lengths)[1, :1021] - by_length(x.double(), lengths)[1, :1021]
    assert error.abs().max() < 1e-3  # of numbers about 50 and up to 200


# ------------------------------------------------------------------------------------------------------------ tokens


def test_tokens_by_their_definition() -> None:
    """The same weights for every feature, none between features."""
    layer, x = stirred(TokenMLP(5, 3)), numbers(2, 5, 4)
    up, down = layer.mlp.up, layer.mlp.down
    for b in range(2):
        for c in range(4):
            hidden = F.gelu(up.weight @ x[b, :, c] + up.bias)
            close(layer(x)[b, :, c], down.weight @ hidden + down.bias)


def test_a_shorter_sequence_ends_in_zeros_and_a_longer_one_is_refused() -> None:
    layer, x = stirred(TokenMLP(5, 3)), numbers(2, 3, 4)
    close(layer(x), layer(F.pad(x, (0, 0, 0, 2)))[:, :3])
    with pytest.raises(ValueError, match="for 5 positions, got 6"):
        layer(numbers(2, 6, 4))


def test_moved_positions_need_moved_weights() -> None:
    layer, x, order = stirred(TokenMLP(5, 3)), numbers(2, 5, 4), torch.tensor([3, 0, 4, 1, 2])
    y = layer(x)[:, order]
    assert not torch.allclose(layer(x[:, order]), y)
    with torch.no_grad():
        layer.mlp.up.weight.copy_(layer.mlp.up.weight[:, order])
        layer.mlp.down.weight.copy_(layer.mlp.down.weight[order])
        layer.mlp.down.bias.copy_(layer.mlp.down.bias[order])
    close(layer(x[:, order]), y)


def test_a_circulant_matrix_is_a_convolution() -> None:
    """Each feature by itself, around the end; with an activation that does nothing."""
    layer, x, taps = stirred(TokenMLP(6, 6, act=lambda y: y)), numbers(2, 6, 4), numbers(3)
    around = torch.zeros(6, 6, dtype=torch.float64)
    for i in range(6):
        for j in range(3):
            around[i, (i + j - 1) % 6] = taps[j]
    with torch.no_grad():
        layer.mlp.up.weight.copy_(around)
        layer.mlp.down.weight.copy_(torch.eye(6))
        layer.mlp.up.bias.zero_(), layer.mlp.down.bias.zero_()
    padded = torch.cat((x[:, -1:], x, x[:, :1]), 1).mT
    close(layer(x), F.conv1d(padded, taps.expand(4, 1, 3), groups=4).mT)


# --------------------------------------------------------------------------------------------------------- workspace


def workspace(slots: int = 3, keep: int | None = None) -> SharedWorkspace:
    return stirred(SharedWorkspace(Site(dim=DIM, heads=HEADS), slots, keep)).eval()


def test_the_workspace_step_by_step() -> None:
    """Write, gate, broadcast, from the layers' own weights, one slot and one head at a time."""
    layer, x, slots = workspace(keep=2), numbers(2, 5, DIM), numbers(2, 3, DIM)
    told, wide = layer.step(x, slots), DIM // HEADS
    for b in range(2):
        q, k, v = layer.write.q(slots[b]), layer.write.k(x[b]), layer.write.v(x[b])
        wrote = torch.zeros(3, DIM, dtype=torch.float64)
        for slot in range(3):
            for head in range(HEADS):
                part = slice(head * wide, (head + 1) * wide)
                scores = k[:, part] @ q[slot, part] / wide**0.5
                best = scores.topk(2).indices
                wrote[slot, part] = scores[best].softmax(0) @ v[best][:, part]  # the winners' weights sum to 1
        wrote = layer.write.out(wrote)
        wrote = wrote + layer.ffn(layer.norm(wrote))
        middle = x[b].mean(0)
        into = torch.sigmoid(layer.input.of_input(middle) + layer.input.of_slots(slots[b].tanh()))
        keep = torch.sigmoid(layer.forget.of_input(middle) + layer.forget.of_slots(slots[b].tanh()) + 1.0)
        after = into * wrote.tanh() + keep * slots[b]
        close(told.slots[b], after)
        q, k, v = layer.broadcast.q(x[b]), layer.broadcast.k(after), layer.broadcast.v(after)
        heard = torch.zeros(5, DIM, dtype=torch.float64)
        for head in range(HEADS):
            part = slice(head * wide, (head + 1) * wide)
            heard[:, part] = (q[:, part] @ k[:, part].T / wide**0.5).softmax(-1) @ v[:, part]
        close(told.heard[b], layer.broadcast.out(heard))


def test_all_may_write_softly() -> None:
    soft, hard, x = workspace(), workspace(keep=5), numbers(2, 5, DIM)
    hard.load_state_dict(soft.state_dict())
    close(soft(x), hard(x))
    few = workspace(keep=1)
    few.load_state_dict(soft.state_dict())
    assert not torch.allclose(soft(x), few(x))


def test_only_winners_learn() -> None:
    """What no slot lets in, in no head, moves the slots through the gates alone, and those see a mean."""
    layer, x = workspace(slots=1, keep=1), numbers(1, 6, DIM, grad=True)
    with capture(layer, "write.weights") as seen:
        layer.step(x, layer.slots)
    winners = seen["write.weights"][0][0].sum((0, 1)) > 0
    assert 0 < int(winners.sum()) < 6
    (slopes,) = gradients(layer.written(x, layer.slots, None), x)
    assert torch.equal(slopes[0].abs().sum(-1) > 0, winners)


@pytest.mark.parametrize("keep", [None, 2])
def test_any_order_of_positions_and_of_slots(keep: int | None) -> None:
    layer, x, order = workspace(keep=keep), numbers(2, 5, DIM), torch.tensor([3, 0, 4, 1, 2])
    close(layer(x[:, order]), layer(x)[:, order])
    y = layer(x)
    for turned in permutations(range(3)):
        close(layer.step(x, layer.slots[:, list(turned)].expand(2, -1, -1)).heard, y)


def test_what_is_heard_is_made_of_the_slots() -> None:
    """Of two slots, every position hears a mixture: differences of what is heard lie in one direction."""
    layer, x = workspace(slots=2), numbers(1, 9, DIM)
    with capture(layer, "broadcast.*") as seen:
        layer(x)
    weights, values, mixed = (seen[f"broadcast.{tap}"][0][0] for tap in ("weights", "values", "mixed"))
    close(mixed, weights @ values)
    for head in range(HEADS):
        apart = mixed[head] - mixed[head][:1]
        assert torch.linalg.matrix_rank(apart, atol=1e-9) == 1


def test_open_gates_are_two_steps_of_attention() -> None:
    """The input gate open and the forget gate shut: the slots are what was written."""
    layer, x = workspace(slots=4), numbers(2, 4, DIM)
    with torch.no_grad():
        layer.input.of_input.bias.fill_(1e3)
        layer.forget.of_input.bias.fill_(-1e3)
    told = layer.step(x, x)
    wrote = layer.written(x, x, None)
    close(told.slots, wrote.tanh())
    close(told.heard, layer.broadcast(x, wrote.tanh()))


# ----------------------------------------------------------------------------------------------------------- looking


@pytest.mark.parametrize("name", WHOLE)
def test_an_influence_is_the_norm_of_each_slope(name: str) -> None:
    """By the whole Jacobian; nothing is kept on the way, and the output stays the same to the bit."""
    layer, x = mixer(CHOICES[name]).eval(), numbers(2, 5, DIM)
    mask = Mask(keys=ragged(2, 5, "left"))
    with capture(layer, "influence") as seen:
        y = layer(x, mask=mask)
    assert torch.equal(y, layer(x, mask=mask))
    (found,) = seen["influence"]
    assert found.shape == (2, 1, 5, 5)
    jacobian = torch.autograd.functional.jacobian(lambda x: layer(x, mask=mask), x)
    for b in range(2):
        close(found[b, 0], jacobian[b, :, :, b].square().sum((1, 3)).sqrt())
    assert not found[1, 0][:, ~mask.keys[1]].any()


def test_an_influence_from_some_directions_is_near(monkeypatch: pytest.MonkeyPatch) -> None:
    x, layer = torch.randn(1, 6, 64), TokenMLP(8, 16)
    exact = influence.jacobian_norms(layer.mix, x, None)
    monkeypatch.setattr(influence, "EXACT", 1)
    some = influence.jacobian_norms(layer.mix, x, None)
    assert not torch.equal(exact, some)
    assert ((some - exact).abs() < 0.3 * exact).all()
    assert (some / exact - 1).square().mean().sqrt() < 0.1


def test_an_influence_cannot_be_replaced() -> None:
    layer, x = mixer("fourier"), numbers(1, 4, DIM)
    with listen(layer, "influence", lambda _, told: told * 0), pytest.raises(ValueError, match="only reported"):
        layer(x)


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("family", ["bert", "vit"])
def test_a_model_without_weights_can_be_looked_at(family: str, name: str) -> None:
    """Also where no gradient is asked for; maps are labelled by what they are."""
    model = Model(family, net(family, attention=CHOICES[name]))
    given = torch.randint(13, (1, 6)) if family == "bert" else torch.randn(1, 2, 8, 8, dtype=torch.float64)
    with torch.inference_mode():
        looked = model(given, look="blocks.*.mixer")
        several = model(given, look="*").maps
    assert list(looked.maps) == ["blocks.0.mixer", "blocks.1.mixer"]
    n = 6 if family == "bert" else 5
    for found in looked.maps.values():
        assert found.kind == "influence"
        assert found.weights.shape == (1, 1, n, n)
        assert (found.weights > 0).all()
        assert found.rows == found.columns
        assert found.rows.kind == ("text" if family == "bert" else "image")
    if "workspace" in name:
        write, broadcast = several["blocks.1.mixer.write"], several["blocks.1.mixer.broadcast"]
        assert (write.kind, broadcast.kind) == ("weights", "weights")
        assert write.rows.kind == broadcast.columns.kind == "slots"
        assert write.columns == broadcast.rows == looked.maps["blocks.1.mixer"].rows
        for one in (write, broadcast):
            close(one.weights.sum(-1), torch.ones_like(one.weights.sum(-1)))


def test_a_hybrid_has_both_kinds() -> None:
    model = Model("bert", net("bert", attention=("fourier", "softmax")))
    kinds = {name: one.kind for name, one in model(torch.randint(13, (1, 6)), look="*").maps.items()}
    assert kinds == {"blocks.0.mixer": "influence", "blocks.1.mixer": "weights"}


# -------------------------------------------------------------------------------------- the workspace of a whole model


def test_slots_are_carried_from_layer_to_layer() -> None:
    """One layer's weights, applied again and again; every image starts from the same slots."""
    model, images = net("workspace", depth=3), numbers(2, 2, 8, 8)
    x = model.patch(images).flatten(1, 2)
    x = torch.cat((model.class_token.expand(2, -1, -1), x), 1) + model.positions
    slots = model.mixer.slots.expand(2, -1, -1)
    for _ in range(3):
        told = model.mixer.step(model.mixer_norm(x), slots)
        x, slots = x + told.heard, told.slots
        x = x + model.ffn(model.ffn_norm(x))
    close(model(images), model.head(model.norm(x)[:, 0]))
    model(images.flip(0))
    close(model(images)[1:], model(images[1:]))


def test_a_workspace_is_looked_at_layer_by_layer() -> None:
    """Who wrote, who read, and what moved what through the slots, in each of the three rounds."""
    model = Model("workspace", net("workspace", depth=3, keep=2))
    with torch.inference_mode():
        calls = model(numbers(1, 2, 8, 8), look="*").calls
    assert {name: len(maps) for name, maps in calls.items()} == {"mixer": 3, "mixer.write": 3, "mixer.broadcast": 3}
    for write, broadcast, whole in zip(calls["mixer.write"], calls["mixer.broadcast"], calls["mixer"], strict=True):
        assert write.weights.shape == (1, HEADS, 3, 5)
        assert ((write.weights > 0).sum(-1) == 2).all()
        assert broadcast.weights.shape == (1, HEADS, 5, 3)
        assert (whole.kind, whole.weights.shape) == ("influence", (1, 1, 5, 5))
        assert (write.rows.kind, write.columns.grid, broadcast.rows) == ("slots", (2, 2), write.columns)
