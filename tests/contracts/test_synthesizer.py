"""Synthesizer: what its scores know and do not know, its forms and mixtures, and its fixed length."""

import pytest
import torch
from torch import Tensor, nn

from regard.nn.attention import MultiHeadAttention, Softmax
from regard.nn.cache import Cache, Slot
from regard.nn.kernels.synthesizer import Synthesizer
from regard.nn.mask import CAUSAL, Mask
from regard.nn.mechanisms import Choice, build_mixer
from regard.nn.positions import Rotary
from regard.nn.site import Site
from regard.nn.tap import capture
from regard.zoo import count_parameters, empty_net, find_preset
from tests.contracts.tools import DIM, HEADS, WIDTH, close, gradients, kernel, numbers, ragged, stirred

N = 12
DENSE: dict[str, Choice] = {
    "dense": {"kind": "synthesizer-dense", "length": N},
    "factorised": {"kind": "synthesizer-dense", "form": "factorised", "length": N},
}
RANDOM: dict[str, Choice] = {
    "random": {"kind": "synthesizer-random", "length": N},
    "fixed": {"kind": "synthesizer-random", "form": "fixed", "length": N},
    "thin": {"kind": "synthesizer-random", "form": "factorised", "rank": 3, "length": N},
}
ALL_FORMS = DENSE | RANDOM


def synthesizer(choice: Choice) -> Synthesizer:
    found = kernel(choice)
    assert isinstance(found, Synthesizer)
    return found


def layer(choice: Choice, *, causal: bool = True) -> MultiHeadAttention:
    found = stirred(build_mixer(choice, Site(dim=DIM, heads=HEADS, causal=causal))).eval()
    assert isinstance(found, MultiHeadAttention)
    return found


@pytest.mark.parametrize("name", ALL_FORMS)
def test_what_a_map_depends_on(name: str) -> None:
    """Row i of a dense map on x_i and on no other; a random map on nothing."""
    attention, x = layer(ALL_FORMS[name], causal=False), numbers(1, 5, DIM, grad=True)
    with capture(attention, grad=True) as seen:
        attention(x)
    (weights,) = seen["weights"]
    felt = torch.zeros(5, 5, dtype=torch.bool)
    for i in range(5):
        slope = numbers(HEADS, 5)
        if weights.requires_grad and name in DENSE:
            (found,) = torch.autograd.grad((weights[0, :, i] * slope).sum(), x, retain_graph=True)
            felt[i] = found[0].abs().sum(-1) > 0
    assert torch.equal(felt, torch.eye(5, dtype=torch.bool) if name in DENSE else torch.zeros(5, 5, dtype=torch.bool))
    with capture(attention) as other:
        attention(numbers(1, 5, DIM))
    assert torch.equal(other["weights"][0], weights) == (name in RANDOM)


def test_dense_is_the_formula() -> None:
    """Also with its own projections: W2 relu(W1 x + b1) + b2, not scaled."""
    attention, x = layer(DENSE["dense"], causal=False), numbers(2, 5, DIM)
    part = attention.kernel.parts[0]
    with capture(attention) as seen:
        attention(x)
    for h in range(HEADS):
        rows = slice(h * WIDTH, (h + 1) * WIDTH)
        hidden = torch.relu(x @ attention.q.weight[rows].T + attention.q.bias[rows])
        scores = hidden @ part.weight[h, :, :5] + part.bias[h, :, :5]
        close(seen["weights"][0][:, h], scores.softmax(-1))
    assert attention.v is None, "there are no keys: one projection for the values"
    assert sorted(name for name, _ in layer(RANDOM["random"]).named_parameters()) == [
        "kernel.parts.0.table",
        "out.bias",
        "out.weight",
        "v.bias",
        "v.weight",
    ]


def test_factorised_dense_is_a_product_of_guesses() -> None:
    attention = synthesizer(DENSE["factorised"])
    part, q = attention.parts[0], numbers(1, HEADS, 3, WIDTH)
    assert part.stretch == 4
    far = torch.relu(q) @ part.far.weight + part.far.bias
    near = torch.relu(q) @ part.near.weight + part.near.bias
    scores = torch.stack([far[..., j // 4] * near[..., j % 4] for j in range(10)], -1)
    close(attention.weights(q, numbers(1, HEADS, 10, WIDTH)), scores.softmax(-1))


def test_random_of_zeros_is_the_mean() -> None:
    attention, v = synthesizer(RANDOM["random"]), numbers(2, HEADS, 6, WIDTH)
    nn.init.zeros_(attention.parts[0].table)
    close(attention(v, v, v), v.mean(2, keepdim=True).expand_as(v))
    count = torch.arange(1, 7).double()[:, None]
    close(attention(v, v, v, CAUSAL), v.cumsum(2) / count)


def test_factors_of_full_rank_can_be_any_matrix() -> None:
    whole = synthesizer(RANDOM["random"])
    thin = synthesizer({"kind": "synthesizer-random", "form": "factorised", "rank": N, "length": N})
    with torch.no_grad():
        thin.parts[0].rows.copy_(whole.parts[0].table)
        thin.parts[0].columns.copy_(torch.eye(N).expand(HEADS, N, N))
    x = numbers(2, HEADS, 7, WIDTH)
    close(thin(x, x, x, CAUSAL), whole(x, x, x, CAUSAL))
    small = synthesizer(RANDOM["thin"])
    scores = small.parts[0].rows @ small.parts[0].columns.mT
    assert torch.linalg.matrix_rank(scores).tolist() == [3] * HEADS


def test_fixed_is_not_learned_but_kept() -> None:
    attention = layer(RANDOM["fixed"])
    assert not [name for name, _ in attention.named_parameters() if "kernel" in name]
    assert "kernel.parts.0.table" in attention.state_dict()
    other, x = layer(RANDOM["fixed"]), numbers(2, 5, DIM)
    assert not torch.allclose(other(x), attention(x))
    other.load_state_dict(attention.state_dict())
    close(other(x), attention(x))


def test_each_head_has_its_own_map() -> None:
    for choice in ALL_FORMS.values():
        q = numbers(1, 1, 4, WIDTH).expand(1, HEADS, 4, WIDTH)
        weights = synthesizer(choice).weights(q, q)
        for h in range(1, HEADS):
            assert not torch.allclose(weights[:, h], weights[:, 0])


def test_a_mixture_is_as_loud_as_it_has_learned() -> None:
    """At first all parts have one voice each; one that drowns the others out is alone."""
    words = ["random", "dense", "vanilla"]
    mixed = synthesizer({"kind": "synthesizer", "parts": words, "length": N})
    q, k = numbers(2, HEADS, 5, WIDTH), numbers(2, HEADS, 5, WIDTH)
    with torch.no_grad():
        mixed.loudness.zero_()
    single = [mixed.parts[0].table[:, :5, :5], mixed.parts[1].weight, q @ k.mT / WIDTH**0.5]
    single[1] = torch.relu(q) @ single[1][..., :5] + mixed.parts[1].bias[..., :5]
    close(mixed.weights(q, k), (sum(single) / 3).softmax(-1))
    for i, scores in enumerate(single):
        with torch.no_grad():
            mixed.loudness.copy_(torch.eye(3)[i] * 1000)
        close(mixed.weights(q, k), scores.softmax(-1).expand(2, HEADS, 5, 5))
    close(mixed(q, k, k), Softmax()(q, k, k))  # vanilla alone


def test_a_mixture_learns_its_loudness() -> None:
    mixed = synthesizer({"kind": "synthesizer", "length": N})
    assert [type(part).__name__ for part in mixed.parts] == ["Random", "Vanilla"]
    q = numbers(2, HEADS, 5, WIDTH)
    assert gradients(mixed(q, q, q), mixed.loudness)[0].abs().sum() > 0


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", ALL_FORMS)
def test_padding_takes_no_row_and_no_column(name: str, side: str) -> None:
    attention, x, keys = layer(ALL_FORMS[name]), numbers(3, 7, DIM), ragged(3, 7, side)
    found = attention(x, mask=Mask(causal=True, keys=keys))
    for row in range(3):
        close(found[row][keys[row]], attention(x[row : row + 1, keys[row]], mask=CAUSAL)[0])


@pytest.mark.parametrize("name", ALL_FORMS)
def test_positions_are_counted_not_places(name: str) -> None:
    """Padding may make a row longer than the longest sentence; a sentence that is too long is refused."""
    attention, x = layer(ALL_FORMS[name]), numbers(1, N + 3, DIM)
    keys = torch.arange(N + 3)[None] >= 3
    close(attention(x, mask=Mask(causal=True, keys=keys))[:, 3:], attention(x[:, 3:], mask=CAUSAL))
    told = f"position {N} is out of range for a synthesizer with {N} positions"
    for mask in (CAUSAL, Mask(), Mask(keys=torch.arange(N + 3)[None] >= 2), Mask(True, torch.tensor([3]))):
        with pytest.raises(ValueError, match=r"position 1[2-7] is out of range for a synthesizer with 12 positions"):
            attention(x, mask=mask)
    cache = Cache()
    attention(x[:, :N], mask=cache.take(N), cache=cache)
    with pytest.raises(ValueError, match=told):
        attention(x[:, :1], mask=cache.take(1), cache=cache)


@pytest.mark.parametrize("name", ALL_FORMS)
def test_it_decodes(name: str) -> None:
    attention, x = synthesizer(ALL_FORMS[name]), numbers(2, HEADS, 9, WIDTH)
    full, slot, parts = attention(x, x, x, CAUSAL), Slot(0), []
    for some in (slice(0, 4), slice(4, 5), slice(5, 9)):
        parts.append(attention.step(slot, x[:, :, some], x[:, :, some], x[:, :, some], Mask(True, some.start)))
    close(torch.cat(parts, 2), full)


def test_one_map_serves_the_whole_batch() -> None:
    """Without padding the scores of random parts are made once, whatever the batch."""
    attention, sizes = synthesizer(RANDOM["random"]), []
    inner = attention.map

    def heard(*given) -> Tensor:
        sizes.append(inner(*given).shape)
        return inner(*given)

    attention.map = heard
    x = numbers(7, HEADS, 5, WIDTH)
    y = attention(x, x, x, CAUSAL)
    assert sizes == [(HEADS, 5, 5)]
    close(y, attention.weights(x, x, CAUSAL) @ x)


def test_what_cannot_be_is_refused() -> None:
    site = Site(dim=DIM, heads=HEADS, length=N)
    for choice, place, told in [
        ("synthesizer-dense", Site(dim=DIM, heads=HEADS), "needs the maximum sequence length: set `length`"),
        ("synthesizer", Site(dim=DIM, heads=HEADS, length=N, rotary=Rotary(4)), "does not support rotary positions"),
        (
            "synthesizer-random",
            Site(dim=DIM, heads=HEADS, length=N, cross=True),
            "does not support cross-attention to a context",
        ),
        ({"kind": "synthesizer", "parts": []}, site, "at least one part"),
        ({"kind": "synthesizer-random", "form": "factorised", "rank": 0}, site, "rank must be at least 1, got 0"),
        ({"kind": "synthesizer", "parts": ["vanila"]}, site, "parts"),
    ]:
        with pytest.raises(ValueError, match=told):
            build_mixer(choice, place)


def test_whole_models_differ_from_the_transformer_by_what_the_paper_says() -> None:
    """Twelve layers of eight heads for 256 words: a mixture has a matrix for each head and one number for each part; a
    random one has no queries and no keys, a dense one no keys, but a second layer."""
    plain = count_parameters(empty_net(*find_preset("transformer-base", {})))
    maps, projection = 12 * 8 * 256 * 256, 12 * (512 * 512 + 512)
    guess = 12 * 8 * (64 * 256 + 256)
    for name, more in {"": maps + 12 * 2, "-random": maps - 2 * projection, "-dense": guess - projection}.items():
        assert count_parameters(empty_net(*find_preset(f"synthesizer-base{name}", {}))) == plain + more
