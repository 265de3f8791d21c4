"""What check says, before training, of where a model can go."""

from pathlib import Path

import pytest

from regard.cli.app import main
from regard.cli.check import export_line
from regard.interop.exporting import export_targets
from regard.modalities.goals import GOALS
from regard.zoo import FAMILIES


@pytest.mark.parametrize(
    ("preset", "told"),
    [
        ("transformer-base-pre", "to hf (BlenderbotForConditionalGeneration)"),
        ("transformer-small", "to hf (MarianMTModel)"),
        ("swin-cifar", "to hf (SwinForImageClassification), timm (swin_tiny_patch4_window7_224)"),
        ("vit-cifar", "to timm (vit_tiny_patch16_224)"),
        ("performer-small", "not to hf: attention = {'kind': 'performer', 'features': 256} (there: 'softmax')"),
        ("rnn-cho", "no other library has this model: it can be used with regard only"),
    ],
)
def test_where_a_model_can_go(preset: str, told: str) -> None:
    row = next((name, row) for name, row in FAMILIES.items() if preset in row.presets)
    targets = export_targets(row[0], row[1].presets[preset])
    assert export_line([vars(one) for one in targets]).startswith(told)


def test_check_tells_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = "".join(f"{i} apples\t{i} Äpfel\n" for i in range(200))
    (tmp_path / "pairs.tsv").write_text(lines)
    (tmp_path / "run.toml").write_text(
        'folder = "run"\n[task]\nkind = "translate"\n[data]\nkind = "pairs"\ntrain = ["pairs.tsv"]\n'
        '[model]\nname = "transformer-small"\ndim = 16\ndepth = 1\nheads = 2\nhidden = 16\nnorm = "pre"\n'
    )
    assert main(["check", str(tmp_path / "run.toml")]) == 0
    assert "export      to hf (BlenderbotForConditionalGeneration)" in capsys.readouterr().out


def test_the_manual_says_where_the_default_translator_goes() -> None:
    """The line of docs/exporting.md, and the class that `check` would name for the template's model."""
    manual = (Path(__file__).parents[2] / "docs" / "exporting.md").read_text("utf-8")
    (line,) = [line for line in manual.splitlines() if "the default of `regard init translate`" in line]
    named = GOALS["translate"].templates["translate"].model["name"]
    (target,) = export_targets("transformer", FAMILIES["transformer"].presets[named])
    assert f"`{target.name}`" in line
