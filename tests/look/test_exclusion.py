"""Leaving tokens out of a text: as a mask would, and by another in their place."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.look import exclusion
from regard.look.exclusion import replaced, unlooked, unseen, without
from regard.look.maps import look_at
from regard.models import bert, gpt, transformer
from regard.nn.attention import Kernel, MultiHeadAttention, Softmax
from regard.nn.cache import Cache
from regard.nn.kernels.additive import Additive
from regard.nn.mask import Mask
from regard.nn.positions import ALiBi
from regard.nn.tap import capture
from regard.zoo import FAMILIES
from tests.contracts.families import inputs, net

TABLE = {"mixer": ("tokens", "tokens")}


class Single(nn.Module):
    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.mixer = MultiHeadAttention(16, 4, kernel=kernel)

    def forward(self, x: Tensor, mask: Mask, bias: Any = None) -> Tensor:
        return self.mixer(x, mask=mask, bias=bias)


@pytest.mark.parametrize("kernel", [Softmax(), Softmax(scale=3.0), Additive(4, 4)])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("left", [[2], [0], [1, 4], [5]])
def test_it_is_a_mask_on_these_keys(kernel: Kernel, causal: bool, left: list[int]) -> None:
    model, x = Single(kernel), torch.randn(3, 6, 16)
    keys = torch.ones(3, 6, dtype=torch.bool)
    keys[:, left] = False
    others = [i for i in range(6) if i not in left]
    with torch.no_grad():
        with capture(model) as wanted:
            masked = model(x, Mask(causal, keys=keys))
        with without(model, left, "tokens", TABLE) as names, capture(model) as seen:
            found = model(x, Mask(causal))
    assert names == ["mixer"]
    (weights,), (explicit,) = seen["mixer.weights"], wanted["mixer.weights"]
    assert torch.allclose(weights[:, :, others], explicit[:, :, others], atol=1e-6)
    assert torch.allclose(found[:, others], masked[:, others], atol=1e-6)
    assert float(weights[..., left].abs().max()) == 0
    if causal and left == [0]:  # the first may look at nobody but itself
        assert float(weights[:, :, 0].abs().max()) == 0
        assert torch.equal(found[:, 0], model.mixer.out.bias.expand(3, -1))


def test_with_a_bias_on_the_scores() -> None:
    model, x = Single(Softmax()), torch.randn(2, 5, 16)
    keys = torch.tensor([True, True, True, True, False])
    with torch.no_grad():
        wanted = model(x, mask := Mask(keys=keys.expand(2, 5)), ALiBi(4, mask))
        with without(model, [4], "tokens", TABLE):
            assert torch.allclose(model(x, Mask(), ALiBi(4, Mask()))[:, :4], wanted[:, :4], atol=1e-6)


def test_of_a_whole_net_the_last_word_is_as_padding() -> None:
    reader, ids = net("bert"), torch.randint(13, (2, 6))
    keys = torch.arange(6).expand(2, 6) < 5
    with torch.no_grad(), without(reader, [5], "tokens", bert.AXES):
        found = reader(ids).words
    assert torch.allclose(found[:, :5], reader(ids, keys=keys).words[:, :5], atol=1e-12)
    assert not torch.allclose(found[:, :5], reader(ids).words[:, :5], atol=1e-3)
    translator, source, target = net("transformer"), ids, torch.randint(13, (2, 4))
    with torch.no_grad(), without(translator, [5], "source", transformer.AXES) as names:
        found = translator(source, target)
    assert names == ["encoder.0.mixer", "encoder.1.mixer", "decoder.0.cross", "decoder.1.cross"]
    assert torch.allclose(found, translator(source, target, source_keys=keys), atol=1e-12)
    with torch.no_grad(), without(translator, [1], "target", transformer.AXES) as names:
        found = translator(source, target)
    assert names == ["decoder.0.mixer", "decoder.1.mixer"]
    assert torch.allclose(found[:, 0], translator(source, target)[:, 0])  # which may not look there anyway


def test_a_crossed_out_word_may_be_any() -> None:
    """Whatever stands there, no other place of the net notices."""
    model, ids = net("bert"), torch.randint(13, (1, 6))
    other = ids.clone()
    other[0, 2] = (ids[0, 2] + 1) % 13
    rest = [0, 1, 3, 4, 5]
    with torch.no_grad(), without(model, [2], "tokens", bert.AXES):
        assert torch.allclose(model(ids).words[:, rest], model(other).words[:, rest], atol=1e-12)
        assert not torch.allclose(model(ids).words[:, 2], model(other).words[:, 2], atol=1e-3)


def test_while_a_text_is_written() -> None:
    """A position that comes later is left out from then on, and the steps are the whole."""
    model, ids, cache = net("gpt"), torch.randint(13, (2, 6)), Cache()
    with torch.no_grad(), without(model, [3], "tokens", gpt.AXES):
        whole = model(ids)
        parts = torch.cat([model(part, cache=cache) for part in ids.split((2, 1, 1, 2), 1)], 1)
    assert torch.allclose(parts, whole, atol=1e-12)
    assert torch.allclose(whole[:, :3], model(ids)[:, :3], atol=1e-12)
    assert not torch.allclose(whole[:, 4:], model(ids)[:, 4:], atol=1e-3)


def test_rows_are_shares_before_and_after() -> None:
    weights = torch.tensor([[0.5, 0.25, 0.25], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])[None, None]
    found = unlooked(weights, [0], "one")
    assert torch.equal(found[0, 0], torch.tensor([[0.0, 0.5, 0.5], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]))
    assert torch.equal(unlooked(weights, [7], "one"), weights)  # not there yet
    for wrong in (2 * weights, torch.tensor([[[[1.5, -0.5]]]])):
        with pytest.raises(InputError, match="rows that sum to 1"):
            unlooked(wrong, [0], "one")
    half = torch.randn(1, 2, 64, 64).softmax(-1).bfloat16()
    assert torch.allclose(unlooked(half, [3], "one").float().sum(-1), torch.ones(1, 2, 64), atol=0.02)


def test_each_token_alone() -> None:
    model, ids = net("gpt"), torch.randint(13, (2, 5))

    def answer() -> Tensor:
        found: Tensor = model(ids)[:, -1, 4]
        return found

    worth = unseen(model, answer, "tokens", 5, gpt.AXES)
    assert worth.shape == (2, 5)
    with torch.no_grad():
        before = answer()
        for i in range(5):
            with without(model, [i], "tokens", gpt.AXES):
                assert torch.allclose(worth[:, i], before - answer())
        assert torch.equal(answer(), before)  # nothing is left behind
    assert unseen(model, lambda: answer().sum(), "tokens", 5, gpt.AXES).tolist() == pytest.approx(worth.sum(0).tolist())
    assert unseen(model, lambda: model(ids)[:, 1, 4], "tokens", 5, gpt.AXES)[:, 2:].abs().max() == 0  # of the future


def test_another_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a sum over words each loses its own worth less the other's, however many are read at once."""
    worth, ids = torch.randn(9), torch.tensor([3, 1, 4, 1, 5, 7, 2])
    wanted = worth[ids] - worth[8]
    sizes = []

    def answer(texts: Tensor) -> Tensor:
        sizes.append(len(texts))
        return worth[texts].sum(-1)

    assert torch.allclose(replaced(answer, ids, 8), wanted, atol=1e-5)
    assert sizes == [1, 7]
    monkeypatch.setattr(exclusion, "AT_ONCE", 3)
    assert torch.allclose(replaced(answer, ids, 8), wanted, atol=1e-5)
    assert sizes[2:] == [1, 3, 3, 1]
    assert ids.tolist() == [3, 1, 4, 1, 5, 7, 2]
    assert float(replaced(answer, ids, 1)[1]) == 0  # by itself
    with pytest.raises(InputError, match="single text"):
        replaced(answer, ids[None], 8)


def test_what_cannot_be_left_out() -> None:
    model, ids = net("gpt"), torch.randint(13, (1, 4))
    with pytest.raises(InputError, match="position out of range"), without(model, [4], "tokens", gpt.AXES):
        model(ids)
    with pytest.raises(InputError, match="at least 0"), without(model, [-1], "tokens", gpt.AXES):
        pass
    with pytest.raises(InputError, match="tokens"), without(model, [0], "source", gpt.AXES):
        pass
    for mechanism in ("fourier", ("softmax", "fourier")):
        with (
            pytest.raises(InputError, match="needs attention weights"),
            without(net("bert", attention=mechanism), [0], "tokens", bert.AXES),
        ):
            pass
    unruly = net("bert", attention="talking")
    with pytest.raises(InputError, match="rows that sum to 1"), without(unruly, [0], "tokens", bert.AXES):
        unruly(ids)


def test_a_workspace_reads_through_its_slots() -> None:
    model, given = net("bert", attention="workspace"), inputs("bert")
    table = FAMILIES["bert"].axes
    with torch.no_grad(), without(model, [1], "tokens", table) as names:
        seen = look_at(model, "*.write", lambda: model(**given), table=table, axes={})
    assert names == ["blocks.0.mixer.write", "blocks.1.mixer.write"]
    assert float(seen.maps["blocks.0.mixer.write"].weights[..., 1].abs().max()) == 0
