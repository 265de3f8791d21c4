"""Systems that compose attention's parts, or wrap it: windows, positions on queries and keys, gates, shared biases."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from regard.models import bert, gpt
from regard.nn.attention import Mixer, MultiHeadAttention, Softmax
from regard.nn.block import Block
from regard.nn.cache import Cache, decoder_mask
from regard.nn.feedforward import FeedForward
from regard.nn.mask import ALL, CAUSAL, Bias, Mask, TensorBias
from regard.nn.mechanisms import MECHANISMS, Mechanism, Plain
from regard.nn.positions import Buckets, WindowBias
from regard.nn.residual import Branch, PreNorm
from regard.nn.tap import capture
from tests.contracts.tools import DIM, HEADS, WIDTH, close, gradients, numbers, ragged, stirred


def refuse(mixer: str, context: Tensor | None, mask: Mask, bias: Bias | None, cache: Cache | None, keys: bool) -> None:
    given = {"a context": context is not None, "a causal mask": mask.causal, "pairs": mask.pairs is not None}
    given |= {"a bias": bias is not None, "a cache": cache is not None, "padding": mask.keys is not None and not keys}
    if wrong := [name for name, there in given.items() if there]:
        raise ValueError(f"{mixer} cannot honour {', '.join(wrong)}")


class Windows(Mixer):
    """Swin (Liu et al., 2021): attention within windows of the image, every other time shifted by half a window."""

    def __init__(
        self, inner: MultiHeadAttention, grid: tuple[int, int], side: int, shift: int, back: bool = True
    ) -> None:
        super().__init__()
        self.inner, self.grid, self.side, self.shift, self.back = inner, grid, side, shift, back
        self.bias = WindowBias(inner.heads, side, side)

    def cut(self, x: Tensor) -> Tensor:
        """(b, rows, columns, d) -> (b, windows, side * side, d)"""
        m = self.side
        x = x.unflatten(2, (-1, m)).unflatten(1, (-1, m)).transpose(2, 3)
        return x.flatten(3, 4).flatten(1, 2)

    def join(self, x: Tensor) -> Tensor:
        rows, columns = self.grid[0] // self.side, self.grid[1] // self.side
        x = x.unflatten(2, (self.side, self.side)).unflatten(1, (rows, columns)).transpose(2, 3)
        return x.flatten(3, 4).flatten(1, 2)

    def pairs(self) -> Tensor | None:
        """Those that stand in one window only because the image was rolled do not see each other."""
        if not self.shift:
            return None
        edge = [torch.arange(n) for n in self.grid]
        label = [(x >= n - self.side).int() + (x >= n - self.shift) for x, n in zip(edge, self.grid, strict=True)]
        regions = self.cut((label[0][:, None] * 3 + label[1])[None, ..., None])[0, ..., 0]
        return (regions[:, :, None] == regions[:, None]).unsqueeze(1)  # (windows, 1, n, n)

    def forward(
        self,
        x: Tensor,
        context: Tensor | None = None,
        *,
        mask: Mask = ALL,
        bias: Bias | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        refuse("windows", context, mask, bias, cache, keys=False)
        image = x.unflatten(1, self.grid).roll((-self.shift, -self.shift), (1, 2))
        y = self.inner(self.cut(image), mask=Mask(pairs=self.pairs()), bias=TensorBias(self.bias()))
        image = self.join(y)
        return (image.roll((self.shift, self.shift), (1, 2)) if self.back else image).flatten(1, 2)


@pytest.mark.parametrize(("side", "shift"), [(2, 0), (2, 1), (4, 2), (4, 1), (4, 0)])
def test_windows_are_dense_attention_under_a_mask(side: int, shift: int) -> None:
    """And a shift that is not rolled back is another answer."""
    grid = (4, 8)
    layer = stirred(Windows(MultiHeadAttention(DIM, HEADS), grid, side, shift))
    x = numbers(2, 32, DIM)
    allowed, bias = torch.zeros(32, 32, dtype=torch.bool), torch.zeros(HEADS, 32, 32).double()
    table = layer.bias.weight.T.reshape(HEADS, 2 * side - 1, 2 * side - 1)
    for i in range(32):
        for j in range(32):
            (a, b), (c, d) = divmod(i, 8), divmod(j, 8)
            windows = [[(p - shift) // side for p in place] for place in ((a, b), (c, d))]  # -1: cut off by the edge
            if windows[0] == windows[1]:
                allowed[i, j], bias[:, i, j] = True, table[:, a - c + side - 1, b - d + side - 1]
    dense = layer.inner(x, mask=Mask(pairs=allowed), bias=TensorBias(bias))
    close(layer(x), dense)
    layer.back = False
    assert torch.allclose(layer(x), dense) == (shift == 0)
    for arguments in ({"mask": CAUSAL}, {"mask": Mask(keys=ragged(2, 32, "left"))}, {"cache": Cache()}, {"context": x}):
        with pytest.raises(ValueError, match="windows cannot honour"):
            layer(x, **arguments)


class Placed(nn.Module):
    """DETR (Carion et al., 2020): positions are added to queries and keys in every layer, never to values."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(DIM, HEADS)

    def forward(self, x: Tensor, at: Tensor, context: Tensor, context_at: Tensor, mask: Mask) -> Tensor:
        q, k, v = self.attention.project(x + at, context + context_at, context)
        return self.attention.merge(self.attention.attend(q, k, v, mask))


def test_positions_on_queries_and_keys_alone() -> None:
    layer, reference = stirred(Placed()), nn.MultiheadAttention(DIM, HEADS, batch_first=True).double()
    parts = layer.attention.q, layer.attention.k, layer.attention.v
    with torch.no_grad():
        reference.in_proj_weight.copy_(torch.cat([p.weight for p in parts]))
        reference.in_proj_bias.copy_(torch.cat([p.bias for p in parts]))
    reference.out_proj = layer.attention.out
    x, at, context, there = numbers(2, 3, DIM), numbers(3, DIM), numbers(2, 6, DIM), numbers(6, DIM)
    keys = ragged(2, 6, "right")
    wanted, maps = reference(x + at, context + there, context, key_padding_mask=~keys, average_attn_weights=False)
    close(layer(x, at, context, there, Mask(keys=keys)), wanted)
    with capture(layer) as seen:
        close(layer(x, at, context, there, Mask(keys=keys)), wanted)
    close(seen["attention.weights"][0], maps)


class Gated(nn.Module):
    """AlphaFold 2, algorithm 7 (Jumper et al., 2021): rows of an alignment, a bias for each pair, gated heads."""

    def __init__(self, pair: int) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(DIM, HEADS, biases="o")
        self.gate, self.pair = nn.Linear(DIM, DIM), nn.Linear(pair, HEADS, bias=False)

    def forward(self, m: Tensor, z: Tensor, keys: Tensor) -> Tensor:
        """(b, s, n, d), (b, n, n, c), (b, s, n) -> (b, s, n, d)"""
        bias = TensorBias(self.pair(z).movedim(-1, 1).unsqueeze(1))
        y = self.attention.attend(*self.attention.project(m, m, m), Mask(keys=keys), bias)
        gate = torch.sigmoid(self.gate(m)).unflatten(-1, (HEADS, WIDTH)).transpose(-3, -2)
        return self.attention.merge(y * gate)


def test_gated_attention_with_a_pair_bias_over_leading_axes() -> None:
    layer = stirred(Gated(3))
    m, z, keys = numbers(2, 4, 5, DIM), numbers(2, 5, 5, 3), torch.rand(2, 4, 5) < 0.8
    keys[..., 0] = True
    found = layer(m, z, keys)
    for b in range(2):
        for s in range(4):
            heads = []
            for h in range(HEADS):
                part = slice(h * WIDTH, (h + 1) * WIDTH)
                q, k, v = (
                    m[b, s] @ x.weight[part].T for x in (layer.attention.q, layer.attention.k, layer.attention.v)
                )
                scores = q @ k.T / WIDTH**0.5 + (z[b] @ layer.pair.weight[h])
                weights = scores.masked_fill(~keys[b, s], -torch.inf).softmax(-1)
                heads.append(torch.sigmoid(layer.gate(m[b, s])[:, part]) * (weights @ v))
            close(found[b, s], layer.attention.out(torch.cat(heads, -1)))
    assert all(g.abs().sum() > 0 for g in gradients(found, *layer.parameters()))


class Stack(nn.Module):
    """T5's decoder (Raffel et al., 2020): one table of distances for all layers, no other positions, no scale."""

    def __init__(self) -> None:
        super().__init__()
        self.distances = Buckets(HEADS, 8, 6, both=False)
        self.blocks = nn.ModuleList(
            Block(
                MultiHeadAttention(DIM, HEADS, kernel=Softmax(scale=1.0), biases=""),
                FeedForward(DIM, 8, biases=False),
                lambda: PreNorm(nn.RMSNorm(DIM), Branch(DIM)),
            )
            for _ in range(3)
        )

    def forward(self, x: Tensor, keys: Tensor | None = None, cache: Cache | None = None) -> Tensor:
        mask = decoder_mask(x, keys, cache)
        bias = self.distances(mask)
        for block in self.blocks:
            x = block(x, mask=mask, bias=bias, cache=cache)
        return x


@pytest.mark.parametrize("steps", [(2, 3, 1), (1,) * 6])
@pytest.mark.parametrize("padding", ["", "left", "right"])
def test_one_bias_for_a_stack(steps: tuple[int, ...], padding: str) -> None:
    model, x, keys = stirred(Stack()), numbers(2, 6, DIM), ragged(2, 6, padding) if padding else None
    real = torch.ones(2, 6, dtype=torch.bool) if keys is None else keys
    full, cache, parts, start = model(x, keys), Cache(), [], 0
    for n in steps:
        part = slice(start, start + n)
        parts.append(model(x[:, part], None if keys is None else keys[:, part], cache))
        start += n
    close(torch.cat(parts, 1)[real], full[real])
    written = x
    for block in model.blocks:
        dense = TensorBias(model.distances().dense(6, 6, x.device))
        written = block(written, mask=Mask(causal=True, keys=keys), bias=dense)
    close(written[real], full[real])
    zero = stirred(Stack())
    zero.load_state_dict(model.state_dict())
    nn.init.zeros_(zero.distances.weight)
    assert not torch.allclose(zero(x, keys)[real], full[real]), "the bias has no effect"
    assert gradients(full[real], model.distances.weight)[0].abs().sum() > 0
    if padding == "left":
        close(model(x[1:, 2:])[0], full[1, 2:])


def test_distances_count_no_padding() -> None:
    """Three words padded on the right to five, then two more: as if there were no padding."""
    model, x, keys, cache = stirred(Stack()), numbers(2, 7, DIM), torch.ones(2, 5, dtype=torch.bool), Cache()
    keys[1, 3:] = False
    model(x[:, :5], keys, cache)
    found = model(x[:, 5:], None, cache)
    close(found[0], model(x[:1])[0, 5:])
    close(found[1], model(torch.cat((x[1:, :3], x[1:, 5:]), 1))[0, 3:])


class Fourier(Mixer):
    """FNet (Lee-Thorp et al., 2022): no weights at all. Each row is transformed at its own length."""

    def forward(
        self,
        x: Tensor,
        context: Tensor | None = None,
        *,
        mask: Mask = ALL,
        bias: Bias | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        refuse("a Fourier mixer", context, mask, bias, cache, keys=True)
        if mask.keys is None:
            return torch.fft.fft2(x).real
        y = torch.zeros_like(x)
        for row, real in enumerate(mask.keys):
            y[row, real] = torch.fft.fft2(x[row, real]).real
        return y


@pytest.fixture
def fourier(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(settings: Plain, site: object) -> Mixer:
        if getattr(site, "causal", False) or getattr(site, "cross", False):
            raise ValueError("a Fourier mixer reads the whole sentence, so it cannot be causal nor look at a context")
        return Fourier()

    make: Callable[[Plain, object], Mixer] = build
    monkeypatch.setitem(MECHANISMS, "fourier", Mechanism(Plain, make, "a Fourier transform"))


@pytest.mark.usefixtures("fourier")
def test_a_mixer_without_attention() -> None:
    config = bert.Config(vocab=11, length=8, dim=DIM, depth=2, heads=HEADS, hidden=8, attention=("fourier", "softmax"))
    model = stirred(bert.BERT(config)).eval()
    ids, keys = torch.randint(11, (2, 6)), ragged(2, 6, "left")
    states = model(ids, keys=keys).states
    close(states[1, 2:], model(ids[1:, 2:]).states[0])
    with capture(model) as seen:
        model(ids)
    assert list(seen) == ["blocks.1.mixer.weights"]
    with pytest.raises(ValueError, match=r"'fourier': .* cannot be causal"):
        gpt.GPT(gpt.Config(vocab=11, length=8, dim=DIM, depth=1, heads=HEADS, attention="fourier"))
    x = numbers(2, 4, DIM)
    for arguments in ({"mask": CAUSAL}, {"cache": Cache()}, {"context": x}, {"bias": TensorBias(numbers(4, 4))}):
        with pytest.raises(ValueError, match="cannot honour"):
            Fourier()(x, **arguments)
