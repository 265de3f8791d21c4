"""Frozen twins: weights under the reference's names, inputs, and what the reference made of them.

Parity with the reference, where none is installed. `pytest tests/golden --write-golden` freezes them anew.
"""

import json
from importlib import import_module
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save, save_file
from torch import Tensor

import regard
from regard.interop.formats import CHECKPOINT_FORMATS
from tests.parity.ours import assert_close, run

FAMILIES = sorted({kind.family for kind in CHECKPOINT_FORMATS.values()})  # those that the reference has too
FOLDER = Path(__file__).parent / "twins"
CASES = {"bert": "bert-pretraining", "levit": "levit-one-channel"}  # with every head, and small; else the plain one
TWINS = [
    *FAMILIES,
    "bert-albert",
    "bert-distil",
    "bert-fnet",
    "gpt-one",
    "gpt-llama",
    "gpt-starcoder",
]  # and kinds of a family that differ much
LEAKY = ("bert-fnet",)  # there padding is transformed along
UNREAD = [("reformer", "lm_head.bias")]  # kept by the reference, and added to nothing
MAPLESS = ("bert-fnet", "mixer", "resnet")
PARTS = ("weights", "inputs", "outputs", "maps", "gradients")
Parts = dict[str, dict[str, Tensor]]


def freeze(family: str, folder: Path) -> None:
    """Ask the reference, and write what it says."""
    from tests.guard import mend_torchvision

    mend_torchvision()
    from tests.parity.twins import batch, paired

    case = CASES.get(family, family)
    pair, inputs = paired(case, folder), batch(case, padding="none" if family in LEAKY else "right")
    inputs = {name: x.requires_grad_(name == "images") for name, x in inputs.items()}
    theirs = pair.run_theirs(inputs)
    theirs.backward()
    parts: Parts = {
        "weights": load_file(folder / "model.safetensors"),
        "inputs": dict(inputs),
        "outputs": theirs.outputs,
        "maps": theirs.maps,
        "gradients": {str(i): x.grad for i, x in enumerate(theirs.entered)},
    }
    tensors = {f"{part}/{name}": x.detach().contiguous() for part in PARTS for name, x in parts[part].items()}
    (FOLDER / f"{family}.safetensors").write_bytes(save(tensors))
    config = json.loads((folder / "config.json").read_text())
    package = import_module(type(pair.theirs).__module__.partition(".")[0])
    about = {"reference": f"{package.__name__} {package.__version__} {type(pair.theirs).__name__}", "config": config}
    (FOLDER / f"{family}.json").write_text(json.dumps(about, indent=2) + "\n")


def frozen(family: str) -> Parts:
    parts: Parts = {part: {} for part in PARTS}
    for key, x in load_file(FOLDER / f"{family}.safetensors").items():
        part, name = key.split("/", 1)
        parts[part][name] = x
    return parts


@pytest.mark.parametrize("name", TWINS)
def test_a_frozen_twin(name: str, request: pytest.FixtureRequest, device: torch.device, tmp_path: Path) -> None:
    if request.config.getoption("--write-golden"):
        freeze(name, tmp_path / "reference")
    parts, config = frozen(name), json.loads((FOLDER / f"{name}.json").read_text())["config"]
    folder = tmp_path / "theirs"
    folder.mkdir()
    save_file(parts["weights"], folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))
    net = regard.load(folder).net.to(device)
    parts = {part: {key: x.to(device) for key, x in tensors.items()} for part, tensors in parts.items()}
    inputs = {key: x.requires_grad_(key == "images") for key, x in parts["inputs"].items()}
    ours = run(name.split("-")[0], net, inputs)
    ours.backward()
    assert_close(ours.outputs, parts["outputs"])
    assert_close(ours.maps, parts["maps"])
    assert_close({str(i): x.grad for i, x in enumerate(ours.entered)}, parts["gradients"])


@pytest.mark.parametrize("name", TWINS)
def test_it_is_small_and_says_something(name: str) -> None:
    assert (FOLDER / f"{name}.safetensors").stat().st_size < 100_000
    parts = frozen(name)
    assert all(parts[part] for part in PARTS if part != "maps" or name not in MAPLESS)
    named = [pair for part in ("weights", "outputs", "maps") for pair in parts[part].items()]
    told = [x for key, x in named if x.is_floating_point() and (name, key) not in UNREAD]
    told = [
        x for x in told if x.numel() > 1 and (x.ndim < 4 or x.shape[-1] > 1)
    ]  # no lone number, nor a lone key's map
    assert all(float(x.std()) > 1e-3 for x in told)
