"""Positions against the reference's own functions for them."""

import math
from typing import Any

import pytest
import torch
from torch import nn

from regard.nn.latents import fourier_features, spread_over
from regard.nn.mask import Mask
from regard.nn.positions import ALiBi, Buckets, Rotary, WindowBias, buckets, sinusoid, window_offsets
from tests.parity.ours import ATOL, RTOL
from tests.parity.theirs import transformers


@pytest.mark.parametrize("count", [32, 16])
@pytest.mark.parametrize("longest", [128, 50])
@pytest.mark.parametrize("both", [True, False])
def test_t5_buckets(both: bool, longest: int, count: int, device: torch.device) -> None:
    offset = torch.arange(-300, 301, device=device)
    theirs = transformers.models.t5.modeling_t5.T5Attention._relative_position_bucket(offset, both, count, longest)
    assert torch.equal(buckets(offset, count, longest, both=both), theirs)


@pytest.mark.parametrize("both", [True, False])
def test_t5_bias(both: bool, device: torch.device) -> None:
    """Later queries too, as in a decoding step."""
    config = transformers.T5Config(
        num_heads=3, d_model=12, d_kv=4, relative_attention_num_buckets=8, relative_attention_max_distance=20
    )
    config.is_decoder = not both
    theirs = transformers.models.t5.modeling_t5.T5Attention(config, has_relative_attention_bias=True, layer_idx=0).to(
        device
    )
    ours = Buckets(3, 8, 20, both=both).to(device)
    nn.init.normal_(ours.weight)
    theirs.relative_attention_bias.weight.data.copy_(ours.weight)
    for rows, columns, start in ((30, 30, 0), (3, 30, 27), (1, 1, 0)):
        found = ours(Mask(start=start)).dense(rows, columns, device)
        assert torch.equal(found, theirs.compute_bias(rows, columns, past_seen_tokens=start)[0])


@pytest.mark.parametrize("window", [(7, 7), (3, 5), (4, 2), (1, 1)])
def test_swin_window_bias(window: tuple[int, int], device: torch.device) -> None:
    theirs = transformers.models.swin.modeling_swin.SwinRelativePositionBias(3, window).to(device)
    ours = WindowBias(3, *window).to(device)
    theirs.relative_position_bias_table.data.copy_(ours.weight)
    assert torch.equal(window_offsets(*window, device).flatten(), theirs.relative_position_index)
    assert torch.equal(ours(), theirs()[0])


@pytest.mark.parametrize("heads", [1, 2, 3, 6, 8, 12, 16, 20])
def test_alibi(heads: int, device: torch.device) -> None:
    """The reference adds slope * key, we slope * (key - query): alike for each query, as far as it may look."""
    keys = torch.ones(1, 9, device=device)
    theirs = transformers.models.bloom.modeling_bloom.build_alibi_tensor(keys, heads, torch.float32)  # (h, 1, k)
    ours = ALiBi(heads)
    here = torch.arange(9, device=device)
    shifted = ours.dense(9, 9, device) + ours.slopes(device)[:, None, None] * here[:, None]
    past = (here <= here[:, None]).expand(heads, 9, 9)
    torch.testing.assert_close(shifted[past], theirs.expand(heads, 9, 9)[past], rtol=RTOL, atol=ATOL)
    assert torch.equal(ours.dense(9, 9, device), ours.dense(9, 9, device).mT)


def llama(dim: int, base: float) -> Any:
    config = transformers.LlamaConfig(
        hidden_size=2 * dim,
        num_attention_heads=2,
        rope_parameters={"rope_type": "default", "rope_theta": base},
    )
    return transformers.models.llama.modeling_llama.LlamaRotaryEmbedding(config)


@pytest.mark.parametrize("base", [10000.0, 500.0])
@pytest.mark.parametrize("start", [0, 5])
def test_rotary_halves(start: int, base: float, device: torch.device) -> None:
    q, k = torch.randn(2, 2, 3, 9, 8, device=device)
    cos, sin = llama(8, base).to(device)(q, torch.arange(start, start + 9, device=device)[None])
    theirs = transformers.models.llama.modeling_llama.apply_rotary_pos_emb(q, k, cos, sin)
    rotary = Rotary(8, base=base, layout="halves")
    places = torch.arange(start, start + 9, device=device)
    torch.testing.assert_close(rotary(q, places), theirs[0], rtol=RTOL, atol=ATOL)
    torch.testing.assert_close(rotary(k, places), theirs[1], rtol=RTOL, atol=ATOL)
    torch.testing.assert_close(rotary(q, places.expand(2, 9)), theirs[0], rtol=RTOL, atol=ATOL)  # one for each row


@pytest.mark.parametrize("turned", [8, 4])
def test_rotary_interleaved(turned: int, device: torch.device) -> None:
    """Each pair of neighbours is a complex number, times e^(i p theta)."""
    x = torch.randn(2, 3, 9, 8, device=device)
    place = torch.arange(4, 13, device=device)
    theta = torch.tensor([10000.0 ** (-2 * i / turned) for i in range(turned // 2)], device=device)
    numbers = torch.view_as_complex(x[..., :turned].unflatten(-1, (-1, 2)).contiguous())
    spun = numbers * torch.polar(torch.ones(9, turned // 2, device=device), place[:, None] * theta)
    theirs = torch.cat((torch.view_as_real(spun).flatten(-2), x[..., turned:]), -1)
    torch.testing.assert_close(Rotary(turned)(x, place), theirs, rtol=RTOL, atol=ATOL)


@pytest.mark.parametrize("dim", [16, 15, 64])
def test_sinusoid_halves(dim: int, device: torch.device) -> None:
    table = transformers.models.marian.modeling_marian.MarianSinusoidalPositionalEmbedding(1024, dim).create_weight()
    ours = sinusoid(torch.arange(1024, device=device), dim, "halves")
    torch.testing.assert_close(ours.cpu(), table, rtol=RTOL, atol=ATOL)


@pytest.mark.parametrize("dim", [16, 15])
def test_sinusoid_interleaved(dim: int, device: torch.device) -> None:
    """By the paper's formula."""
    table = torch.tensor(
        [[(math.cos if j % 2 else math.sin)(p / 10000 ** (2 * (j // 2) / dim)) for j in range(dim)] for p in range(64)]
    )
    torch.testing.assert_close(sinusoid(torch.arange(64, device=device), dim).cpu(), table, rtol=RTOL, atol=ATOL)


def test_fourier_features_of_the_perceiver() -> None:
    """Its own frequencies, and the pixels in between too."""
    theirs = transformers.models.perceiver.modeling_perceiver.PerceiverFourierPositionEncoding(16, (24, 24))
    wanted = theirs((5, 7), 2, torch.device("cpu"), torch.float32)
    places = spread_over((5, 7), torch.device("cpu"), torch.float32)
    torch.testing.assert_close(fourier_features(places, 16, 24).expand(2, -1, -1), wanted, rtol=1e-5, atol=1e-5)
