"""What reviews of the efficient attentions found, each with the case that showed it."""

import time
from typing import Any

import pytest
import torch

import regard
from regard.comparison.nets import Nets
from regard.decode.incremental import IncrementalDecoder, WindowedDecoder
from regard.errors import ConfigError
from regard.modalities.text.compared import DECODER, Textual, generated
from regard.nn.attention import Kernel, MultiHeadAttention
from regard.nn.mask import ALL, CAUSAL, Mask
from regard.nn.mechanisms import MECHANISMS, build_mixer, can_drop
from regard.nn.site import Site
from regard.zoo import FAMILIES, empty_net
from tests.contracts.tools import close, numbers


def kernel(choice: Any, *, causal: bool = False) -> Kernel:
    mixer = build_mixer(choice, Site(dim=16, heads=2, length=64, causal=causal))
    assert isinstance(mixer, MultiHeadAttention)
    return mixer.kernel


# A model with any attention


def test_one_word_swaps_the_attention_of_a_published_model() -> None:
    """The line of the README: GPT-2 drops weights, Performer has none to drop."""
    small = {"vocab": 50, "length": 16, "dim": 16, "depth": 1, "heads": 2}
    assert regard.build("gpt-small", **small).config.attention_dropout == 0.1
    assert (
        regard.build("gpt-small", attention="cosine", **small).config.attention_dropout == 0.1
    )  # whose weights can be
    swapped = regard.build("gpt-small", attention="performer", **small)
    assert swapped.config.attention_dropout == 0.0
    assert swapped.config.dropout == 0.1
    with pytest.raises(ConfigError, match="does not support attention dropout"):
        regard.build("gpt-small", attention="performer", attention_dropout=0.1, **small)


def test_what_can_drop_weights_is_known_of_each() -> None:
    without = {"linformer", "performer", "random-features", "fourier", "token-mlp"}
    assert {name for name in MECHANISMS if not can_drop(name)} == without
    assert not can_drop(["softmax", "performer"])
    assert can_drop("no such attention")  # which is told of elsewhere


@pytest.mark.parametrize("encoder", [{"kind": "linformer", "length": 9}, "fourier", {"kind": "token-mlp", "length": 9}])
def test_an_encoder_may_have_what_no_decoder_can(encoder: Any) -> None:
    small = {"vocab": 20, "dim": 16, "depth": 1, "heads": 2, "hidden": 16}
    net = regard.build("transformer-small", attention=encoder, decoder_attention="lsh", **small).net.eval()
    source, target = torch.randint(20, (2, 9)), torch.randint(20, (2, 5))
    assert net(source, target).isfinite().all()
    with pytest.raises(ConfigError, match="cannot be causal"):
        regard.build("transformer-small", attention=encoder, **small)


def test_one_way_to_say_that_a_decoder_attends_as_its_encoder() -> None:
    config = regard.build("transformer-small", attention="cosine", decoder_attention="cosine").config
    assert config.decoder_attention is None


def test_no_setting_that_may_be_absent_has_another_default() -> None:
    """What is None is left out of a file, so it must be None where a file does not tell it."""
    for family, entry in FAMILIES.items():
        usual = vars(entry.config())
        told = [key for key, kind in entry.config.__annotations__.items() if "None" in str(kind)]
        assert [key for key in told if usual[key] is not None] == [], family


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ({"kind": "softmax", "scale": 0.0}, "scale = 0.0 must be greater than 0"),
        ({"kind": "performer", "added": -1.0}, "added = -1.0 must be at least 0"),
        ({"kind": "lsh", "chunk": 0}, "chunk = 0 must be at least 1"),
        ({"kind": "lsh", "buckets": []}, "must be from 1 to 65536"),
        ({"kind": "lsh", "buckets": 1 << 40}, "must be from 1 to 65536"),
        ({"kind": "linformer", "length": 0}, "length = 0 must be at least 1"),
        ({"kind": "synthesizer", "length": -5}, "length = -5 must be at least 1"),
    ],
)
def test_settings_that_cannot_be_are_told_of(choice: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        regard.build("bert-tiny", attention=choice)


# Nothing to look at


@pytest.mark.parametrize("name", ["performer", "random-features"])
@pytest.mark.parametrize("mask", [ALL, CAUSAL], ids=["all", "causal"])
def test_gradients_of_rows_that_see_nothing_are_finite_in_single_precision(name: str, mask: Mask) -> None:
    """The law is tested in double precision, where a sum of nothing over a tiny number still is a number."""
    keys = torch.ones(2, 70, dtype=torch.bool)
    keys[0] = False
    q, k, v = (numbers(2, 2, 70, 8).float().requires_grad_() for _ in range(3))
    y = kernel(name, causal=mask.causal)(q, k, v, Mask(mask.causal, keys=keys))
    (y * 65536).sum().backward()
    assert (y[0] == 0).all()
    for x in (q, k, v):
        assert x.grad is not None
        assert x.grad.isfinite().all()
        assert (x.grad[0] == 0).all()


# Blocks and strides that are longer than a text


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("looks", ["split", "near", "far", "merged"])
@pytest.mark.parametrize("size", ["strided", "fixed"])
def test_a_block_longer_than_a_text_costs_no_more_than_the_text(size: str, looks: str, causal: bool) -> None:
    setting = {"strided": "stride", "fixed": "block"}[size]
    attend = kernel({"kind": size, setting: 10**7, "looks": looks}, causal=causal).double()
    q, k, v = (numbers(1, 2, 37, 8) for _ in range(3))
    mask = Mask(causal)
    began = time.process_time()
    found = attend(q, k, v, mask)
    assert time.process_time() - began < 2
    close(found, attend.weights(q, k, mask) @ v)


# Comparing


def test_hashing_is_held_against_the_same_net_without_hashes() -> None:
    nets = Nets("gpt-tiny", Textual(DECODER, generated(0)), 0)
    exact = nets.build("softmax", 64)
    choice = {"kind": "lsh", "chunk": 8, "rounds": 1}
    net = nets.like(choice, 64, exact)
    reference = nets.reference(choice, 64, net, exact)
    assert reference is not None
    ids = torch.randint(256, (1, 64))
    with torch.inference_mode():
        found, wanted = net.eval()(ids), reference.eval()(ids)
    assert 0 < float((found - wanted).norm() / wanted.norm()) < 1
    one = nets.like({"kind": "lsh", "chunk": 64, "buckets": 1, "rounds": 1}, 64, net)
    with torch.inference_mode():
        close(one.eval()(ids), wanted, 1e-5)
    assert nets.reference("fourier", 64, exact, exact) is exact
    assert nets.reference("synthesizer-dense", 64, net, exact) is None


def test_bare_reads_any_preset() -> None:
    for name in ("performer-small", "performer-base"):
        assert regard.catalog(name)[0].paper.startswith("Choromanski")
        empty_net("gpt", FAMILIES["gpt"].presets[name])


# Writing


def test_what_reads_only_whole_texts_reads_them_again_for_every_token() -> None:
    """Chunks are cut from the whole text, so there is nothing to keep; a band keeps its keys."""
    whole = {"kind": "lsh", "form": "chunks", "chunk": 4, "rounds": 1}
    net = regard.build(
        "reformer-tiny", vocab=30, length=16, grid=None, attention=whole, dim=16, heads=2, depth=2
    ).net.eval()
    assert not net.stepwise
    assert regard.build("reformer-tiny").net.stepwise
    ids = torch.randint(30, (2, 5))
    with torch.inference_mode():
        writer = IncrementalDecoder(WindowedDecoder(net, 16), ids)
        written = [writer.first.argmax(-1)]
        for _ in range(14):  # more than it reads at once
            written.append(writer.next(written[-1]).argmax(-1))
            read = torch.cat((ids, torch.stack(written[:-1], 1)), 1)[:, -16:]
            assert torch.equal(written[-1], net(read)[:, -1].argmax(-1))
        writer.keep(torch.tensor([1, 0]))
        close(
            writer.next(written[-1].flip(0)), net(torch.cat((ids, torch.stack(written, 1)), 1)[:, -16:])[:, -1].flip(0)
        )
