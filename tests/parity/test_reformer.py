"""The Reformer against the library as it is installed, with nothing mended, and in both readings of its bias."""

import json
from pathlib import Path

import pytest
import torch

import regard
from regard.errors import CheckpointError
from tests.parity.references import reference
from tests.parity.theirs import transformers
from tests.parity.twins import batch, saved


@pytest.mark.parametrize(("case", "apart"), [("reformer-both", 1e-5), ("reformer", 0.02), ("reformer-rounds", 0.02)])
def test_as_it_is_installed(case: str, apart: float, tmp_path: Path) -> None:
    """Of one round of hashes to the last bits. Of several, theirs loses a part of their weights in float32."""
    model, ids = reference(case).eval(), batch(case)["ids"]
    torch.nn.init.normal_(model.lm_head.bias)
    ours = regard.load(saved(model, tmp_path))
    with torch.no_grad():
        assert float((model(ids, use_cache=False).logits - ours.net(ids)).abs().max()) < apart
    assert not ours.config.output_bias


@pytest.mark.parametrize("version", ["4.9.2", None, "x"])
def test_a_file_from_before_version_5_adds_its_bias(version: str | None, tmp_path: Path) -> None:
    model, ids = reference("reformer-both").eval(), batch("reformer-both")["ids"]
    torch.nn.init.normal_(model.lm_head.bias)
    folder = saved(model, tmp_path)
    data = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(data | {"transformers_version": version}))
    ours = regard.load(folder)
    with torch.no_grad():
        wanted = model(ids, use_cache=False).logits + model.lm_head.bias
        torch.testing.assert_close(ours.net(ids), wanted, rtol=1e-4, atol=1e-5)


def test_a_bias_does_not_go_out_unread(tmp_path: Path) -> None:
    """What opens an exported folder would leave it out, so there must be none, or zeros."""
    small = {"vocab": 37, "length": 12, "dim": 16, "depth": 2, "heads": 2, "head_dim": 6, "hidden": 24, "grid": (3, 4)}
    hashed = {"kind": "lsh", "form": "chunks", "once": False, "chunk": 4, "rounds": 1, "buckets": 4, "seed": 3}
    attention = ({"kind": "chunked", "chunk": 4}, hashed)
    model = regard.build("reformer-tiny", **small, attention=attention)
    model.net.eval()
    regard.export(model, tmp_path / "zeros")
    theirs = transformers.ReformerModelWithLMHead.from_pretrained(tmp_path / "zeros").eval()
    ids = batch("reformer")["ids"]
    with torch.no_grad():
        torch.testing.assert_close(model.net(ids), theirs(ids, use_cache=False).logits, rtol=1e-4, atol=1e-4)
        model.net.head.bias += 1.0
    with pytest.raises(CheckpointError, match=r"head\.bias: its value has changed"):
        regard.export(model, tmp_path / "ones")
