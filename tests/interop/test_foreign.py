"""Impossible values in a foreign config are told in the words of that file, with its name, all of them at once."""

import json
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.errors import CheckpointError, InputError
from regard.folders import export

SMALL: dict[str, dict[str, Any]] = {
    "gpt-tiny": {"vocab": 9, "length": 8, "dim": 8, "depth": 2, "heads": 2, "hidden": 16},
    "bert-tiny": {"vocab": 9, "length": 8, "dim": 8, "depth": 2, "heads": 2, "hidden": 16},
    "vit-tiny": {"image": 8, "patch": 4, "classes": 3, "dim": 8, "depth": 2, "heads": 2, "hidden": 16, "eps": 1e-12},
    "transformer-small": {"vocab": 9, "dim": 8, "depth": 2, "heads": 2, "hidden": 16, "waves": "halves"}
    | {"output_bias": True},
}


def refused(name: str, folder: Path, changes: dict[str, Any]) -> CheckpointError:
    regard.save(regard.build(name, **SMALL[name]), folder / "ours")
    export(folder / "ours", folder / "theirs")
    path = folder / "theirs" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(CheckpointError) as caught:
        regard.load(folder / "theirs")
    assert caught.value.where == str(path)
    return caught.value


@pytest.mark.parametrize(
    ("name", "changes", "problems"),
    [
        (
            "bert-tiny",
            {"hidden_size": 10, "num_attention_heads": 3},
            ["hidden_size = 10 is not a multiple of num_attention_heads = 3"],
        ),
        (
            "bert-tiny",
            {"hidden_size": -4, "num_attention_heads": 0, "vocab_size": "many", "hidden_act": 3, "rope": 1},
            [
                "vocab_size = 'many' is not an integer",
                "hidden_size = -4 must be at least 1",
                "num_attention_heads = 0 must be at least 1",
                "hidden_act = 3 is not a string",
                "unknown key 'rope' = '1'",
            ],
        ),
        (
            "gpt-tiny",
            {"n_embd": 10, "n_head": 3, "n_inner": 0, "attn_pdrop": 1.5, "layer_norm_epsilon": 0, "n_positions": -1},
            [
                "n_positions = -1 must be at least 1",
                "n_inner = 0 must be at least 1",
                "attn_pdrop = 1.5 must be at least 0 and less than 1",
                "layer_norm_epsilon = 0 must be greater than 0",
                "n_embd = 10 is not a multiple of n_head = 3",
            ],
        ),
        ("gpt-tiny", {"n_layer": 10**6}, ["n_layer = 1000000 is more layers than the checkpoint has tensors, 28"]),
        (
            "gpt-tiny",
            {"n_embd": 10**300, "resid_pdrop": 10**400},
            ["n_embd = 1000", "resid_pdrop = 1000"],
        ),
        (
            "vit-tiny",
            {"patch_size": 3, "hidden_size": 9, "id2label": None, "num_labels": -1},
            [
                "num_labels = -1 must be at least 0",
                "hidden_size = 9 is not a multiple of num_attention_heads = 2",
                "image_size = 8 is not a multiple of patch_size = 3",
            ],
        ),
        (
            "transformer-small",
            {"d_model": 9, "decoder_layers": 0, "dropout": -0.5},
            [
                "decoder_layers = 0 must be at least 1",
                "dropout = -0.5 must be at least 0 and less than 1",
                "d_model = 9 is not a multiple of encoder_attention_heads = 2",
            ],
        ),
        ("transformer-small", {"encoder_attention_heads": 0}, ["encoder_attention_heads = 0 must be at least 1"]),
    ],
)
def test_their_words_and_their_file(name: str, changes: dict[str, Any], problems: list[str], tmp_path: Path) -> None:
    error = refused(name, tmp_path, changes)
    assert [problem for problem in problems if problem not in error.got] == []
    assert len(error.got.strip().splitlines()) == 1 + len(problems), "nothing is concluded from what cannot be read"


def test_sizes_that_no_tensor_can_have(tmp_path: Path) -> None:
    error = refused("gpt-tiny", tmp_path, {"n_embd": 1 << 39, "n_head": 1, "vocab_size": 1 << 39})
    for size in (f"n_embd = {1 << 39}", f"vocab_size = {1 << 39}", "n_head = 1"):
        assert size in error.got


def test_impossible_sizes_of_ours_name_the_file(tmp_path: Path) -> None:
    regard.save(regard.build("gpt-tiny", **SMALL["gpt-tiny"]), tmp_path / "ours")
    path = tmp_path / "ours" / "regard.json"
    for change in ({"dim": 1 << 39, "vocab": 1 << 39, "heads": 1}, {"attention": "local-p"}, {"dim": 9, "x": 1}):
        data = json.loads(path.read_text())
        (tmp_path / "ours" / "regard.json").write_text(json.dumps(data | {"config": data["config"] | change}))
        with pytest.raises(InputError) as caught:
            regard.load(tmp_path / "ours")
        assert caught.value.where == str(path)
        path.write_text(json.dumps(data))
