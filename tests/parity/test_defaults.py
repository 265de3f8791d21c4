"""An absent key means what the reference assumes: the frozen table is theirs, and every reader uses it."""

import json
from pathlib import Path

import pytest
import torch

import regard
from regard.interop.defaults import reference_table
from tests.parity.defaults import reference_defaults
from tests.parity.references import CASES
from tests.parity.theirs import transformers
from tests.parity.told import CANNOT, Said, assert_same, compared, said, written


def test_the_table_is_the_references() -> None:
    assert reference_table() == reference_defaults(), "write it again: python -m tests.parity.defaults"


# A config in the words of its file, by what is told of it: what stands here is all that differs from a small twin.
SAID: dict[str, tuple[str, Said]] = {
    "T5: dense_act_fn beside feed_forward_proj": ("t5", {"feed_forward_proj": "relu", "dense_act_fn": "gelu"}),
    "T5: is_gated_act beside feed_forward_proj": ("t5", {"feed_forward_proj": "relu", "is_gated_act": True}),
    "T5: both": ("t5", {"feed_forward_proj": "gated-gelu", "dense_act_fn": "silu", "is_gated_act": False}),
    "T5: any activation": ("t5", {"feed_forward_proj": "gated-tanh"}),
    "Llama: rope_theta beside a table without it": (
        "gpt-llama",
        {"rope_theta": 50.0, "rope_parameters": {"rope_type": "default"}},
    ),
    "Llama: rope_theta in both": (
        "gpt-llama",
        {"rope_theta": 50.0, "rope_parameters": {"rope_type": "default", "rope_theta": 90.0}},
    ),
    "Llama: rope_scaling beside rope_parameters": (
        "gpt-llama",
        {
            "rope_parameters": {"rope_type": "default", "rope_theta": 90.0},
            "rope_scaling": {"type": "default", "rope_theta": 50.0},
        },
    ),
    "Qwen2: rope_theta beside rope_scaling": (
        "gpt-qwen",
        {"rope_theta": 50.0, "rope_scaling": {"rope_type": "default"}},
    ),
    "Mistral: no window": ("gpt-mistral", {"sliding_window": None}),
    "DistilBERT: another name of a key": ("bert-distil", {"hidden_size": 20, "num_attention_heads": 2}),
    "GPT-2: another spelling of an activation": ("gpt", {"activation_function": "gelu_fast"}),
}


@pytest.mark.parametrize("name", SAID)
def test_the_words_of_a_config(name: str, tmp_path: Path) -> None:
    case, changes = SAID[name]
    assert_same(case, said(case) | changes, tmp_path / "theirs")


LEFT_OUT = {  # key -> a small twin; and what else must be said so that the reference can be built without the key
    "mistral sliding_window": ("gpt-mistral", {}),
    "mistral num_key_value_heads": ("gpt-mistral", {"num_attention_heads": 8, "hidden_size": 16}),
    "marian decoder_attention_heads": ("transformer", {"encoder_attention_heads": 2, "d_model": 32}),
    "detr decoder_attention_heads": ("detr", {"encoder_attention_heads": 2}),
    "switch_transformers num_decoder_layers": ("switch", {"num_layers": 2}),
}


@pytest.mark.parametrize("name", LEFT_OUT)
def test_an_absent_key(name: str, tmp_path: Path) -> None:
    """Equal, or refused by the name of a key that the reference reads otherwise."""
    case, changes = LEFT_OUT[name]
    config = {key: value for key, value in (said(case) | changes).items() if key != name.partition(" ")[2]}
    folder = tmp_path / "theirs"
    refusal = compared(case, written(case, config, folder), folder)
    assert not refusal or name.partition(" ")[2] in refusal


def test_mistral_without_a_window_has_its_usual_one(tmp_path: Path) -> None:
    """Further than any short text can show."""
    folder = tmp_path / "theirs"
    written("gpt-mistral", {k: v for k, v in said("gpt-mistral").items() if k != "sliding_window"}, folder)
    assert regard.load(folder).config.attention == {"kind": "local", "window": 4096}


EVERY = [
    "gpt",
    "gpt-one",
    "gpt-llama",
    "gpt-mistral",
    "gpt-qwen",
    "bert-words",
    "bert-albert",
    "bert-distil",
    "bert-fnet",
]
EVERY += ["t5", "switch", "vit", "deit", "resnet", "detr", "perceiver", "perceiverlm", "swin", "swinv2", "levit"]
EVERY += ["transformer", "reformer"]
DRAWN = ("hash_seed",)  # without it the reference draws other hashes for every call
MOST_WEIGHTS = 3_000_000


@pytest.mark.slow
@pytest.mark.parametrize("case", EVERY)
def test_every_absent_key(case: str, tmp_path: Path) -> None:
    """Of a small twin each key by itself is left out. What would then be large, or nothing that the reference can
    build, is passed over."""
    config, tried = said(case), []
    for key in [key for key in config if key not in ("model_type", "architectures", *DRAWN)]:
        folder, rest = tmp_path / key, {name: value for name, value in config.items() if name != key}
        if is_small(case, rest, tmp_path / f"{key} alone"):
            refusal = compared(case, written(case, rest, folder), folder)
            assert not refusal or key in refusal or CANNOT in refusal, refusal
            tried.append(key)
    assert tried


def is_small(case: str, config: Said, folder: Path) -> bool:
    """Whether the reference can build it, and it has few weights."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    try:
        with torch.device("meta"):
            model = type(CASES[case]())(transformers.AutoConfig.from_pretrained(folder))
    except Exception:
        return False
    return sum(x.numel() for x in model.parameters()) <= MOST_WEIGHTS
