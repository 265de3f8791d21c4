"""Models of unusual shapes go out, and the other library opens them."""

from pathlib import Path

import pytest
import torch

import regard
from regard.errors import InputError
from tests.parity.theirs import transformers

SWIN = {"image": 12, "patch": 2, "dim": 8, "depth": (2, 1), "heads": (2, 4), "hidden": 32, "window": 3}


def test_heads_of_an_odd_width(tmp_path: Path) -> None:
    """One of the formats that a GPT may have is for even widths alone, which is no fault of the others."""
    model = regard.build("gpt-tiny", vocab=9, length=8, dim=9, depth=2, heads=3, hidden=16)
    model.net.eval()
    regard.export(model, tmp_path / "x")
    theirs, ids = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "x").eval(), torch.tensor([[1, 5, 2, 8]])
    with torch.no_grad():
        torch.testing.assert_close(theirs(ids).logits, model.net(ids), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["swin-tiny", "swinv2-tiny"])
def test_a_swin_without_a_head_is_opened_by_timm(name: str, tmp_path: Path) -> None:
    """A file without a classifier is one of its older ones to timm, where a layer has another number."""
    timm = pytest.importorskip("timm", reason="the reference is not installed: pip install regard[parity]")
    model = regard.build(name, classes=0, **SWIN)
    model.net.eval()
    regard.export(model, tmp_path / "x", "timm")
    theirs, images = timm.create_model(f"local-dir:{tmp_path / 'x'}", pretrained=True).eval(), torch.randn(2, 3, 12, 12)
    with torch.no_grad():
        wanted = theirs.forward_features(images).flatten(1, 2)
        torch.testing.assert_close(model.net.features(images), wanted, rtol=1e-4, atol=1e-5)
    back = regard.load(tmp_path / "x").state_dict()
    assert all(torch.equal(back[key], x) for key, x in model.state_dict().items())


@pytest.mark.parametrize(("name", "to"), [("swin-tiny", "timm"), ("swinv2-tiny", "timm"), ("swinv2-tiny", "hf")])
def test_grids_that_the_other_library_rounds_otherwise(name: str, to: str, tmp_path: Path) -> None:
    """A side of 3 becomes 2 here, and there a window is cut for 1."""
    model = regard.build(name, classes=0, **SWIN | {"depth": (2, 1, 1), "heads": (2, 4, 4)})
    with pytest.raises(InputError, match="this model cannot be exported") as caught:
        regard.export(model, tmp_path / "x", to)
    assert "grids of odd size" in caught.value.got
