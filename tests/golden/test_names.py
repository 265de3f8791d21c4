"""Names and shapes of parameters, frozen: a checkpoint written today loads for ever.

`pytest tests/golden --write-golden` freezes them anew; whoever does so changes the folder format.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from regard.nn.mechanisms import MECHANISMS, build_mixer
from regard.nn.site import Site
from regard.zoo import FAMILIES, PRESETS, empty_net, find_preset

FILE = Path(__file__).parent / "names.json"

# Every part that a config can switch on or off is in one of these.
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt": ("gpt-tiny", {"depth": 1}),
    "gpt, not tied": ("gpt-tiny", {"depth": 1, "tied": False, "hidden": 100}),
    "gpt, post": ("gpt-tiny", {"depth": 1, "norm": "post"}),
    "gpt, llama": ("llama-15m", {"depth": 1, "groups": 2, "tied": False}),
    "gpt, qwen": ("llama-15m", {"depth": 1, "biases": "qkv", "head_dim": 24}),
    "t5": ("t5-small", {"depth": 1}),
    "t5, 1.1": ("t5-v1.1-small", {"depth": 1, "decoder_depth": 2}),
    "switch": ("switch-base-8", {"depth": 2, "decoder_depth": 1, "decoder_every": 1, "experts": 2}),
    "switch, gated": ("switch-base-8", {"depth": 2, "experts": 3, "gated": True, "tied": False}),
    "switchlm": ("switch-lm-tiny", {"depth": 2}),
    "reformer": ("reformer-tiny", {"depth": 2}),
    "reformer, published": ("reformer-crime-and-punishment", {"depth": 2, "head": "none"}),
    "reformer, learned positions": ("reformer-tiny", {"depth": 1, "grid": None}),
    "bert": ("bert-tiny", {"depth": 1}),
    "bert, without a pooler": ("bert-tiny", {"depth": 1, "pooler": False}),
    "bert, words": ("bert-tiny", {"depth": 1, "head": "words"}),
    "bert, pretraining": ("bert-tiny", {"depth": 1, "head": "pretraining"}),
    "bert, label": ("bert-tiny", {"depth": 1, "head": "label", "classes": 3}),
    "bert, tags": ("bert-tiny", {"depth": 1, "head": "tags", "pooler": False}),
    "bert, span": ("bert-tiny", {"depth": 1, "head": "span", "pooler": False}),
    "bert, albert": ("albert-base", {"depth": 2, "head": "pretraining"}),
    "bert, distilbert": ("distilbert-base", {"depth": 1, "head": "words"}),
    "bert, fnet": ("fnet-base", {"depth": 1, "dim": 64, "narrow": 64, "heads": 1, "head": "pretraining"}),
    "vit": ("vit-tiny", {"depth": 1}),
    "vit, mean": ("vit-tiny", {"depth": 1, "pool": "mean"}),
    "vit, representation": ("vit-tiny", {"depth": 1, "representation": 24}),
    "vit, bare": ("vit-tiny", {"depth": 1, "classes": 0, "qkv_bias": False}),
    "captioner": ("captioner-tiny", {"depth": 1, "decoder_depth": 1}),
    "cliptext": ("cliptext-tiny", {"depth": 1}),
    "cliptext, joint": ("cliptext-tiny", {"depth": 1, "joint": 7, "classes": 3}),
    "clip": ("clip-tiny", {"depth": 1, "text_depth": 1}),
    "deit": ("deit-tiny", {"depth": 1}),
    "deit, one head": ("deit-tiny", {"depth": 1, "pool": "class", "qkv_bias": False}),
    "cait": ("cait-xxs24", {"depth": 1, "looks": 1}),
    "cait, plain": ("cait-xxs24", {"depth": 1, "looks": 1, "scaled": False, "attention": "softmax", "classes": 0}),
    "volo": ("volo-d1", {"depth": 1, "outlookers": 1, "looks": 1}),
    "volo, one head": (
        "volo-d1",
        {"depth": 1, "outlookers": 1, "looks": 1, "token_head": False, "qkv_bias": True, "classes": 7},
    ),
    "swin": ("swin-tiny", {"depth": (1, 1), "heads": (3, 6)}),
    "swin, bare": ("swin-tiny", {"depth": (2,), "heads": (3,), "classes": 0, "qkv_bias": False}),
    "swinv2": ("swinv2-tiny", {"depth": (1, 1), "heads": (3, 6)}),
    "swinv2, another norm": ("swinv2-tiny", {"depth": (3,), "heads": (3,), "every": 2, "qkv_bias": False}),
    "levit": ("levit-cifar", {"depth": (1, 1, 1), "distilled": True}),
    "levit, one head": ("levit-128s", {"depth": (1, 1, 1), "distilled": False}),
    "levit, bare": ("levit-cifar", {"dim": (96,), "depth": (1,), "heads": (3,), "hidden": (192,), "classes": 0}),
    "mixer": ("mixer-s32", {"depth": 1}),
    "mixer, bare": ("mixer-s32", {"depth": 1, "classes": 0}),
    "resnet": ("resnet-50", {"depths": [1, 1], "dims": [8, 12], "width": 4}),
    "resnet, basic, looking": (
        "resnet-18",
        {"depths": [1, 1], "dims": [8, 12], "width": 4, "nonlocals": [1, 2], "form": "concat"},
    ),
    "resnet, plain, bare": ("cnn-small", {"classes": 0, "nonlocals": [3], "form": "gaussian"}),
    "detr": ("detr-small", {"depth": 1, "decoder_depth": 2}),
    "perceiver": ("perceiver-mnist", {"depth": 1}),
    "perceiver, one look and a query": ("perceiver-mnist", {"depth": 1, "looks": 1, "pool": "query"}),
    "perceiver, learned positions": ("perceiver-mnist", {"depth": 1, "positions": "learned", "features": 5}),
    "perceiverlm": ("perceiver-io-language", {"depth": 1}),
    "workspace": ("workspace-soft", {}),
    "workspace, mean": ("workspace-hard", {"pool": "mean", "classes": 3}),
    "mlp": ("mlp-mnist", {}),
    "forecaster": ("forecaster-small", {"depth": 1, "decoder_depth": 2}),
    "seriesrnn": ("series-lstm", {}),
    "serieslinear": ("series-linear", {}),
    "transgan": ("transgan-cifar", {"depth": (1, 1)}),
    "transgan, pixel norm": ("transgan-tiny", {"depth": (1, 1), "token_norm": "pixel", "qkv_bias": False}),
    "convgan": ("convgan-mnist", {}),
    "transformer": ("transformer-small", {"depth": 1}),
    "transformer, pre": ("transformer-small", {"depth": 1, "norm": "pre"}),
    "transformer, admin": ("transformer-small", {"depth": 1, "norm": "admin"}),
    "rnn, sutskever": ("rnn-sutskever", {}),
    "rnn, cho": ("rnn-cho", {}),
    "rnn, bahdanau": ("rnn-bahdanau", {}),
    "rnn, luong": ("rnn-luong", {}),
    "rnn, luong from both ends": ("rnn-luong", {"bidirectional": True, "depth": 1, "feeding": False}),
    "recurrent": ("lstm", {}),
    "recurrent, conditioned and tied": ("gru", {"tied": True, "hidden": 256, "condition": 8, "depth": 2}),
    "recurrent, tags from both ends": ("bilstm", {}),
    "diffusion": ("diffusion-tiny", {}),
    "diffusion, transformer": (
        "diffusion-tiny",
        {"autoencoder": {}, "denoiser": {"kind": "dit", "dim": 16, "depth": 1, "heads": 2, "hidden": 24, "waves": 8}},
    ),
    "autoencoder": ("autoencoder-tiny", {}),
    "autoencoder, not mixed": ("autoencoder-tiny", {"multipliers": (1, 2), "mixed": False, "depth": 2}),
    "transformer, output bias": ("transformer-small", {"depth": 1, "decoder_depth": 2, "output_bias": True}),
}


def shapes(net: nn.Module) -> dict[str, list[int]]:
    return {name: list(x.shape) for name, x in net.state_dict().items()}


def current() -> dict[str, dict[str, list[int]]]:
    models = {label: shapes(empty_net(*find_preset(name, changes))) for label, (name, changes) in MODELS.items()}
    site = Site(dim=8, heads=2, length=16)
    return models | {f"attention {name}": shapes(build_mixer(name, site)) for name in MECHANISMS}


@pytest.fixture(scope="module")
def golden(request: pytest.FixtureRequest) -> dict[str, dict[str, list[int]]]:
    if request.config.getoption("--write-golden"):
        lines = [
            f"  {json.dumps(label)}: {{\n"
            + ",\n".join(f"    {json.dumps(name)}: {json.dumps(shape)}" for name, shape in names.items())
            + "\n  }"
            for label, names in current().items()
        ]
        FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    return json.loads(FILE.read_text())


def test_names_and_shapes_have_not_changed(golden: dict[str, dict[str, list[int]]]) -> None:
    found = current()
    assert list(found) == list(golden)
    for label, names in golden.items():
        assert found[label] == names, label


def test_every_family_is_frozen() -> None:
    assert {PRESETS[name] for name, _ in MODELS.values()} == set(FAMILIES)
