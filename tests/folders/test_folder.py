"""Folder format 1: it is written whole, read exactly, and a committed one loads for ever."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import regard
from regard.cli.app import main
from regard.decode.symbols import Symbols
from regard.errors import CheckpointError, ConfigError, InputError
from regard.folders import convert, export, foreign_card
from regard.modalities.text.vocabulary import Vocabulary
from regard.model import Model
from regard.nn.attention import MultiHeadAttention
from regard.storage.tensors import Weights
from tests import recall

GOLDEN = Path(__file__).parents[1] / "golden" / "format1"


def tiny() -> Model:
    return regard.build("gpt-tiny", vocab=25, length=16, dim=16, depth=2, heads=2).eval()


def test_the_committed_folder_loads_for_ever() -> None:
    """Frozen when format 1 was settled. If this fails, mend the loader, not the folder."""
    model = regard.load(GOLDEN)
    expected = json.loads((GOLDEN / "expected.json").read_text())
    assert model.family == "gpt"
    assert model.task == "generate"
    assert model.card.startswith("# A tiny GPT")
    tokens = model.text().encode([expected["text"]])
    assert tokens.ids.tolist() == [expected["ids"]]
    with torch.inference_mode():
        logits = model(tokens.ids)
    torch.testing.assert_close(logits[0, -1], torch.tensor(expected["last_logits"]), rtol=1e-4, atol=1e-5)


def test_counters_and_seeds_are_saved_and_loaded(tmp_path: Path) -> None:
    """Random features draw from a seed, an integer; in the place of a weight an integer is refused."""
    model = regard.build("gpt-tiny", vocab=25, length=16, dim=16, depth=1, heads=2, attention="performer")
    regard.save(model, tmp_path / "model")
    back = regard.load(tmp_path / "model").state_dict()
    assert all(torch.equal(x, back[name]) for name, x in model.state_dict().items())
    file = tmp_path / "model" / "model.safetensors"
    for name in ("embed.weight", "blocks.0.mixer.kernel.directions.seed"):
        other = back[name].float() if "seed" in name else back[name].long()
        save_file(back | {name: other}, file)
        with pytest.raises(CheckpointError, match="another kind of numbers") as error:
            regard.load(tmp_path / "model")
        assert error.value.got == f"'{name}'"


def test_what_is_saved_comes_back_to_the_bit(tmp_path: Path) -> None:
    model = replace(tiny(), processor=recall.tokenizer(), task="generate", card="# mine\n")
    regard.save(model, tmp_path / "model")
    back = regard.load(tmp_path / "model")
    assert back.config == model.config
    assert (back.task, back.card) == (model.task, model.card)
    assert back.text().encode(["Anna sings ."]).ids.tolist() == [[1, 13, 0]]
    assert back.state_dict().keys() == model.state_dict().keys()
    assert all(torch.equal(x, model.state_dict()[name]) for name, x in back.state_dict().items())
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == [
        "card.md",
        "model.safetensors",
        "regard.json",
        "tokenizer.json",
    ]


def test_where_a_text_begins_and_ends_is_kept(tmp_path: Path) -> None:
    symbols = Symbols(begin=3, end=(4, 5), pad=0)
    regard.save(replace(tiny(), symbols=symbols), tmp_path / "model")
    assert regard.load(tmp_path / "model").symbols == symbols
    assert "symbols" in json.loads((tmp_path / "model" / "regard.json").read_text())


@pytest.mark.parametrize("wrong", [{"begin": 25}, {"end": [-1]}, {"pad": True}, {"start": 1}, {"end": 3}, [], None])
def test_symbols_that_make_no_sense(wrong: object, tmp_path: Path) -> None:
    regard.save(tiny(), tmp_path / "model")
    path = tmp_path / "model" / "regard.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"symbols": wrong}))
    with pytest.raises(CheckpointError, match="symbols"):
        regard.load(tmp_path / "model")


def test_no_weight_keeps_its_initial_value(tmp_path: Path) -> None:
    model = tiny()
    for parameter in model.parameters():
        parameter.data.normal_()
    regard.save(model, tmp_path / "model")
    torch.manual_seed(1)
    loaded = regard.load(tmp_path / "model")
    for name, parameter in loaded.net.named_parameters():
        assert torch.equal(parameter, model.state_dict()[name]), name
        assert not parameter.is_meta
    assert not any(buffer.is_meta for buffer in loaded.net.buffers())
    loaded.train()(torch.randint(25, (2, 5))).sum().backward()
    assert all(parameter.grad is not None for parameter in loaded.parameters())


def test_a_folder_with_files_is_not_overwritten_by_chance(tmp_path: Path) -> None:
    regard.save(tiny(), tmp_path / "model")
    before = (tmp_path / "model" / "model.safetensors").read_bytes()
    with pytest.raises(InputError, match="not empty"):
        regard.save(tiny(), tmp_path / "model")
    assert (tmp_path / "model" / "model.safetensors").read_bytes() == before
    regard.save(tiny(), tmp_path / "model", replace=True)
    assert (tmp_path / "model" / "model.safetensors").read_bytes() != before


def test_a_prepared_model_gives_the_same_numbers_and_is_not_saved(tmp_path: Path) -> None:
    model = tiny()
    ids = torch.randint(25, (3, 9))
    fast = regard.prepare(model)
    torch.testing.assert_close(fast(ids), model(ids), rtol=1e-5, atol=1e-6)
    assert any(module.fused is not None for module in fast.net.modules() if isinstance(module, MultiHeadAttention))
    assert all(module.fused is None for module in model.net.modules() if isinstance(module, MultiHeadAttention))
    with pytest.raises(CheckpointError, match="unexpected"):
        regard.save(fast, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_prepared_model_is_a_frozen_copy() -> None:
    """It cannot be trained by half, does not follow the original by half, and converting it leaves that alone."""
    model = tiny()
    ids = torch.randint(25, (3, 9))
    fast = regard.prepare(model)
    before = fast(ids)
    assert not any(parameter.requires_grad for parameter in fast.parameters())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0)
    torch.testing.assert_close(fast(ids), before, rtol=0, atol=0)
    fast.to(torch.float64)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


@pytest.mark.parametrize("name", ["recal", "gpt-tiny", "..", ".", "", "pretrained", "./nowhere"])
def test_a_name_that_does_not_ship_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="not a model folder" if name in (".", "..") else "unknown model"):
        regard.load(name)


def test_a_path_that_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a model folder"):
        regard.load(tmp_path)
    with pytest.raises(InputError, match="folder not found"):
        regard.load(tmp_path / "nowhere")


def test_the_folder_of_a_run_is_its_model(tmp_path: Path) -> None:
    regard.save(tiny(), tmp_path / "model")
    (tmp_path / "run.toml").write_text("")
    assert regard.load(tmp_path).config == tiny().config
    assert main(["export", str(tmp_path), str(tmp_path / "theirs"), "--no-check"]) == 0
    shutil.rmtree(tmp_path / "model")
    with pytest.raises(InputError, match="regard resume"):
        regard.load(tmp_path)


def test_build_names_the_nearest() -> None:
    with pytest.raises(InputError, match="gpt-small"):
        regard.build("gpt-smal")
    with pytest.raises(ConfigError, match="'heads'"):
        regard.build("gpt-tiny", headz=2)
    with pytest.raises(ConfigError, match="did you mean 'top-k'"):
        regard.build("gpt-tiny", attention="topk")
    with pytest.raises(ConfigError, match="cannot be causal"):
        regard.build("gpt-tiny", attention="local-p")


def test_convert_and_export_go_round(tmp_path: Path) -> None:
    regard.save(replace(tiny(), processor=recall.tokenizer()), tmp_path / "a")
    export(tmp_path / "a", tmp_path / "hf")
    convert(tmp_path / "hf", tmp_path / "b")
    one, two = regard.load(tmp_path / "a"), regard.load(tmp_path / "b")
    assert one.config == two.config
    assert all(torch.equal(x, two.state_dict()[name]) for name, x in one.state_dict().items())
    assert two.text().encode(["Leo"]).ids.tolist() == [[12]]


def test_convert_says_where_a_model_is_from(tmp_path: Path) -> None:
    """Unless its folder has a card, or it is one of ours."""
    regard.save(tiny(), tmp_path / "a")
    export(tmp_path / "a", tmp_path / "hf")
    convert(tmp_path / "hf", tmp_path / "b")
    card = regard.load(tmp_path / "b").card
    for word in (
        "# b\n",
        f"`{tmp_path / 'hf'}`",
        "(model type gpt2)",
        "licence and limitations are those of the source",
    ):
        assert word in card
    (tmp_path / "hf" / "card.md").write_text("# Theirs\n")
    convert(tmp_path / "hf", tmp_path / "c")
    assert regard.load(tmp_path / "c").card == "# Theirs\n"
    convert(tmp_path / "a", tmp_path / "d")
    assert regard.load(tmp_path / "d").card == ""
    (tmp_path / "none").mkdir()
    assert "(model type llama2.c)" in foreign_card(tmp_path / "none", tmp_path / "e")


def test_what_cannot_be_converted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for source, what in (
        (tmp_path / "nope", "folder not found"),
        (tmp_path, "not a model folder of another library"),
    ):
        assert main(["convert", str(source), str(tmp_path / "out")]) == 2
        told = capsys.readouterr().err
        assert told.startswith(f"regard: {what}\n  where: {source}\n")
        assert "config.json" in told
        assert "llama2.c" in told


def test_convert_reads_a_pickled_file_that_load_refuses(tmp_path: Path) -> None:
    regard.save(tiny(), tmp_path / "a")
    export(tmp_path / "a", tmp_path / "hf")
    state = load_file(tmp_path / "hf" / "model.safetensors")
    torch.save(state, tmp_path / "hf" / "pytorch_model.bin")
    (tmp_path / "hf" / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match="never loaded automatically"):
        regard.load(tmp_path / "hf")
    convert(tmp_path / "hf", tmp_path / "b")
    one, two = regard.load(tmp_path / "a"), regard.load(tmp_path / "b")
    assert all(torch.equal(x, two.state_dict()[name]) for name, x in one.state_dict().items())


@pytest.mark.parametrize("kind", ["safetensors", "bin"])
def test_convert_tells_of_numbers_that_are_not_finite(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It converts them as they are, a tied copy too: a user may want just that model, but should know."""
    model = tiny()
    with torch.no_grad():
        model.net.embed.weight[3, 1] = torch.nan
        model.net.blocks[1].mixer.k.bias[0] = -torch.inf
    regard.save(model, tmp_path / "a")
    export(tmp_path / "a", tmp_path / "hf")
    state = load_file(tmp_path / "hf" / "model.safetensors")
    state["lm_head.weight"] = state["transformer.wte.weight"].clone()
    if kind == "bin":
        torch.save(state, tmp_path / "hf" / "pytorch_model.bin")
        (tmp_path / "hf" / "model.safetensors").unlink()
    else:
        save_file(state, tmp_path / "hf" / "model.safetensors")
    odd = ["embed.weight", "blocks.1.mixer.k.bias"]
    assert convert(tmp_path / "hf", tmp_path / "b") == odd
    back = regard.load(tmp_path / "b").state_dict()
    assert all(torch.equal(x.isfinite(), back[name].isfinite()) for name, x in model.state_dict().items())
    assert main(["convert", str(tmp_path / "hf"), str(tmp_path / "c")]) == 0
    out, lines = capsys.readouterr()
    assert out == f"wrote {tmp_path / 'c'}\n"
    assert lines.startswith("regard: warning: ")
    assert "2 of the tensors: embed.weight, blocks.1.mixer.k.bias\n" in lines
    assert main(["convert", str(tmp_path / "hf"), str(tmp_path / "d"), "--json"]) == 0
    out, lines = capsys.readouterr()
    assert json.loads(out)["not_finite"] == {"tensors": 2, "names": odd}
    assert lines == ""


def test_export_tells_of_numbers_that_are_not_finite(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tiny()
    with torch.no_grad():
        model.net.blocks[1].mixer.k.bias[0] = -torch.inf
    regard.save(model, tmp_path / "a")
    assert main(["export", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    out, lines = capsys.readouterr()
    assert out == f"wrote {tmp_path / 'b'}\n"
    assert lines.startswith("regard: warning: ")
    assert "1 of the tensors: transformer.h.1.attn.c_attn.bias\n" in lines
    assert main(["export", str(tmp_path / "a"), str(tmp_path / "c"), "--json"]) == 0
    out, lines = capsys.readouterr()
    assert json.loads(out)["not_finite"] == {"tensors": 1, "names": ["transformer.h.1.attn.c_attn.bias"]}
    assert lines == ""
    assert main(["export", "recall", str(tmp_path / "d"), "--no-check"]) == 0
    assert capsys.readouterr().err == ""


def test_export_is_told_for_which_library(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What transformers does not have goes out as timm's by either word."""
    regard.save(regard.build("swin-tiny", depth=(1, 1), heads=(3, 6)), tmp_path / "swin")
    regard.save(regard.build("mixer-s32", channels=1), tmp_path / "mixer")
    said = {}
    for name, to in (("swin", "hf"), ("swin", "timm"), ("mixer", "hf"), ("mixer", "timm")):
        out = tmp_path / f"{name} {to}"
        assert main(["export", str(tmp_path / name), str(out), "--to", to, "--no-check"]) == 0
        said[name, to] = json.loads((out / "config.json").read_text())
        assert regard.load(out).config == regard.load(tmp_path / name).config
    assert said["swin", "hf"]["model_type"] == "swin"
    assert said["swin", "timm"]["architecture"] == "swin_tiny_patch4_window7_224"
    assert said["mixer", "hf"] == said["mixer", "timm"]
    capsys.readouterr()
    assert main(["export", str(tmp_path / "swin"), str(tmp_path / "out"), "--to", "onnx"]) != 0
    assert "hf or timm" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_convert_says_nothing_of_finite_numbers_and_not_too_much_of_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tiny()
    regard.save(model, tmp_path / "a")
    export(tmp_path / "a", tmp_path / "hf")
    assert main(["convert", str(tmp_path / "hf"), str(tmp_path / "b")]) == 0
    assert capsys.readouterr().err == ""
    assert main(["convert", str(tmp_path / "hf"), str(tmp_path / "c"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["not_finite"] == {"tensors": 0, "names": []}
    state = {name: x * torch.nan for name, x in load_file(tmp_path / "hf" / "model.safetensors").items()}
    save_file(state, tmp_path / "hf" / "model.safetensors")
    count = len(model.state_dict())
    assert main(["convert", str(tmp_path / "hf"), str(tmp_path / "d")]) == 0
    assert f"{count} of the tensors" in (lines := capsys.readouterr().err)
    assert f"and {count - 20} more" in lines
    assert main(["convert", str(tmp_path / "hf"), str(tmp_path / "e"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["not_finite"]
    assert (told["tensors"], len(told["names"])) == (count, 20)


def test_a_plain_transformer_is_exported(tmp_path: Path) -> None:
    size = {"vocab": 25, "dim": 16, "depth": 2, "heads": 2, "hidden": 32, "waves": "halves", "output_bias": True}
    regard.save(regard.build("transformer-small", **size), tmp_path / "a")
    export(tmp_path / "a", tmp_path / "hf")
    assert regard.load(tmp_path / "hf").config == regard.load(tmp_path / "a").config


def test_keys_of_a_foreign_config_are_shown_escaped_and_not_without_end(tmp_path: Path) -> None:
    regard.save(tiny(), tmp_path / "a")
    export(tmp_path / "a", tmp_path / "hf")
    data = json.loads((tmp_path / "hf" / "config.json").read_text())
    data |= {f"\x1b[31m{i}\n": "x" * 100 for i in range(10_000)}
    (tmp_path / "hf" / "config.json").write_text(json.dumps(data))
    with pytest.raises(CheckpointError, match="10000 invalid in the config") as caught:
        regard.load(tmp_path / "hf")
    assert "and 9,950 more" in str(caught.value)
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 10_000


@pytest.mark.parametrize("folder", ["ours", "theirs"])
def test_tensors_without_end_are_counted_but_neither_listed_nor_read(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those whose names a rule knows: the config tells that there is no such layer."""
    regard.save(tiny(), tmp_path / "ours")
    export(tmp_path / "ours", tmp_path / "theirs")
    file = tmp_path / folder / "model.safetensors"
    junk = {f"transformer.h.{i}.{name}": torch.zeros(1) for i in range(2, 1002) for name in ("junk", "ln_1.weight")}
    save_file(load_file(file) | junk, file)
    read, count = [], Weights.read
    monkeypatch.setattr(Weights, "read", lambda self, dtype: read.extend(self.header) or count(self, dtype))
    with pytest.raises(CheckpointError, match="2000 unexpected") as caught:
        regard.load(tmp_path / folder)
    assert not junk.keys() & read
    assert "transformer.h.2.junk (1,)\n" in (text := str(caught.value))
    assert "and 1,950 more" in text
    assert len(text) < 4_000


def test_looking_asks_for_as_many_texts_as_the_model_reads() -> None:
    with pytest.raises(InputError, match=r"wrong number of inputs for a [\s\S]*expected: 1"):
        regard.load("recall").look("Anna", "Boris")


def test_what_their_format_cannot_say_is_not_exported(tmp_path: Path) -> None:
    regard.save(
        regard.build("gpt-tiny", vocab=25, length=16, dim=16, depth=2, heads=2, attention="cosine"), tmp_path / "a"
    )
    with pytest.raises(InputError, match=r"cannot be exported") as caught:
        export(tmp_path / "a", tmp_path / "hf")
    assert caught.value.got == "attention = 'cosine'"
    assert caught.value.expected == "attention = 'softmax'"
    assert not (tmp_path / "hf").exists()


@pytest.mark.parametrize("attention", [{"kind": "softmax"}, ["softmax"], ["softmax", {"kind": "softmax"}]])
def test_an_attention_may_be_said_in_many_words(attention: Any, tmp_path: Path) -> None:
    model = regard.build("gpt-tiny", vocab=25, length=16, dim=16, depth=2, heads=2, attention=attention)
    regard.export(model, tmp_path / "hf")
    assert regard.load(tmp_path / "hf").config.attention == "softmax"


def test_an_attention_that_is_set_otherwise_is_another(tmp_path: Path) -> None:
    for attention in ({"kind": "softmax", "scale": 0.5}, ["softmax", "dot"]):
        model = regard.build("gpt-tiny", vocab=25, length=16, dim=16, depth=2, heads=2, attention=attention)
        with pytest.raises(InputError, match="got: attention = "):
            regard.export(model, tmp_path / "hf")


def test_a_tokenizer_that_is_no_file_is_refused(tmp_path: Path) -> None:
    """It must not be left out in silence: a link whose target is gone, a folder."""
    words = Vocabulary("characters", 25).learn(["abcdefgh"])
    regard.save(replace(tiny(), processor=words), tmp_path / "model")
    file = tmp_path / "model" / "tokenizer.json"
    file.unlink()
    file.symlink_to(tmp_path / "gone")
    with pytest.raises(CheckpointError, match=r"the processor is missing a file[\s\S]*tokenizer\.json"):
        regard.load(tmp_path / "model")
    file.unlink()
    file.mkdir()
    with pytest.raises(CheckpointError, match=r"the processor is missing a file[\s\S]*tokenizer\.json"):
        regard.load(tmp_path / "model")


def test_a_model_can_be_listened_to() -> None:
    model = tiny()
    with regard.capture(model, "*.weights") as seen:
        model(torch.tensor([[1, 2]]))
    assert seen
