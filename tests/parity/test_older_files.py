"""Files as they were published, in older forms: they load, and give what the reference gives."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import regard
from regard.errors import CheckpointError
from tests.parity.references import deit, redraw, reference, timm_vit
from tests.parity.test_folders import assert_same
from tests.parity.theirs import transformers
from tests.parity.told import assert_same as assert_read
from tests.parity.told import said
from tests.parity.twins import batch, saved


def config_of(folder: Path, **changes: Any) -> Path:
    """The folder with another config; None takes a key away."""
    path = folder / "config.json"
    data = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in data.items() if value is not None}))
    return folder


def test_t5_with_a_bias_that_nothing_reads(tmp_path: Path) -> None:
    """Version 1.0 as it was published: in the files of its decoder's first cross-attention."""
    folder = saved(reference("t5"), tmp_path)
    net, state = regard.load(folder).net, load_file(folder / "model.safetensors")
    name = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
    save_file(state | {name: torch.ones(8, 2)}, folder / "model.safetensors", {"format": "pt"})
    assert_same(regard.load(folder).net, net)


def test_deit_with_its_usual_pooler(tmp_path: Path) -> None:
    model = transformers.DeiTModel(deit(num_labels=2).config).eval()
    redraw(model, 0)
    loaded, images = regard.load(saved(model, tmp_path / "theirs")), batch("deit")["images"]
    with torch.no_grad():
        torch.testing.assert_close(loaded.net(images), model(images).pooler_output, rtol=1e-4, atol=1e-5)
    assert (loaded.config.representation, loaded.config.classes) == (20, 0)
    regard.export(loaded, tmp_path / "back")
    again = transformers.DeiTModel.from_pretrained(tmp_path / "back")
    assert all(torch.equal(x, model.state_dict()[name]) for name, x in again.state_dict().items())


@pytest.mark.parametrize("case", ["gpt", "gpt-one", "bert-words", "vit", "transformer", "t5", "bert-distil"])
def test_a_config_without_its_model_type(case: str, tmp_path: Path) -> None:
    """The class that the weights were saved from tells it."""
    folder = saved(reference(case), tmp_path)
    net = regard.load(folder).net
    assert_same(regard.load(config_of(folder, model_type=None)).net, net)


def test_a_config_that_tells_only_sizes(tmp_path: Path) -> None:
    """BERT's, as its authors wrote it: the names of the tensors tell the kind, unless another kind has them too."""
    folder = saved(reference("bert-words"), tmp_path / "words")
    net = regard.load(folder).net
    assert_same(regard.load(config_of(folder, model_type=None, architectures=None)).net, net)
    bare = saved(reference("bert"), tmp_path / "bare")
    with pytest.raises(CheckpointError, match="unknown model type") as caught:
        regard.load(config_of(bare, model_type=None, architectures=None))
    assert caught.value.fix == "add the model_type of these weights to this file"


@pytest.mark.parametrize("case", ["vit", "deit", "swin", "swinv2"])
def test_sides_told_twice(case: str, tmp_path: Path) -> None:
    patch = 2 if "swin" in case else 4
    assert_read(case, said(case) | {"image_size": [12, 12], "patch_size": [patch, patch]}, tmp_path / "theirs")


DUMP = {
    "is_decoder": False,
    "eos_token_ids": 0,
    "typical_p": 1.0,
    "tf_legacy_loss": False,
    "xla_device": None,
    "cross_attention_hidden_size": None,
    "add_cross_attention": False,
    "tie_encoder_decoder": False,
    "pruned_heads": {},
    "return_dict": True,
    "torchscript": False,
    "use_bfloat16": False,
    "exponential_decay_length_penalty": None,
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
    "diversity_penalty": 0.0,
    "bad_words_ids": None,
    "tokenizer_class": None,
    "sep_token_id": None,
    "problem_type": None,
    "chunk_size_feed_forward": 0,
}
KINDS = ["gpt", "gpt-one", "gpt-llama", "gpt-mistral", "gpt-qwen", "bert-words", "bert-albert", "bert-distil", "t5"]
KINDS += ["bert-fnet", "switch", "vit", "deit", "resnet", "detr", "perceiver", "perceiverlm", "swin", "swinv2", "levit"]
KINDS += ["transformer", "reformer"]


@pytest.mark.parametrize("case", KINDS)
def test_an_old_dump_of_every_key(case: str, tmp_path: Path) -> None:
    folder = saved(reference(case), tmp_path)
    net = regard.load(folder).net
    kind = json.loads((folder / "config.json").read_text())
    path = folder / "config.json"
    path.write_text(
        json.dumps(
            {**DUMP, **kind, "_name_or_path": "x", "_commit_hash": None, "is_decoder": kind.get("is_decoder", False)}
        )
    )
    assert_same(regard.load(folder).net, net)


MORE = {
    "Qwen2.5": ("gpt-qwen", {"use_mrope": False, "max_window_layers": 21, "sliding_window": 32768, "rope_theta": 1e6}),
    "SmolLM": (
        "gpt-llama",
        {"is_llama_config": True, "rope_interleaved": False, "rope_scaling": None, "pretraining_tp": 1},
    ),
    "GPT": ("gpt-one", {"n_ctx": 12, "n_special": 0, "predict_special_tokens": True}),
}


@pytest.mark.parametrize("name", MORE)
def test_keys_of_one_family(name: str, tmp_path: Path) -> None:
    case, keys = MORE[name]
    assert_read(case, {key: x for key, x in said(case).items() if key != "rope_parameters"} | keys, tmp_path / "theirs")


@pytest.mark.parametrize("key", ["use_mrope", "rope_interleaved", "is_decoder", "tie_encoder_decoder"])
def test_another_value_is_refused(key: str, tmp_path: Path) -> None:
    folder = config_of(saved(reference("gpt-qwen"), tmp_path), **{key: True})
    with pytest.raises(CheckpointError, match=f"{key} = True is not supported, expected False"):
        regard.load(folder)


def test_shards_in_a_cache_of_links(tmp_path: Path) -> None:
    """A cache keeps files by their digests, and links to them; a link to elsewhere is refused as before."""
    made = saved(reference("gpt"), tmp_path / "made", max_shard_size="8KB")
    net = regard.load(made).net
    folder, blobs = tmp_path / "models--a--b" / "snapshots" / "0123", tmp_path / "models--a--b" / "blobs"
    folder.mkdir(parents=True)
    blobs.mkdir()
    for i, file in enumerate(sorted(made.iterdir())):
        file.rename(blobs / f"{i:064x}")
        (folder / file.name).symlink_to(Path("..") / ".." / "blobs" / f"{i:064x}")
    assert_same(regard.load(folder).net, net)
    shard = sorted(folder.glob("*.safetensors"))[0]
    (shard.resolve()).rename(tmp_path / "elsewhere.safetensors")
    shard.unlink()
    shard.symlink_to(tmp_path / "elsewhere.safetensors")
    with pytest.raises(CheckpointError, match="is a link that points outside the folder"):
        regard.load(folder)


def test_timms_older_flat_config(tmp_path: Path) -> None:
    """As its first folders had it: all in one table."""
    timm = pytest.importorskip("timm", reason="the reference is not installed: pip install regard[parity]")
    model = timm.create_model("vit_tiny_patch16_224", img_size=32, num_classes=3)
    timm.models.save_for_hf(model, tmp_path, safe_serialization=True)
    path = tmp_path / "config.json"
    inner = json.loads(path.read_text())["pretrained_cfg"] | {"input_size": [3, 32, 32], "num_classes": 3}
    path.write_text(json.dumps({"architecture": "vit_tiny_patch16_224", "num_features": 192, **inner}))
    theirs = timm.create_model(f"local-dir:{tmp_path}", pretrained=True).eval()
    loaded, images = regard.load(tmp_path), torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(loaded.net(images), theirs(images), rtol=1e-4, atol=1e-5)
    assert (loaded.config.image, loaded.config.classes) == (32, 3)
    assert loaded.processor is not None


def test_timm_reads_other_sizes_otherwise(tmp_path: Path) -> None:
    folder = saved(timm_vit("vit_tiny_patch16_224", dynamic_img_size=True), tmp_path)
    with pytest.raises(CheckpointError, match="dynamic_img_size = True is not supported, expected False"):
        regard.load(folder)


def test_weights_from_before_pytorch_1_6(tmp_path: Path) -> None:
    """A folder of that time is converted."""
    model = reference("bert-words")
    folder = saved(model, tmp_path / "old")
    net = regard.load(folder).net
    (folder / "model.safetensors").unlink()
    torch.save(model.state_dict(), folder / "pytorch_model.bin", _use_new_zipfile_serialization=False)
    regard.convert(folder, tmp_path / "new")
    assert_same(regard.load(tmp_path / "new").net, net)
