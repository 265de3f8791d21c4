"""Tiny random nets of diffusers, and ours of the same weights, read by the tables of ``interop``."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.interop import autoencoder_kl, unet
from regard.interop.converted import ConvertedCheckpoint
from regard.interop.diffusers_config import CLASS
from regard.interop.foreign import ForeignConfig
from regard.interop.formats import CHECKPOINT_FORMATS, CheckpointFormat, as_it_is, import_checkpoint
from regard.interop.rules import convert
from regard.models import unet as net_of_noise
from regard.nn.tap import capture
from regard.zoo import FAMILIES
from tests.guard import mend_torchvision
from tests.parity.ours import Tensors, cotangent, difference

FORMATS = {
    unet.KIND: CheckpointFormat("unet", unet.config, as_it_is, unet.rules, unet.export_config, {}),
    unet.PLAIN: CheckpointFormat("unet", unet.plain_config, as_it_is, unet.rules, unet.export_plain, {}),
    autoencoder_kl.KIND: CheckpointFormat(
        "autoencoder", autoencoder_kl.config, as_it_is, autoencoder_kl.rules, autoencoder_kl.export_config, {}
    ),
}


class Diffusers:
    """Imported when a test first asks it for something."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "pytestmark":
            raise AttributeError(name)
        mend_torchvision()
        found = pytest.importorskip("diffusers", reason="the reference is not installed: pip install regard[parity]")
        found.utils.logging.set_verbosity_error()
        value = getattr(found, name)
        setattr(self, name, value)
        return value


diffusers: Any = Diffusers()


@dataclass(frozen=True, eq=False)
class DiffusersTwin:
    """Theirs, its config as a file has it, and ours."""

    kind: str
    theirs: Any
    data: dict[str, Any]
    ours: Any

    def renamed(self, tensors: Mapping[str, Tensor]) -> Tensors:
        """Theirs under our names."""
        return convert(tensors, FORMATS[self.kind].rules(self.ours.config, None))

    def place(self, name: str) -> str:
        """Our name of their attention."""
        state = self.theirs.state_dict()
        found = {id(x): ours for ours, x in self.renamed(state).items()}
        return found[id(state[f"{name}.to_q.weight"])].removesuffix(".q.weight")


def twin_of(kind: str, settings: Mapping[str, Any], dtype: torch.dtype = torch.float64) -> DiffusersTwin:
    """With weights of which none is zero, as many are in the beginning."""
    torch.manual_seed(0)
    theirs = getattr(diffusers, kind)(**settings).to(dtype).eval()
    with torch.no_grad():
        for x in theirs.parameters():
            x.add_(0.1 * torch.randn_like(x))
    data = json.loads(theirs.to_json_string())
    row, foreign = FORMATS[kind], ForeignConfig(data)
    config = row.config(foreign)
    assert foreign.finish() == []
    net: Any = net_of_noise.UNet if row.family == "unet" else FAMILIES[row.family].net
    ours = net(config).to(dtype).eval()
    ours.load_state_dict(convert(theirs.state_dict(), row.rules(config, None)))
    return DiffusersTwin(kind, theirs, data, ours)


@contextmanager
def reference_maps(twin: DiffusersTwin) -> Iterator[Tensors]:
    """Of each attention of theirs, softmax(q k / sqrt e) by hand from what its projections give, under our names."""
    told: dict[str, dict[str, Tensor]] = {}
    found: Tensors = {}

    def hear(attention: str, name: str) -> Any:
        def keep(module: nn.Module, given: object, y: Tensor) -> None:
            heads = twin.theirs.get_submodule(attention).heads
            told.setdefault(attention, {})[name] = y.detach().unflatten(-1, (heads, -1)).transpose(1, 2)
            if len(told[attention]) == 2:
                q, k = told[attention]["to_q"], told[attention]["to_k"]
                found[twin.place(attention)] = (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1)

        return keep

    handles = []
    for path, module in twin.theirs.named_modules():
        attention, _, name = path.rpartition(".")
        if name in ("to_q", "to_k"):
            handles.append(module.register_forward_hook(hear(attention, name)))
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of these formats, where the tables have none yet."""
    for kind, row in FORMATS.items():
        monkeypatch.setitem(CHECKPOINT_FORMATS.rows, kind, row)
    if "unet" not in FAMILIES.rows:
        monkeypatch.setitem(FAMILIES.rows, "unet", net_of_noise.FAMILY)


def imported(data: Mapping[str, Any], state: Mapping[str, Tensor]) -> ConvertedCheckpoint:
    """As a folder is read."""
    header = {name: tuple(x.shape) for name, x in state.items()}
    told = {**data, "model_type": data[CLASS]}
    return import_checkpoint(told, {}, header, lambda names: {x: state[x] for x in names if x in state}, Path("there"))


def saved(data: Mapping[str, Any], state: Mapping[str, Tensor], folder: Path) -> Path:
    """A folder as diffusers has it."""
    from safetensors.torch import save_file

    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(data))
    weights = {name: x.contiguous() for name, x in state.items()}
    save_file(weights, folder / "diffusion_pytorch_model.safetensors", {"format": "pt"})
    return folder


def without_version(data: Mapping[str, Any]) -> dict[str, Any]:
    return {key: x for key, x in data.items() if not re.match("_(diffusers_version|name_or_path|use_default)", key)}


def levels(*widths: int) -> dict[str, Any]:
    """Of an autoencoder."""
    down, up = ("DownEncoderBlock2D",) * len(widths), ("UpDecoderBlock2D",) * len(widths)
    return {"block_out_channels": widths, "down_block_types": down, "up_block_types": up, "norm_num_groups": 4}


WORDS = 24  # width of a text's tokens
CONDITIONED: dict[str, Any] = {
    "sample_size": 8,
    "block_out_channels": (16, 32),
    "layers_per_block": 1,
    "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
    "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
    "cross_attention_dim": WORDS,
    "attention_head_dim": 4,
    "norm_num_groups": 8,
}


def measure_autoencoder() -> dict[str, float]:
    """The largest differences in float32, for ``verified.json``."""
    twin = twin_of(autoencoder_kl.KIND, levels(8, 16), torch.float32)
    images = torch.randn(2, 3, 8, 8)

    def ran(net: Any) -> Tensors:
        said = net.encode(images)
        if net is twin.ours:
            return {"mean": said.mean, "variance": said.log_variance, "drawn": net.decode(said.mode())}
        found = said.latent_dist
        return {"mean": found.mean, "variance": found.logvar, "drawn": net.decode(found.mode()).sample}

    return measured(twin, ran)


def measure_unet() -> dict[str, float]:
    """The same."""
    twin = twin_of(unet.KIND, CONDITIONED, torch.float32)
    inputs = torch.randn(2, 4, 8, 8), torch.tensor([3, 977]), torch.randn(2, 5, WORDS)
    return measured(twin, lambda net: {"noise": net(*inputs) if net is twin.ours else net(*inputs).sample})


def measured(twin: DiffusersTwin, run: Callable[[Any], Tensors]) -> dict[str, float]:
    with torch.no_grad(), reference_maps(twin) as theirs, capture(twin.ours) as seen:
        run(twin.theirs)
        run(twin.ours)
    outputs, slopes = [], []
    for net in (twin.ours, twin.theirs):
        outputs.append(run(net))
        sum((x * cotangent(name, x)).sum() for name, x in outputs[-1].items()).backward()
        slopes.append({name: x.grad for name, x in net.named_parameters()})
    return {
        "logits": difference(*outputs),
        "gradients": difference(slopes[0], twin.renamed(slopes[1])),
        "maps": difference({name.removesuffix(".weights"): one for name, (one,) in seen.items()}, theirs),
    }
