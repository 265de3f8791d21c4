"""What goes out is what came in, and the reference loads it."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import regard
from regard.decode.symbols import Symbols
from regard.errors import InputError
from regard.folders import convert, export, save
from tests.parity.ours import assert_close, run
from tests.parity.references import CASES, FAMILIES, FIXED, TIMM, UNNAMED, explicit, reference
from tests.parity.twins import batch, run_reference, saved

# Our config has no place for them, and no output depends on them.
LOST = {"transformers_version", "_name_or_path", "dtype"}


NAMED = [case for case in TIMM if "named" in case]  # of a size that has a name there; others may go by any name


def reloaded(case: str, like: nn.Module, folder: Path) -> nn.Module:
    """By the reference, which must find every tensor that it wants, and no other."""
    if case in TIMM:
        import timm

        model = timm.create_model(f"local-dir:{folder}", pretrained=True)
        return explicit(model.eval())
    pooled = ("bert", "vit", "deit")
    bare = {"add_pooling_layer": False} if case.endswith("-bare") and FAMILIES[case] in pooled else {}
    eager = {} if "fnet" in case or FAMILIES[case] in FIXED else {"attn_implementation": "eager"}
    model, info = type(like).from_pretrained(folder, output_loading_info=True, **eager, **bare)
    assert {key: found for key, found in info.items() if found} == {}
    return model.eval()


@pytest.mark.parametrize("case", [case for case in CASES if case not in UNNAMED])
def test_import_then_export_is_the_identity(case: str, tmp_path: Path) -> None:
    model = reference(case)
    there, back = saved(model, tmp_path / "there"), tmp_path / "back"
    export(there, back, to="timm" if case in TIMM else "hf")
    theirs, ours = load_file(there / "model.safetensors"), load_file(back / "model.safetensors")
    if "swin" in case and case.endswith("-timm-bare"):  # without a head timm takes a file for one of an older version
        ours = {name.replace("layers.0.downsample", "layers.1.downsample"): x for name, x in ours.items()}
    if case in ("cliptext-bare", "cliptext-highest"):  # as versions before 5.6 write it, which all versions read
        ours = {name.removeprefix("text_model."): x for name, x in ours.items()}
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if ours[name].dtype != theirs[name].dtype] == []
    assert [name for name in ours if not torch.equal(ours[name], theirs[name])] == []
    again = reloaded(case, model, back)
    if case in TIMM:
        said, meant = (json.loads((folder / "config.json").read_text()) for folder in (there, back))
        other = {"pretrained_cfg", "model_args"} | ({"architecture"} if case not in NAMED else set())
        said, meant = ({key: x for key, x in data.items() if key not in other} for data in (said, meant))
        assert regard.load(there).config == regard.load(back).config
    else:
        said, meant = again.config.to_dict(), model.config.to_dict()
    kind = getattr(getattr(model, "config", None), "model_type", "")
    if kind == "marian":  # sinusoids of any length, and two names of one function
        said["max_position_embeddings"] = meant["max_position_embeddings"]
        meant["activation_function"] = meant["activation_function"].replace("swish", "silu")
    if kind == "perceiver":  # it has the sizes of all other kinds too
        alien = {"image_size"} if case != "perceiver-learned" else set()
        alien |= {"d_model", "vocab_size", "max_position_embeddings"} if FAMILIES[case] == "perceiver" else set()
        said |= {key: meant[key] for key in alien}
    if kind == "detr":  # read from a file, it is told twice what the numbers are, and forgets a key
        said |= {"use_timm_backbone": False, "backbone_config": said["backbone_config"] | {"dtype": None}}
    if kind == "clip":  # neither are begins and padding parts of the model, nor do both towers use this width
        alien = {"text_config": ("bos_token_id", "pad_token_id", "projection_dim", "dtype")}
        alien |= {"vision_config": ("projection_dim", "dtype")}
        said |= {tower: said[tower] | {key: meant[tower][key] for key in keys} for tower, keys in alien.items()}
    if kind == "clip_text_model":  # without a projection it has no width
        said["projection_dim"] = meant["projection_dim"] if case != "cliptext" else said["projection_dim"]
    if kind == "t5":  # there it says true, whatever is meant
        said["tie_word_embeddings"] = meant["tie_word_embeddings"]
    assert {k: v for k, v in said.items() if k not in LOST} == {k: v for k, v in meant.items() if k not in LOST}
    inputs = batch(case)
    first, second = run_reference(case, model, inputs), run_reference(case, again, inputs)
    for name, x in first.outputs.items():  # the place in memory may change the order of a sum
        torch.testing.assert_close(second.outputs[name], x, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "changes", "arch"),
    [
        ("gpt-tiny", {"hidden": 96}, "GPT2LMHeadModel"),
        ("gpt-tiny", {"tied": False, "activation": "silu"}, "GPT2LMHeadModel"),
        ("bert-tiny", {"vocab": 99}, "BertModel"),
        ("bert-tiny", {"vocab": 99, "head": "words", "pooler": False}, "BertForMaskedLM"),
        ("bert-tiny", {"vocab": 99, "head": "pretraining"}, "BertForPreTraining"),
        ("vit-cifar", {"pool": "class", "depth": 2}, "ViTForImageClassification"),
        ("vit-cifar", {"pool": "class", "depth": 2, "classes": 0, "representation": 192}, "ViTModel"),
        ("deit-tiny", {"image": 32, "depth": 2}, "DeiTForImageClassificationWithTeacher"),
        ("deit-tiny", {"image": 32, "depth": 2, "pool": "class", "classes": 3}, "DeiTForImageClassification"),
        (
            "transformer-small",
            {"vocab": 60, "dim": 32, "hidden": 48, "waves": "halves", "output_bias": True, "decoder_depth": 1},
            "MarianMTModel",
        ),
        ("transformer-small", {"vocab": 60, "dim": 32, "hidden": 48}, "MarianMTModel"),
        (
            "transformer-small",
            {"vocab": 60, "dim": 32, "hidden": 48, "norm": "pre"},
            "BlenderbotForConditionalGeneration",
        ),
        ("gpt-tiny", {"rotary": 1e4, "groups": 2, "tied": False}, "Starcoder2ForCausalLM"),
        ("gpt-tiny", {"rotary": 1e4, "biases": "none", "normed": "rms", "gated": True}, "LlamaForCausalLM"),
        ("vit-cifar", {"pool": "class", "depth": 1, "drop_path": 0.1, "classes": 3}, "ViTForImageClassification"),
        (
            "switch-base-8",
            {"vocab": 60, "dim": 32, "hidden": 48, "depth": 4, "heads": 3, "experts": 4, "tied": False, "room": 2},
            "SwitchTransformersForConditionalGeneration",
        ),
    ],
)
def test_a_model_of_ours_goes_out(name: str, changes: dict[str, object], arch: str, tmp_path: Path) -> None:
    """Built here, with sizes that no twin has, and run by the reference."""
    import transformers

    model = regard.build(name, **changes).eval()
    for x in model.parameters():
        torch.nn.init.normal_(x, std=0.1)
    save(model, tmp_path / "ours")
    export(tmp_path / "ours", tmp_path / "theirs", to="hf")
    kind = getattr(transformers, arch)
    case = next(case for case in CASES if FAMILIES[case] == model.family)
    theirs, info = kind.from_pretrained(tmp_path / "theirs", output_loading_info=True, attn_implementation="eager")
    assert {key: found for key, found in info.items() if found} == {}
    inputs = {"images": torch.randn(2, 3, 32, 32)} if model.family in ("vit", "deit") else batch(case)
    ours, found = run(model.family, model.net, inputs), run_reference(case, theirs.eval(), inputs)
    for outputs in (ours.outputs, found.outputs):  # its numbers stand there in another order
        if model.family == "transformer" and model.config.waves == "interleaved":
            outputs.pop("memory")
    assert_close(ours.outputs, found.outputs)
    assert_close(ours.maps, found.maps)


@pytest.mark.parametrize(
    ("name", "changes", "key"),
    [
        ("transformer-small", {"vocab": 60, "dim": 32, "norm": "admin"}, "norm"),
        ("gpt-tiny", {"attention": "top-k"}, "attention"),
        ("gpt-tiny", {"attention": "cosine"}, "attention"),
        ("vit-cifar", {"pool": "mean", "depth": 1}, "pool"),
        ("switch-base-8", {"vocab": 60, "dim": 32, "hidden": 48, "depth": 4}, "room"),
        ("switch-base-8", {"vocab": 60, "dim": 32, "hidden": 48, "depth": 5, "every": 3, "room": 9}, "every"),
        ("switch-base-8", {"vocab": 60, "dim": 32, "hidden": 48, "depth": 2, "room": 9, "gated": True}, "gated"),
        ("switch-base-8", {"vocab": 60, "dim": 32, "hidden": 48, "depth": 2, "room": 9, "scaled": False}, "scaled"),
        ("albert-base", {"vocab": 60, "narrow": 8, "dim": 24, "heads": 2, "hidden": 48, "head": "follows"}, "head"),
        ("vit-cifar", {"pool": "class", "depth": 1, "representation": 24}, "representation"),
        ("deit-tiny", {"image": 32, "depth": 1, "classes": 0}, "pool"),
    ],
)
def test_what_their_format_cannot_say_is_an_error(
    name: str, changes: dict[str, object], key: str, tmp_path: Path
) -> None:
    save(regard.build(name, **changes), tmp_path / "ours")
    with pytest.raises(InputError, match=rf"cannot be exported(.|\n)*got: .*\b{key} = "):
        export(tmp_path / "ours", tmp_path / "theirs", to="hf")
    assert not (tmp_path / "theirs").exists()


def test_the_families_that_have_a_counterpart_are_each_told_once(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a rnn model cannot be exported to this format") as error:
        export(regard.build("rnn-cho", vocab=20), tmp_path / "theirs")
    families = error.value.expected.split(", ")
    assert families[:3] == ["gpt", "bert", "t5"]
    assert len(set(families)) == len(families)


@pytest.mark.parametrize("case", UNNAMED)
def test_a_size_that_has_no_name_there_cannot_go_out(case: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot be exported(.|\n)*got: .*\b(patch|outlookers) = "):
        export(saved(reference(case), tmp_path / "there"), tmp_path / "back")


def test_only_one_format_is_known(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="onnx"):
        export(saved(reference("gpt"), tmp_path / "there"), tmp_path / "back", to="onnx")


def test_the_config_is_plain_json(tmp_path: Path) -> None:
    export(saved(reference("vit"), tmp_path / "there"), tmp_path / "back")
    data = json.loads((tmp_path / "back" / "config.json").read_text())
    assert data["model_type"] == "vit"
    assert data["architectures"] == ["ViTForImageClassification"]
    assert list(data["label2id"].values()) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("case", ["gpt", "transformer"])
def test_what_goes_out_generates_as_before(case: str, tmp_path: Path) -> None:
    """Where a text begins and ends comes along: from their config to our folder and back."""
    model = reference(case)
    there = saved(model, tmp_path / "there")
    convert(there, tmp_path / "ours")
    export(tmp_path / "ours", tmp_path / "back")
    again = reloaded(case, model, tmp_path / "back")
    ids = torch.tensor([[5, 3, 9, 1]])
    begin = regard.load(there).symbols.begin
    never = {"bad_words_ids": [[begin]]} if case == "transformer" else {}  # here no text begins twice
    first, second = (x.generate(ids, max_new_tokens=7, do_sample=False, **never) for x in (model, again))
    assert torch.equal(first, second)
    assert regard.load(tmp_path / "ours").symbols == regard.load(tmp_path / "back").symbols


def test_an_id_beyond_the_vocabulary_is_none(tmp_path: Path) -> None:
    there = saved(reference("gpt"), tmp_path / "there")
    config = json.loads((there / "config.json").read_text())
    (there / "generation_config.json").write_text(json.dumps({"eos_token_id": [3, 4, config["vocab_size"]]}))
    for key in ("bos_token_id", "eos_token_id"):
        config.pop(key, None)
    (there / "config.json").write_text(json.dumps(config))
    assert regard.load(there).symbols == Symbols(None, (3, 4), None)
