"""A twin made by the words of a config.json: the reference and regard each read the same folder."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import regard
from regard.errors import CheckpointError, InputError
from regard.interop.defaults import kind_defaults
from tests.parity.ours import Run, run
from tests.parity.references import CASES, FAMILIES, FIXED, redraw
from tests.parity.theirs import transformers
from tests.parity.twins import batch, run_reference

Said = dict[str, Any]
NEAR = 1e-3
CANNOT = "the reference cannot run it"


def said(case: str) -> Said:
    """The config of a case, as short as it can be: what the reference assumes anyway is left out."""
    model = CASES[case]()
    full: Said = json.loads(model.config.to_json_string(use_diff=False))
    usual = kind_defaults(full["model_type"]).keys
    own = {key: value for key, value in full.items() if key in usual and value != usual[key]}
    if len(full["id2label"]) != 2:
        own |= {"id2label": full["id2label"], "label2id": full["label2id"]}
    return {"model_type": full["model_type"], "architectures": [type(model).__name__]} | own


def written(case: str, config: Mapping[str, Any], folder: Path, seed: int = 0) -> nn.Module:
    """A folder with this config.json, and weights for what the reference makes of it; the reference that reads it."""
    kind = type(CASES[case]())
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    model = kind(transformers.AutoConfig.from_pretrained(folder))
    redraw(model, seed)
    if case.startswith("reformer") and hasattr(model, "lm_head"):
        nn.init.zeros_(model.lm_head.bias)  # which this version does not read
    model.save_pretrained(folder / "saved")
    (folder / "saved" / "model.safetensors").rename(folder / "model.safetensors")
    shutil.rmtree(folder / "saved")
    eager = "fnet" not in case and FAMILIES[case] not in FIXED
    how = {"attn_implementation": "eager"} if eager else {}
    found: nn.Module = kind.from_pretrained(folder, **how)
    return found.eval()


@torch.no_grad()
def compared(case: str, theirs: nn.Module, folder: Path, length: int = 7) -> str:
    """Empty where regard refuses nothing and computes the same; else the words of its refusal. Other numbers fail."""
    try:
        ours = regard.load(folder)
    except (CheckpointError, InputError) as error:
        return str(error)
    inputs = batch(case, length=length)
    try:
        wanted = run_reference(case, theirs, inputs)
    except (RuntimeError, IndexError, ValueError) as error:
        return f"{CANNOT}: {error}"
    assert_close(run(FAMILIES[case], ours.net, inputs), wanted)
    return ""


def assert_close(ours: Run, theirs: Run) -> None:
    """The outputs that both give, of which there is at least one; in float32, which deep nets round in many places."""
    both = ours.outputs.keys() & theirs.outputs.keys()
    assert both
    for name in both:
        x, y = ours.outputs[name], theirs.outputs[name]
        assert x.shape == y.shape, name
        apart = float((x - y).abs().max() / y.abs().max().clamp(min=1.0))
        assert apart < NEAR, f"{name} differs by {apart:.2g}"


def assert_same(case: str, config: Mapping[str, Any], folder: Path) -> None:
    """Read, and equal to the reference."""
    refusal = compared(case, written(case, config, folder), folder)
    if refusal:
        pytest.fail(refusal)
