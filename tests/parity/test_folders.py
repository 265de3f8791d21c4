"""The same weights in every form of folder, and under the names that older files have."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import regard
from regard.errors import CheckpointError
from regard.models.t5 import Config
from tests.parity.ours import Tensors
from tests.parity.references import CASES, reference
from tests.parity.twins import saved

KINDS = ["gpt", "gpt-untied", "bert-pretraining", "vit", "vit-pooled", "transformer"]


def weights(folder: Path) -> Tensors:
    return load_file(folder / "model.safetensors")


def rewrite(folder: Path, state: dict[str, Tensor], **config: object) -> Path:
    """Other tensors in the same folder, and other keys in its config; None takes a key away."""
    save_file({name: x.contiguous() for name, x in state.items()}, folder / "model.safetensors", {"format": "pt"})
    data = json.loads((folder / "config.json").read_text()) | config
    (folder / "config.json").write_text(json.dumps({key: value for key, value in data.items() if value is not None}))
    return folder


def assert_same(net: nn.Module, other: nn.Module) -> None:
    """Equal to the last bit, and of one config."""
    ours, theirs = net.state_dict(), other.state_dict()
    assert net.config == other.config
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if not torch.equal(ours[name], theirs[name])] == []


# ------------------------------------------------------------------------------------------------------------- forms


@pytest.mark.parametrize("case", KINDS)
def test_single_file_shards_and_another_name(case: str, tmp_path: Path) -> None:
    model = reference(case)
    single = saved(model, tmp_path / "single")
    shards = saved(model, tmp_path / "shards", max_shard_size="8KB")
    named = saved(model, tmp_path / "named")
    (named / "model.safetensors").rename(named / "model.fp32.safetensors")
    assert len(list(shards.glob("*.safetensors"))) > 2
    assert not (shards / "model.safetensors").exists()
    net = regard.load(single).net
    assert_same(regard.load(shards).net, net)
    assert_same(regard.load(named).net, net)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions(dtype: torch.dtype, tmp_path: Path) -> None:
    """Narrow weights are widened to float32, exactly; wide ones are not narrowed."""
    model = reference("bert-pretraining").to(dtype)
    net = regard.load(saved(model, tmp_path)).net
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    assert {x.dtype for x in net.state_dict().values()} == {wide}
    assert torch.equal(net.blocks[0].mixer.q.weight, model.bert.encoder.layer[0].attention.self.query.weight.to(wide))


def test_a_shard_is_missing(tmp_path: Path) -> None:
    folder = saved(reference("gpt"), tmp_path, max_shard_size="8KB")
    gone = sorted(folder.glob("*.safetensors"))[1]
    gone.unlink()
    with pytest.raises(CheckpointError, match=gone.name):
        regard.load(folder)


# ------------------------------------------------------------------------------------------------------ older names


def test_gpt2_as_it_was_published(tmp_path: Path) -> None:
    """Without the prefix, with the causal mask as a buffer, and with the keys of its old config."""
    folder = saved(reference("gpt"), tmp_path)
    net = regard.load(folder).net
    old = {name.removeprefix("transformer."): x for name, x in weights(folder).items()}
    for i in range(2):
        old[f"h.{i}.attn.bias"] = torch.ones(12, 12).tril().reshape(1, 1, 12, 12)
        old[f"h.{i}.attn.masked_bias"] = torch.tensor(-1e4)
    keys = {"n_ctx": 12, "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}}}
    rewrite(folder, old, **keys, activation_function=None, tie_word_embeddings=None, pruned_heads={}, torchscript=False)
    assert_same(regard.load(folder).net, net)


def test_gpt2_with_a_copy_of_its_embedding(tmp_path: Path) -> None:
    folder = saved(reference("gpt"), tmp_path)
    net, state = regard.load(folder).net, weights(folder)
    rewrite(folder, state | {"lm_head.weight": state["transformer.wte.weight"].clone()})
    assert_same(regard.load(folder).net, net)
    rewrite(folder, state | {"lm_head.weight": state["transformer.wte.weight"].flip(0)})
    with pytest.raises(CheckpointError, match=r"lm_head\.weight: tied to embed\.weight, but its values differ"):
        regard.load(folder)


@pytest.mark.parametrize("case", ["gpt-llama", "gpt-llama-groups", "gpt-mistral", "gpt-qwen"])
def test_a_decoder_alone(case: str, tmp_path: Path) -> None:
    """A LlamaModel has no prefix and no output matrix, whatever its config says of one: its states are all it gives."""
    model = reference(case).model
    folder = saved(model, tmp_path)
    assert not [name for name in weights(folder) if name.startswith(("model.", "lm_head."))]
    found, ids = regard.load(folder), torch.tensor([[2, 5, 9, 30]])
    assert found.config.tied
    with torch.no_grad():
        torch.testing.assert_close(found.net.read(ids), model(ids).last_hidden_state, rtol=1e-4, atol=1e-5)


def test_a_decoder_with_a_prefix_needs_its_output_matrix(tmp_path: Path) -> None:
    folder = saved(reference("gpt-llama"), tmp_path)
    rewrite(folder, {name: x for name, x in weights(folder).items() if name != "lm_head.weight"})
    with pytest.raises(CheckpointError, match=r"missing:\n      lm_head\.weight"):
        regard.load(folder)


def test_t5_that_is_tied_and_not_scaled(tmp_path: Path) -> None:
    """As the reference writes version 1.1 today: without an output matrix. With one, it is not tied."""
    model = reference("t5-v11-tied")
    folder = saved(model, tmp_path)
    said = json.loads((folder / "config.json").read_text())
    assert (said["tie_word_embeddings"], said["scale_decoder_outputs"]) == (True, False)
    config = regard.load(folder).config
    assert (config.tied, config.scaled) == (True, False)
    rewrite(folder, weights(folder) | {"lm_head.weight": model.lm_head.weight.detach().flip(0)})
    config = regard.load(folder).config
    assert (config.tied, config.scaled) == (False, True)
    rewrite(folder, weights(folder), tie_word_embeddings=False, scale_decoder_outputs=True)
    with pytest.raises(CheckpointError, match="scale_decoder_outputs = True is not supported"):
        regard.load(folder)
    with pytest.raises(ValueError, match="scaled = false has no effect"):
        Config(tied=False, scaled=False)


@pytest.mark.parametrize("case", ["bert", "bert-words", "bert-pretraining"])
def test_bert_as_it_was_published(case: str, tmp_path: Path) -> None:
    """Norms by TensorFlow's names, the counting buffer, both copies of the head, and the keys of its old config."""
    folder = saved(reference(case), tmp_path)
    net, state = regard.load(folder).net, weights(folder)
    prefix = "" if case == "bert" else "bert."
    old = {renamed(name): x for name, x in state.items()}
    assert any(name.endswith("LayerNorm.gamma") for name in old)
    old[f"{prefix}embeddings.position_ids"] = torch.arange(12)[None]
    if case != "bert":
        old["cls.predictions.decoder.weight"] = state["bert.embeddings.word_embeddings.weight"].clone()
        old["cls.predictions.decoder.bias"] = state["cls.predictions.bias"].clone()
    keys = {"position_embedding_type": "absolute", "gradient_checkpointing": False, "pooler_num_fc_layers": 3}
    rewrite(folder, old, **keys, directionality="bidi", pooler_type="first_token_transform", tie_word_embeddings=None)
    assert_same(regard.load(folder).net, net)


def renamed(name: str) -> str:
    return name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")


@pytest.mark.parametrize("name", ["cls.predictions.decoder.weight", "cls.predictions.decoder.bias"])
def test_bert_with_an_untied_head(name: str, tmp_path: Path) -> None:
    folder = saved(reference("bert-words"), tmp_path)
    state = weights(folder)
    twin = {"cls.predictions.decoder.bias": "cls.predictions.bias"}.get(name, "bert.embeddings.word_embeddings.weight")
    rewrite(folder, state | {name: state[twin] + 1e-3})
    with pytest.raises(CheckpointError, match=name):
        regard.load(folder)


COPIES = ["model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"]
TABLES = ["model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight"]


def test_marian_as_it_was_published(tmp_path: Path) -> None:
    """With every copy of the embedding, both tables of sinusoids, and the keys of its old config."""
    model = reference("transformer")
    folder = saved(model, tmp_path)
    net, state = regard.load(folder).net, weights(folder)
    old = state | {name: state["model.shared.weight"].clone() for name in COPIES}
    old |= {name: model.model.encoder.embed_positions.weight.detach().clone() for name in TABLES}
    keys = {"normalize_before": False, "normalize_embedding": False, "add_final_layer_norm": False, "_num_labels": 3}
    keys |= {"add_bias_logits": False, "static_position_embeddings": True, "extra_pos_embeddings": 0, "num_beams": 4}
    keys |= {"num_hidden_layers": 2, "classif_dropout": 0.0, "bad_words_ids": [[36]], "max_length": 512}
    rewrite(folder, old, **keys, is_decoder=None, tie_word_embeddings=None, decoder_vocab_size=None)
    assert_same(regard.load(folder).net, net)


@pytest.mark.parametrize("name", COPIES + TABLES)
def test_marian_with_another_copy(name: str, tmp_path: Path) -> None:
    """An embedding or a table of positions of its own would change every output, so it is not dropped."""
    model = reference("transformer")
    folder = saved(model, tmp_path)
    state = weights(folder)
    like = state["model.shared.weight"] if name in COPIES else model.model.encoder.embed_positions.weight.detach()
    other = like.clone()
    other[3, 5] += 0.01
    rewrite(folder, state | {name: other})
    with pytest.raises(CheckpointError, match=name):
        regard.load(folder)


# --------------------------------------------------------------------------------------------- what is told by names


def test_heads_are_found_by_their_names(tmp_path: Path) -> None:
    def config(case: str) -> object:
        return regard.load(saved(reference(case), tmp_path / case)).config

    assert (config("bert").pooler, config("bert").head) == (True, "none")
    assert (config("bert-bare").pooler, config("bert-bare").head) == (False, "none")
    assert (config("bert-words").pooler, config("bert-words").head) == (False, "words")
    assert (config("bert-pretraining").pooler, config("bert-pretraining").head) == (True, "pretraining")
    assert (config("bert-follows").pooler, config("bert-follows").head) == (True, "follows")
    assert (config("vit").classes, config("vit").representation) == (5, None)
    assert config("vit-two-classes").classes == 2
    assert (config("vit-pooled").classes, config("vit-pooled").representation) == (0, 20)
    assert (config("vit-bare").classes, config("vit-bare").representation) == (0, None)


def test_every_setting_arrives(tmp_path: Path) -> None:
    """Dropout plays no part in evaluation, so no output would show that it went to the wrong place."""
    gpt = changed("gpt", resid_pdrop=0.11, attn_pdrop=0.12, embd_pdrop=0.13, layer_norm_epsilon=1e-3)
    config = regard.load(saved(gpt(), tmp_path / "gpt")).config
    assert (config.dropout, config.attention_dropout, config.embedding_dropout, config.eps) == (0.11, 0.12, 0.13, 1e-3)
    for case in ("bert", "vit"):
        model = changed(case, hidden_dropout_prob=0.11, attention_probs_dropout_prob=0.12, layer_norm_eps=1e-3)
        config = regard.load(saved(model(), tmp_path / case)).config
        assert (config.dropout, config.attention_dropout, config.eps) == (0.11, 0.12, 1e-3)
    model = changed("transformer", dropout=0.11, attention_dropout=0.12, activation_dropout=0.13)
    config = regard.load(saved(model(), tmp_path / "transformer")).config
    assert (config.dropout, config.attention_dropout, config.hidden_dropout) == (0.11, 0.12, 0.13)


def changed(case: str, **settings: object) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        model = CASES[case]()
        for key, value in settings.items():
            assert hasattr(model.config, key)
            setattr(model.config, key, value)
        return model

    return build
