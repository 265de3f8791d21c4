"""Swin and Swin v2 <-> Hugging Face (model_type swin, swinv2): with a classifier, or the bare encoder."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from regard.errors import InputError
from regard.models import swin, swinv2
from regard.nn.positions import log_spaced, window_offsets
from regard.nn.pyramid import halved_side

from .defaults import kind_defaults
from .foreign import THEIR_ACTIVATIONS, ForeignConfig, default_labels
from .rules import Entry, Known, Rule

Either = TypeVar("Either", swin.Config, swinv2.Config)
EPS = 1e-5  # some of their norms have it whatever the config says


def sizes(theirs: ForeignConfig) -> dict[str, Any]:
    """The config keys shared by both versions."""
    theirs.divides("patch_size", "image_size")
    theirs.expect("use_absolute_embeddings", False)
    theirs.expect("path_norm", True)
    theirs.expect("layer_norm_eps", EPS)
    theirs.ignore("encoder_stride", "out_features", "out_indices", "stage_names")
    depth, dim = theirs.depths("depths"), theirs.size("embed_dim")
    theirs.expect("num_layers", len(depth))
    theirs.expect("hidden_size", dim * 2 ** (len(depth) - 1))
    return {
        "image": theirs.side("image_size"),
        "patch": theirs.side("patch_size"),
        "channels": theirs.size("num_channels"),
        "classes": theirs.classes(),
        "dim": dim,
        "depth": depth,
        "heads": theirs.several("num_heads"),
        "hidden": theirs.times("mlp_ratio", dim),
        "window": theirs.size("window_size"),
        "dropout": theirs.share("hidden_dropout_prob"),
        "attention_dropout": theirs.share("attention_probs_dropout_prob"),
        "drop_path": theirs.share("drop_path_rate"),
        "eps": EPS,
        "activation": theirs.activation("hidden_act"),
        "qkv_bias": theirs.take("qkv_bias", bool),
    }


def config(theirs: ForeignConfig) -> swin.Config:
    theirs.assume(kind_defaults("swin"))
    found = sizes(theirs)
    if not theirs.guessed and smaller(found):
        theirs.guess(
            f"window_size = {found['window']} is larger than the last grid, which the original "
            "implementation cannot run"
        )
    if not theirs.guessed and (why := padded_grid(found)):
        theirs.guess(f"image_size = {found['image']} {why}")
    return swin.Config(**found)


def second(theirs: ForeignConfig) -> swinv2.Config:
    theirs.assume(kind_defaults("swinv2"))
    found = sizes(theirs)
    before = earlier(theirs, len(found["depth"]))
    if not theirs.guessed and odd(found):
        theirs.guess(
            f"image_size = {found['image']} gives grids of odd size, which the original implementation "
            "divides into other windows"
        )
    if not theirs.guessed and (why := padded_grid(found)):
        theirs.guess(f"image_size = {found['image']} {why}")
    return trained(swinv2.Config(**found), before)


def earlier(theirs: ForeignConfig, stages: int) -> list[int]:
    """The window sizes of an earlier training, one for each stage; their list may be longer than the number of
    stages."""
    theirs.ignore("pretrained_window_sizes")
    told = theirs.data.get("pretrained_window_sizes")
    if isinstance(told, list) and all(type(x) is int and x >= 0 for x in told[:stages]):
        return told[:stages]
    theirs.guess(f"pretrained_window_sizes = {told!r}"[:100] + " is not a list of integers")
    return []


def trained(config: swinv2.Config, windows: Sequence[int]) -> swinv2.Config:
    """The config with the window sizes of an earlier training, where 0 means the current size."""
    if not any(windows):
        return config
    return replace(config, trained=tuple(side or config.side(stage) for stage, side in enumerate(windows)))


def smaller(found: dict[str, Any]) -> bool:
    return bool(halved_side(found["image"] // found["patch"], len(found["depth"]) - 1) < found["window"])


def odd(found: dict[str, Any]) -> bool:
    """Whether a window is cut from a grid whose sides they round down, and the net up."""
    side, stages = found["image"] // found["patch"], range(len(found["depth"]))
    return any(min(side >> i, found["window"]) != min(halved_side(side, i), found["window"]) for i in stages)


def padded_grid(found: dict[str, Any]) -> str:
    """Why another library would compute other outputs: a grid that is not a multiple of the window size, if there is
    one."""
    sides = [halved_side(found["image"] // found["patch"], i) for i in range(len(found["depth"]))]
    side = next((side for side in sides if not side or side % min(found["window"], side)), None)
    if side is None:
        return ""
    return (
        f"gives a grid of {side} x {side}, not a multiple of window size {found['window']}: the "
        "original implementation "
        "attends to its padding, this one does not"
    )


def same_there(ours: swin.Config | swinv2.Config) -> None:
    """Refuses what other libraries would read, and compute otherwise."""
    if why := padded_grid(vars(ours)):
        raise InputError(
            "this model cannot be exported: the original implementation would compute other outputs",
            got=f"image = {ours.image} {why}",
        )


def same_grids(ours: swin.Config | swinv2.Config) -> None:
    """Refuses what they would cut into other windows."""
    if odd(vars(ours)):
        raise InputError(
            "this model cannot be exported: the original implementation would compute other outputs",
            got=f"image = {ours.image} gives grids of odd size, which it divides into other windows",
        )


def complete(ours: Either, names: Collection[str]) -> Either:
    """A bare encoder has no classifier."""
    return ours if any(name.startswith("classifier.") for name in names) else replace(ours, classes=0)


def export_sizes(ours: swin.Config | swinv2.Config) -> dict[str, Any]:
    same_there(ours)
    return {
        "image_size": ours.image,
        "patch_size": ours.patch,
        "num_channels": ours.channels,
        "embed_dim": ours.dim,
        "depths": list(ours.depth),
        "num_heads": list(ours.heads),
        "window_size": ours.window,
        "mlp_ratio": ours.hidden / ours.dim,
        "qkv_bias": ours.qkv_bias,
        "hidden_dropout_prob": ours.dropout,
        "attention_probs_dropout_prob": ours.attention_dropout,
        "drop_path_rate": ours.drop_path,
        "hidden_act": THEIR_ACTIVATIONS[ours.activation],
        "layer_norm_eps": EPS,
        "use_absolute_embeddings": False,
        **(default_labels(ours.classes) if ours.classes else {}),
    }


def export_config(ours: swin.Config) -> dict[str, Any]:
    if smaller(vars(ours)):
        side = halved_side(ours.image // ours.patch, len(ours.depth) - 1)
        raise InputError(
            "this swin cannot be exported: the target format allows no window larger than the last grid",
            got=f"window = {ours.window}, a grid of {side} x {side}",
        )
    kind = "SwinForImageClassification" if ours.classes else "SwinModel"
    return {"architectures": [kind], "model_type": "swin", **export_sizes(ours)}


def export_second(ours: swinv2.Config) -> dict[str, Any]:
    same_grids(ours)
    kind = "Swinv2ForImageClassification" if ours.classes else "Swinv2Model"
    windows = {"pretrained_window_sizes": list(ours.trained or [0] * len(ours.depth))}
    return {"architectures": [kind], "model_type": "swinv2", **export_sizes(ours), **windows}


def shared(ours: swin.Config | swinv2.Config, prefix: str) -> list[Entry]:
    """What both call alike. They merge after a stage, and we before the next."""
    table: list[Entry] = [
        Rule(prefix + "embeddings.patch_embeddings.projection.{p}", "patch.projection.{p}"),
        Rule(prefix + "embeddings.norm.{p}", "patch_norm.{p}"),
        Rule(prefix + "layernorm.{p}", "norm.{p}"),
    ]
    for stage in range(len(ours.depth)):
        layer, block = f"{prefix}encoder.layers.{stage}.blocks.{{i}}.", f"stages.{stage}.blocks.{{i}}."
        table += [
            Rule(layer + "attention.self.query.{p}", block + "mixer.attention.q.{p}"),
            Rule(layer + "attention.self.key.{p}", block + "mixer.attention.k.{p}"),
            Rule(layer + "attention.self.value.{p}", block + "mixer.attention.v.{p}"),
            Rule(layer + "attention.output.dense.{p}", block + "mixer.attention.out.{p}"),
            Rule(layer + "layernorm_before.{p}", block + "mixer_residual.norm.{p}"),
            Rule(layer + "intermediate.dense.{p}", block + "ffn.up.{p}"),
            Rule(layer + "output.dense.{p}", block + "ffn.down.{p}"),
            Rule(layer + "layernorm_after.{p}", block + "ffn_residual.norm.{p}"),
            Known(layer + "attention.self.relative_position_index", offsets),  # in older files
        ]
        if stage:
            before = f"{prefix}encoder.layers.{stage - 1}.downsample."
            table.append(Rule(before + "norm.{p}", f"stages.{stage}.shrink.norm.{{p}}"))
            table.append(Rule(before + "reduction.{p}", f"stages.{stage}.shrink.reduce.{{p}}"))
    return [*table, Rule("classifier.{p}", "head.{p}")] if ours.classes else table


def offsets(shape: torch.Size) -> Tensor:
    """The relative index of a window, whose number of positions is the side of its table."""
    side = round(shape[-1] ** 0.5)
    return window_offsets(side, side, torch.device("cpu"))


def rules(ours: swin.Config, names: Collection[str] | None = None) -> list[Entry]:
    prefix = "swin." if ours.classes else ""
    return shared(ours, prefix) + [
        Rule(
            f"{prefix}encoder.layers.{stage}.blocks.{{i}}.attention.self.relative_position_bias_table",
            f"stages.{stage}.blocks.{{i}}.mixer.offsets.weight",
        )
        for stage in range(len(ours.depth))
    ]


def second_rules(ours: swinv2.Config, names: Collection[str] | None = None) -> list[Entry]:
    prefix, found = "swinv2." if ours.classes else "", list[Entry]()
    for stage in range(len(ours.depth)):
        theirs = f"{prefix}encoder.layers.{stage}.blocks.{{i}}.attention.self."
        mixer = f"stages.{stage}.blocks.{{i}}.mixer."
        found += [
            Rule(theirs + "logit_scale", mixer + "attention.kernel.log_scale"),
            Rule(theirs + "continuous_position_bias_mlp.0.{p}", mixer + "offsets.up.{p}"),
            Rule(theirs + "continuous_position_bias_mlp.2.{p}", mixer + "offsets.down.{p}"),
            Known(
                theirs + "relative_coords_table", coordinates(ours.side(stage), ours.measure(stage))
            ),  # in older files
        ]
    return shared(ours, prefix) + found


def coordinates(side: int, window: int) -> Callable[[torch.Size], Tensor]:
    return lambda shape: log_spaced(side, side, window)[None]
