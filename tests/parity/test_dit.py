"""DiT against diffusers' DiTTransformer2DModel: tiny twins, their tables in both directions, and what is refused."""

import inspect
import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.errors import CheckpointError
from regard.interop import dit as table
from regard.interop.foreign import ForeignConfig
from regard.interop.rules import check_tensors, convert, export
from regard.models.dit import PRESETS, Config, DiT
from regard.nn.tap import capture
from regard.zoo import count_parameters
from tests.guard import mend_torchvision
from tests.parity.ours import assert_close
from tests.parity.references import redraw

SMALL = {"num_attention_heads": 2, "attention_head_dim": 8, "num_layers": 2, "sample_size": 8, "num_embeds_ada_norm": 5}
CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "variance": {"out_channels": 8},
    "other": {"patch_size": 4, "in_channels": 3, "activation_fn": "gelu", "attention_bias": False, "num_layers": 1},
    "affine": {"norm_elementwise_affine": True, "norm_eps": 0.1, "num_attention_heads": 1, "attention_head_dim": 12},
}


def reference(**changes: Any) -> Any:
    """With one embedding of steps and labels for all blocks, as the published weights have it."""
    mend_torchvision()
    diffusers = pytest.importorskip("diffusers", reason="the reference is not installed: pip install regard[parity]")
    model = diffusers.DiTTransformer2DModel(**SMALL | changes)
    for block in model.transformer_blocks[1:]:
        block.norm1.emb = model.transformer_blocks[0].norm1.emb
    redraw(model, 0)
    for block in model.transformer_blocks:
        block.attn1.set_processor(diffusers.models.attention_processor.AttnProcessor())
    return model.eval()


def told_by(model: Any) -> dict[str, Any]:
    """Its config.json."""
    told: dict[str, Any] = json.loads(model.to_json_string())
    return told


def ours_of(model: Any, tensors: Mapping[str, Tensor] | None = None) -> DiT:
    foreign = ForeignConfig(told_by(model))
    config = table.config(foreign)
    assert foreign.finish() == []
    net = DiT(config).to(next(model.parameters()).dtype)
    net.load_state_dict(convert(model.state_dict() if tensors is None else tensors, table.rules(config)))
    return net.eval()


def batch(config: Config, sides: tuple[int, int] | None = None, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    draw = torch.Generator().manual_seed(1)
    height, width = sides or (config.image, config.image)
    noisy = torch.randn(3, config.channels, height, width, generator=draw, dtype=dtype)
    return [noisy, torch.tensor([0, 37, 999]), torch.tensor([4, 0, config.classes])]


def exact(model: Any, net: DiT) -> None:
    """In float64: the reference takes its waves in float32, which is compared by itself."""
    waves = nn.Identity()
    step = net.step

    def ours(time: Tensor) -> Tensor:
        found: list[Tensor] = []
        handle = step.first.register_forward_pre_hook(lambda module, given: found.append(given[0]))
        step(time)
        handle.remove()
        return found[0]

    waves.forward = ours  # type: ignore[method-assign]
    model.transformer_blocks[0].norm1.emb.time_proj = waves


def maps_of(model: Any) -> tuple[dict[str, Tensor], list[Any]]:
    """Filled when it runs: (b, heads, n, n)."""
    found: dict[str, Tensor] = {}
    for i, block in enumerate(model.transformer_blocks):

        def keep(*given: Any, i: int = i, own: Callable[..., Tensor] = block.attn1.get_attention_scores) -> Tensor:
            weights = own(*given)
            found[f"blocks.{i}.mixer.weights"] = weights.detach().unflatten(0, (3, -1))
            return weights

        block.attn1.get_attention_scores = keep
    return found, list(model.transformer_blocks)


@pytest.mark.parametrize("case", CASES)
def test_outputs_gradients_and_maps(case: str) -> None:
    model = reference(**CASES[case]).double()
    net = ours_of(model)
    exact(model, net)
    theirs, _ = maps_of(model)
    given = batch(net.config)
    wanted = model(*given).sample
    with capture(net) as seen:
        found = net(*given)
    assert_close({"noise": found}, {"noise": wanted}, exact=True)
    assert_close({name: x[0].detach() for name, x in seen.items()}, theirs, exact=True)
    weight = torch.randn(wanted.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    (wanted * weight).sum().backward()
    (found * weight).sum().backward()
    slopes = {name: x.grad for name, x in model.named_parameters(remove_duplicate=False)}
    assert_close(
        {name: x.grad for name, x in net.named_parameters()}, convert(slopes, table.rules(net.config)), exact=True
    )


def test_the_waves_of_a_step() -> None:
    """In float32, as the reference computes them: the angle of step 999 has four digits behind the point."""
    model = reference()
    net = ours_of(model)
    given = batch(net.config, dtype=torch.float32)
    assert_close({"noise": net(*given)}, {"noise": model(*given).sample})


@pytest.mark.parametrize("sides", [(12, 12), (4, 4), (8, 12), (12, 4)])
def test_other_sizes(sides: tuple[int, int]) -> None:
    """The reference puts the patches of what is not square together wrongly, so these are compared before that."""
    model = reference().double()
    net = ours_of(model)
    exact(model, net)
    given = batch(net.config, sides)
    patches: list[Tensor] = []
    model.proj_out_2.register_forward_hook(lambda module, entered, y: patches.append(y))
    with suppress(RuntimeError):
        model(*given)
    rows, columns = sides[0] // 2, sides[1] // 2
    wanted = patches[0].reshape(3, rows, columns, 2, 2, 4).permute(0, 5, 1, 3, 2, 4).reshape(3, 4, *sides)
    assert_close({"noise": net(*given)}, {"noise": wanted})  # there the places of patches are rounded to float32


@pytest.mark.parametrize("case", CASES)
def test_there_and_back(case: str) -> None:
    """What is exported is theirs again, tensor by tensor and key by key, and loads there."""
    model = reference(**CASES[case])
    net = ours_of(model)
    told = table.export_config(net.config)
    again = type(model)(**{key: value for key, value in told.items() if not key.startswith("_")})
    tensors = export(net.state_dict(), table.rules(net.config))
    assert tensors.keys() == model.state_dict().keys()
    again.load_state_dict(tensors)
    given = batch(net.config, dtype=torch.float32)
    assert_close({"noise": again.eval()(*given).sample}, {"noise": model(*given).sample})
    assert table.config(ForeignConfig(told)) == net.config


COPY = "transformer_blocks.1.norm1.emb.class_embedder.embedding_table.weight"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda x: x.pop("proj_out_1.weight"), "modulation.weight"),
        (lambda x: x.update(more=torch.zeros(1)), "more: matched by no rule"),
        (lambda x: x.update({"proj_out_1.bias": torch.zeros(3)}), "modulation.bias"),
        (
            lambda x: x.update({COPY: torch.ones(6, 16)}), f"{COPY}: tied to labels.weight",
        ),
    ],
)  # fmt: skip
def test_other_tensors_are_refused_by_name(change: Callable[[dict[str, Tensor]], Any], words: str) -> None:
    model = reference()
    tensors = dict(model.state_dict())
    change(tensors)
    config = table.config(ForeignConfig(told_by(model)))
    expected = {name: tuple(x.shape) for name, x in DiT(config).state_dict().items()}
    with pytest.raises(CheckpointError, match=re.escape(words)):
        check_tensors(expected, {name: tuple(x.shape) for name, x in convert(tensors, table.rules(config)).items()}, "")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("norm_type", "ada_norm_single"),
        ("upcast_attention", True),
        ("activation_fn", "geglu"),
        ("num_layers", 0),
        ("sample_size", 9),
        ("num_embeds_ada_norm", None),
        ("cross_attention_dim", 64),
        ("_class_name", "PixArtTransformer2DModel"),
        ("dropout", 1.0),
        ("pos_embed_max_size", 9),
    ],
)
def test_other_settings_are_refused_by_name(key: str, value: Any) -> None:
    foreign = ForeignConfig({"_class_name": table.CLASS, **SMALL, key: value})
    with suppress(ValueError):  # beside what is told by name
        table.config(foreign)
    assert any(key in problem for problem in foreign.finish())


def test_absent_keys_are_the_classes_defaults() -> None:
    arguments = inspect.signature(type(reference()).__init__).parameters.values()
    assert {x.name: x.default for x in arguments if x.name != "self"} == dict(table.DEFAULTS)


def test_a_published_config() -> None:
    """Of DiT-XL/2 at 256 x 256, as its folder has it, with the keys of the older class."""
    told = {"_class_name": "Transformer2DModel", "_diffusers_version": "0.12.0.dev0", "cross_attention_dim": None}
    told |= {"num_vector_embeds": None, "only_cross_attention": False, "use_linear_projection": False}
    told |= {"out_channels": 8, "attention_bias": True, "activation_fn": "gelu-approximate", "norm_num_groups": 32}
    foreign = ForeignConfig(told)
    config = table.config(foreign)
    assert foreign.finish() == []
    assert (config.dim, config.depth, config.heads, config.made) == (1152, 28, 16, 8)


def test_published_counts() -> None:
    """The paper's code counts the fixed positions, 256 of 1152 numbers, among its parameters."""
    with torch.device("meta"):
        assert count_parameters(DiT(PRESETS["dit-xl-2"])) + 256 * 1152 == 675_129_632
        millions = {name: round(count_parameters(DiT(PRESETS[f"dit-{name}-2"])) / 1e6) for name in ("s", "b", "l")}
    assert millions == {"s": 33, "b": 130, "l": 458}  # table 1 of the paper
