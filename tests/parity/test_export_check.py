"""`regard export` opens what it wrote with the other library, and says whether it is the same."""

import json
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

import regard
from regard.cli.app import main
from regard.errors import InputError
from regard.export_check import check_export
from regard.folders import export

pytestmark = pytest.mark.slow  # each starts a process that imports the other library


@pytest.mark.parametrize(
    ("name", "library", "compared"),
    [
        ("tatoeba-en-de", "transformers", ["numbers", "token ids", "generated text"]),
        ("shakespeare", "transformers", ["numbers", "token ids", "generated text"]),
        ("recall", "transformers", ["numbers"]),
        ("digits", "timm", ["numbers"]),
    ],
)
def test_all_that_ships(
    name: str, library: str, compared: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip(library)
    assert main(["export", name, str(tmp_path / "out"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["check"]
    assert (found["library"], found["compared"]) == (library, compared)


def test_other_weights_are_noticed(tmp_path: Path) -> None:
    model = regard.load("shakespeare")
    export(model, tmp_path / "out")
    weights = load_file(tmp_path / "out" / "model.safetensors")
    weights["model.norm.bias"][3] += 0.5
    save_file(weights, tmp_path / "out" / "model.safetensors", {"format": "pt"})
    with pytest.raises(InputError, match=r"does not give the same in transformers(.|\n)*logits up to"):
        check_export(model, tmp_path / "out")


def test_another_tokenizer_is_noticed(tmp_path: Path) -> None:
    model = regard.load("shakespeare")
    export(model, tmp_path / "out")
    path = tmp_path / "out" / "tokenizer.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"post_processor": None}))
    with pytest.raises(InputError, match="token ids"):
        check_export(model, tmp_path / "out")


def test_a_folder_that_cannot_be_opened(tmp_path: Path) -> None:
    model = regard.load("recall")
    export(model, tmp_path / "out")
    (tmp_path / "out" / "config.json").write_text('{"model_type": "nothing", "architectures": ["Nothing"]}')
    with pytest.raises(InputError, match="it cannot be opened"):
        check_export(model, tmp_path / "out")
