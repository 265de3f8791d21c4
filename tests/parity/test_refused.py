"""A checkpoint that is not exactly what its config says is refused, with one error that names all of its problems."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import regard
from regard.errors import CheckpointError, InputError
from tests.parity.references import bert_config, gpt, llama, reference, t5
from tests.parity.theirs import transformers
from tests.parity.twins import saved

State = dict[str, Tensor]
Config = dict[str, Any]


def refused(case: str, folder: Path, change: Callable[[State, Config], object]) -> str:
    """The message about a folder of this case after a change."""
    saved(reference(case), folder)
    state, config = load_file(folder / "model.safetensors"), json.loads((folder / "config.json").read_text())
    change(state, config)
    save_file(state, folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError) as caught:
        regard.load(folder)
    assert str(folder) in str(caught.value)
    return str(caught.value)


def everything_wrong_with_gpt(state: State, config: Config) -> None:
    state["transformer.h.0.attn.rotary.frequency"] = torch.zeros(3)
    state["transformer.h.2.ln_1.weight"] = torch.zeros(20)  # there is no third layer
    del state["transformer.h.0.ln_1.bias"], state["transformer.ln_f.weight"]
    state["transformer.h.1.attn.c_attn.weight"] = torch.zeros(20, 40)
    state["transformer.h.1.mlp.c_fc.bias"] = torch.zeros(3)
    state["lm_head.weight"] = state["transformer.wte.weight"] + 1
    config |= {"activation_function": "mish", "scale_attn_by_inverse_layer_idx": True, "sliding_window": 4}


def everything_wrong_with_bert(state: State, config: Config) -> None:
    state["bert.encoder.layer.0.crossattention.self.query.weight"] = torch.zeros(20, 20)
    del state["bert.pooler.dense.weight"], state["bert.pooler.dense.bias"]
    state["cls.predictions.bias"] = torch.zeros(5)
    state["cls.predictions.decoder.weight"] = torch.zeros(37, 20)
    config |= {"hidden_act": "laplace", "is_decoder": True, "rope_theta": 10000.0}


def everything_wrong_with_vit(state: State, config: Config) -> None:
    state["vit.embeddings.mask_token"] = torch.zeros(1, 1, 20)
    del state["classifier.weight"]
    state["vit.embeddings.position_embeddings"] = torch.zeros(1, 9, 20)
    state["vit.encoder.layer.1.attention.attention.key.bias"] = torch.zeros(20, 1)
    config |= {"hidden_act": "hard_swish", "pooler_act": "relu", "layer_scale": 0.1}


def everything_wrong_with_deit(state: State, config: Config) -> None:
    state["deit.pooler.dense.weight"] = torch.zeros(20, 20)
    del state["deit.embeddings.distillation_token"], state["distillation_classifier.bias"]
    state["deit.embeddings.position_embeddings"] = torch.zeros(1, 10, 20)
    config |= {"hidden_act": "hard_swish", "num_register_tokens": 4}


def everything_wrong_with_cait(state: State, config: Config) -> None:
    state["blocks.0.attn.q_norm.weight"] = torch.zeros(10)
    del state["blocks_token_only.1.gamma_2"], state["blocks.1.attn.proj_l.weight"]
    state["pos_embed"] = torch.zeros(1, 10, 20)
    config["model_args"] |= {"qk_norm": True}
    config |= {"global_pool": "avg"}


def everything_wrong_with_volo(state: State, config: Config) -> None:
    state["network.5.0.norm1.weight"] = torch.zeros(12)
    del state["patch_embed.conv.4.running_mean"], state["network.0.1.attn.attn.bias"]
    state["aux_head.weight"] = torch.zeros(5, 8)
    config["model_args"] |= {"downsamples": [True, True, False, False]}
    config |= {"stem": 3}


def everything_wrong_with_marian(state: State, config: Config) -> None:
    state["model.encoder.layernorm_embedding.weight"] = torch.zeros(20)
    del state["final_logits_bias"], state["model.decoder.layers.1.encoder_attn_layer_norm.bias"]
    state["model.decoder.layers.0.encoder_attn.k_proj.weight"] = torch.zeros(20, 10)
    state["model.decoder.embed_tokens.weight"] = state["model.shared.weight"].flip(0)
    state["model.encoder.embed_positions.weight"] = torch.zeros(12, 20)
    config |= {"activation_function": "prelu", "normalize_before": True, "decoder_ffn_dim": 99, "alibi": True}


WRONG: dict[str, tuple[Callable[[State, Config], None], list[str]]] = {
    "gpt": (
        everything_wrong_with_gpt,
        [
            "unexpected:\n      transformer.h.0.attn.rotary.frequency (3,)\n      transformer.h.2.ln_1.weight (20,)",
            "missing:\n      transformer.h.0.ln_1.bias (20,)\n      transformer.ln_f.weight (20,)",
            "transformer.h.1.attn.c_attn.weight (20, 40), expected (20, 60)",
            "transformer.h.1.mlp.c_fc.bias (3,), expected (80,)",
            "lm_head.weight: tied to embed.weight, but its values differ",
            "activation_function = 'mish'",
            "scale_attn_by_inverse_layer_idx = True",
            "sliding_window",
        ],
    ),
    "bert-pretraining": (
        everything_wrong_with_bert,
        [
            "unexpected:\n      bert.encoder.layer.0.crossattention.self.query.weight (20, 20)",
            "missing:\n      bert.pooler.dense.bias (20,)\n      bert.pooler.dense.weight (20, 20)",
            "cls.predictions.bias (5,), expected (37,)",
            "cls.predictions.decoder.weight: tied to embed.weight, but its values differ",
            "hidden_act = 'laplace'",
            "is_decoder = True",
            "rope_theta",
        ],
    ),
    "vit": (
        everything_wrong_with_vit,
        [
            "unexpected:\n      vit.embeddings.mask_token (1, 1, 20)",
            "missing:\n      classifier.weight (5, 20)",
            "vit.embeddings.position_embeddings (1, 9, 20), expected (1, 10, 20)",
            "vit.encoder.layer.1.attention.attention.key.bias (20, 1), expected (20,)",
            "hidden_act = 'hard_swish'",
            "pooler_act = 'relu'",
            "layer_scale",
        ],
    ),
    "deit": (
        everything_wrong_with_deit,
        [
            "unexpected:\n      deit.pooler.dense.weight (20, 20)",
            "deit.embeddings.distillation_token (1, 1, 20)",
            "distillation_classifier.bias (5,)",
            "deit.embeddings.position_embeddings (1, 10, 20), expected (1, 11, 20)",
            "hidden_act = 'hard_swish'",
            "num_register_tokens",
        ],
    ),
    "cait": (
        everything_wrong_with_cait,
        [
            "unexpected:\n      blocks.0.attn.q_norm.weight (10,)",
            "blocks_token_only.1.gamma_2 (20,)",
            "blocks.1.attn.proj_l.weight (2, 2)",
            "pos_embed (1, 10, 20), expected (1, 9, 20)",
            "model_args: unknown key 'qk_norm' = 'True'",
            "global_pool = 'avg'",
        ],
    ),
    "volo": (
        everything_wrong_with_volo,
        [
            "unexpected:\n      network.5.0.norm1.weight (12,)",
            "patch_embed.conv.4.running_mean (6,)",
            "network.0.1.attn.attn.bias (162,)",
            "aux_head.weight (5, 8), expected (5, 12)",
            "downsamples = [True, True, False, False]",
            "stem",
        ],
    ),
    "transformer": (
        everything_wrong_with_marian,
        [
            "unexpected:\n      model.encoder.layernorm_embedding.weight (20,)",
            "final_logits_bias (1, 37)",
            "model.decoder.layers.1.encoder_attn_layer_norm.bias (20,)",
            "model.decoder.layers.0.encoder_attn.k_proj.weight (20, 10), expected (20, 20)",
            "model.decoder.embed_tokens.weight: tied to embed.weight, but its values differ",
            "model.encoder.embed_positions.weight: computable from the config, but its values differ",
            "activation_function = 'prelu'",
            "normalize_before = True",
            "decoder_ffn_dim = 99",
            "alibi",
        ],
    ),
}


STRETCHED = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0}
STRETCHED |= {"high_freq_factor": 4.0, "original_max_position_embeddings": 12}
UNSUPPORTED: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "llama3": (lambda: llama(rope_parameters=STRETCHED), "rope_type = 'llama3' is not supported"),
    "ForMultipleChoice": (lambda: transformers.BertForMultipleChoice(bert_config()), "classifier.weight (1, 20)"),
    "T5EncoderModel": (lambda: transformers.T5EncoderModel(t5().config), "decoder.block.0.layer.0.SelfAttention.q"),
    "GPT2ForSequenceClassification": (
        lambda: transformers.GPT2ForSequenceClassification(gpt().config),
        "score.weight (2, 20)",
    ),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_what_the_page_calls_refused_is(name: str, tmp_path: Path) -> None:
    make, problem = UNSUPPORTED[name]
    with pytest.raises(CheckpointError, match="cannot be converted exactly") as caught:
        regard.load(saved(make(), tmp_path))
    assert problem in str(caught.value)
    assert name in (Path(__file__).parents[2] / "docs" / "text.md").read_text("utf-8")


@pytest.mark.parametrize("case", WRONG)
def test_all_problems_come_in_one_error(case: str, tmp_path: Path) -> None:
    change, problems = WRONG[case]
    message = refused(case, tmp_path, change)
    assert [problem for problem in problems if problem not in message] == []


@pytest.mark.parametrize(
    "case", ["gpt-untied", "bert-pretraining", "bert-fnet", "vit-pooled", "perceiver", "perceiverlm", "transformer"]
)
def test_no_tensor_may_be_missing(case: str, tmp_path: Path) -> None:
    """None keeps its random start. Those outside of the layers tell which heads there are, so each goes by itself."""
    folder = saved(reference(case), tmp_path)
    state = load_file(folder / "model.safetensors")
    inner = {name for name in state if ".0." in name or ".1." in name}
    for gone in ({name} for name in state if name not in inner):
        assert missing(folder, state, gone) == gone
    assert missing(folder, state, {name for name in inner if ".0." in name}) == {x for x in inner if ".0." in x}


def missing(folder: Path, state: State, gone: set[str]) -> set[str]:
    """The names that the error calls missing, when these are."""
    save_file({x: state[x] for x in state if x not in gone}, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(CheckpointError) as caught:
        regard.load(folder)
    lines = caught.value.got.partition("missing:\n")[2].split("\n")
    return {line.split()[0] for line in lines if line.startswith("      ")}


@pytest.mark.parametrize(
    "case", ["gpt", "bert-words", "bert-fnet-words", "vit", "perceiver-learned", "perceiverlm", "transformer"]
)
def test_junk_is_refused(case: str, tmp_path: Path) -> None:
    junk = ["junk", "model.junk.weight", "a.b.c.d.e.f.g.weight", "lm_head.bias.weight"]
    message = refused(case, tmp_path, lambda state, config: state.update({name: torch.zeros(7) for name in junk}))
    assert [name for name in junk if f"      {name} (7,)" not in message] == []


@pytest.mark.parametrize("case", ["gpt", "bert-words", "vit", "transformer"])
def test_a_config_of_another_size(case: str, tmp_path: Path) -> None:
    """Half of the layers would be left at their random start."""
    key = {"gpt": "n_layer", "transformer": "decoder_layers"}.get(case, "num_hidden_layers")
    message = refused(case, tmp_path, lambda state, config: config.update({key: 3}))
    assert "missing" in message
    assert ".2." in message


@pytest.mark.parametrize(
    ("case", "key", "value"),
    [
        ("gpt", "n_embd", "20"),
        ("gpt", "n_layer", 2.5),
        ("gpt", "n_inner", "wide"),
        ("gpt", "n_head", 3),
        ("gpt", "n_layer", 10**9),
        ("gpt", "tie_word_embeddings", 1),
        ("gpt", "add_cross_attention", True),
        ("bert", "hidden_act", 3),
        ("bert", "position_embedding_type", "relative_key"),
        ("bert", "layer_norm_eps", None),
        ("bert", "tie_word_embeddings", False),
        ("bert", "pruned_heads", {"0": [1]}),
        ("bert-fnet", "tie_word_embeddings", False),
        ("bert-fnet", "hidden_size", -1),
        ("bert-fnet", "attention_probs_dropout_prob", 0.1),
        ("perceiver", "architectures", ["PerceiverForOpticalFlow"]),
        ("perceiver", "architectures", []),
        ("perceiver", "qk_channels", "8"),
        ("perceiver", "use_query_residual", False),
        ("perceiver-learned", "cross_attention_shape_for_attention", "q"),
        ("perceiver-learned", "image_size", [6, 6]),
        ("perceiverlm", "d_model", 0),
        ("perceiverlm", "num_self_attends_per_block", 10**9),
        ("vit", "image_size", [12, 8]),
        ("vit", "patch_size", 5),
        ("vit", "qkv_bias", "yes"),
        ("transformer", "scale_embedding", None),
        ("transformer", "decoder_attention_heads", 1),
        ("transformer", "share_encoder_decoder_embeddings", False),
        ("transformer", "model_type", "bart"),
    ],
)
def test_a_value_that_is_not_understood(case: str, key: str, value: object, tmp_path: Path) -> None:
    message = refused(case, tmp_path, lambda state, config: config.update({key: value}))
    assert key in message or {"n_head": "heads", "patch_size": "patch", "n_layer": "depth"}.get(key, key) in message


def test_weights_that_are_no_real_numbers(tmp_path: Path) -> None:
    """The same bytes under another dtype have the right name and the right shape."""

    def change(state: State, config: Config) -> None:
        state["transformer.h.0.attn.c_attn.weight"] = state["transformer.h.0.attn.c_attn.weight"].view(torch.int32)
        state["transformer.wte.weight"] = state["transformer.wte.weight"].to(torch.complex64)

    message = refused("gpt", tmp_path, change)
    assert "transformer.h.0.attn.c_attn.weight: torch.int32" in message
    assert "transformer.wte.weight: torch.complex64" in message


def test_positions_of_a_shape_from_nowhere(tmp_path: Path) -> None:
    """A table that claims any number of empty rows asks for no memory."""
    name = "model.encoder.embed_positions.weight"
    for i, shape in enumerate([(), (20,), (10**12, 0), (2, 3, 4)]):
        empty = torch.zeros(shape)
        assert name in refused("transformer", tmp_path / str(i), lambda state, config, x=empty: state.update({name: x}))


@pytest.mark.parametrize("case", ["swin", "swinv2"])
def test_a_grid_of_no_whole_windows(case: str, tmp_path: Path) -> None:
    """They look at what fills it up; each of them in its own way."""
    message = refused(case, tmp_path / "theirs", lambda state, config: config.update(image_size=16))
    assert "a grid of 8 x 8, not a multiple of window size 3" in message
    net = regard.build(f"{case}-tiny", image=16, patch=2, dim=8, depth=(1, 1), heads=(2, 2), hidden=16, window=3)
    for to in ("hf", "timm"):
        with pytest.raises(InputError, match="a grid of 8 x 8"):
            regard.export(net, tmp_path / to, to)


def test_timms_grid_of_no_whole_windows(tmp_path: Path) -> None:
    folder = saved(reference("swin-timm"), tmp_path)
    config = json.loads((folder / "config.json").read_text())
    config["model_args"]["img_size"] = 16
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match="not a multiple of window size 3"):
        regard.load(folder)
