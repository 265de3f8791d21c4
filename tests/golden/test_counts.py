"""Parameter counts equal the published ones, to the printed digits: a miss is a missing bias, norm or head."""

import pytest

from regard.zoo import count_parameters, empty_net, find_preset

# Millions, tied weights once.
COUNTS = {
    "gpt-small": 124.4,
    "gpt-medium": 354.8,
    "gpt-large": 774.0,
    "gpt-xl": 1557.6,
    "bert-base": 109.5,
    "bert-large": 335.1,
    "fnet-base": 82.9,
    "fnet-large": 236.9,
    "mixer-s32": 19.1,
    "mixer-s16": 18.5,
    "mixer-b32": 60.3,
    "mixer-b16": 59.9,
    "mixer-l32": 206.9,
    "mixer-l16": 208.2,
    "mixer-h14": 432.4,
    "perceiver-io-imagenet": 48.4,
    "perceiver-io-learned": 62.3,
    "resnet-18": 11.7,
    "resnet-34": 21.8,
    "resnet-50": 25.6,
    "resnet-101": 44.5,
    "resnet-152": 60.2,
    "swin-tiny": 28.3,
    "swin-small": 49.6,
    "swin-base": 87.8,
    "swin-large": 196.5,
    "swinv2-tiny": 28.3,
    "swinv2-small": 49.7,
    "swinv2-base": 87.9,
    "swinv2-large": 196.7,
    "levit-128s": 7.8,
    "levit-128": 9.2,
    "levit-192": 10.9,
    "levit-256": 18.9,
    "levit-384": 39.1,
    "vit-base": 86.6,
    "vit-large": 304.3,
    "vit-huge": 632.0,
    "cliptext-base": 63.2,
    "cliptext-large": 123.1,
    "cliptext-huge": 340.4,
    "clip-vit-base-32": 151.3,
    "clip-vit-base-16": 149.6,
    "clip-vit-large-14": 427.6,
    "deit-tiny": 5.9,
    "deit-small": 22.4,
    "deit-base": 87.3,
    "cait-xxs24": 12.0,
    "cait-xxs36": 17.3,
    "cait-xs24": 26.6,
    "cait-s24": 46.9,
    "cait-s36": 68.2,
    "cait-m36": 270.9,
    "cait-m48": 356.0,
    "volo-d1": 26.6,
    "volo-d2": 58.7,
    "volo-d3": 86.3,
    "volo-d4": 193.0,
    "volo-d5": 295.5,
    "switch-base-8": 619.3,
    "reformer-enwik8": 149.2,
    "reformer-crime-and-punishment": 2.7,
}
# The papers' own round numbers; of the Transformer, for a vocabulary of about 37,000.
NOMINAL = {
    "rnn-sutskever": 384,
    "transformer-base": 65,
    "transformer-big": 213,
    "transformer-base-pre": 65,
    "transformer-base-admin": 65,
    "fnet-hybrid-base": 88,
    "swinv2-huge": 658,
    "swinv2-giant": 3_000,
    "perceiver-imagenet": 45,
    "resnet-20": 0.27,
    "detr-resnet-50": 41,
    "detr-resnet-101": 60,
    "detr-resnet-50-dc5": 41,
    "detr-resnet-101-dc5": 60,
    "perceiver-io-language": 201,
    "switch-base": 7_400,
    "switch-large": 26_300,
    "switch-xxl": 395_000,
    "switch-c": 1_571_000,
}


def millions(name: str) -> float:
    return count_parameters(empty_net(*find_preset(name, {}))) / 1e6


@pytest.mark.parametrize("name", COUNTS)
def test_published_counts(name: str) -> None:
    assert round(millions(name), 1) == COUNTS[name]


@pytest.mark.parametrize("name", NOMINAL)
def test_nominal_counts(name: str) -> None:
    assert millions(name) == pytest.approx(NOMINAL[name], rel=0.005 if name.startswith("switch") else 0.04)


def test_the_transformer_by_hand() -> None:
    """37,000 words; in each block four projections an attention, two layers, a norm (g, b) for each residual."""
    attention, ffn, norm = 4 * (512 * 512 + 512), 2 * 512 * 2048 + 2048 + 512, 2 * 512
    encoder, decoder = attention + ffn + 2 * norm, 2 * attention + ffn + 3 * norm
    expected = 37000 * 512 + 6 * (encoder + decoder)
    assert count_parameters(empty_net(*find_preset("transformer-base", {}))) == expected
    assert count_parameters(empty_net(*find_preset("transformer-base-pre", {}))) == expected + 2 * norm
    assert count_parameters(empty_net(*find_preset("transformer-base-admin", {}))) == expected + 6 * 5 * 512
