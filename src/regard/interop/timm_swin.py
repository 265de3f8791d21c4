"""Swin and Swin v2 <-> timm's folders: a name and what differs from it, so that every size goes out."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from regard.models import swin, swinv2
from regard.models.swin import Config

from . import timm
from .foreign import ForeignConfig
from .rules import Entry, Rule
from .swin import earlier, odd, padded_grid, same_grids, same_there, trained
from .tensor_ops import Chunk

KIND, SECOND = timm.KIND + "swin", timm.KIND + "swinv2"
NAMES = {
    "swin_tiny_patch4_window7_224": swin.PRESETS["swin-tiny"],
    "swin_small_patch4_window7_224": swin.PRESETS["swin-small"],
    "swin_base_patch4_window7_224": swin.PRESETS["swin-base"],
    "swin_base_patch4_window12_384": swin.PRESETS["swin-base-384"],
    "swin_large_patch4_window7_224": swin.PRESETS["swin-large"],
    "swin_large_patch4_window12_384": swin.PRESETS["swin-large-384"],
}
TINY, SMALL, BASE = (swinv2.PRESETS[f"swinv2-{size}"] for size in ("tiny", "small", "base"))
LARGE = swinv2.PRESETS["swinv2-large"]
NARROW = replace(BASE, image=192, window=12)
BEFORE = (12, 12, 12, 6)
SECOND_NAMES = {
    "swinv2_tiny_window8_256": TINY,
    "swinv2_tiny_window16_256": replace(TINY, window=16),
    "swinv2_small_window8_256": SMALL,
    "swinv2_small_window16_256": replace(SMALL, window=16),
    "swinv2_base_window8_256": BASE,
    "swinv2_base_window16_256": replace(BASE, window=16),
    "swinv2_base_window12_192": NARROW,
    "swinv2_base_window12to16_192to256": replace(NARROW, image=256, window=16, trained=BEFORE),
    "swinv2_base_window12to24_192to384": replace(NARROW, image=384, window=24, trained=BEFORE),
    "swinv2_large_window12_192": LARGE,
    "swinv2_large_window12to16_192to256": replace(LARGE, image=256, window=16, trained=BEFORE),
    "swinv2_large_window12to24_192to384": replace(LARGE, image=384, window=24, trained=BEFORE),
}
DROP_PATH = 0.1  # where they say nothing
KEYS = {
    "image": "img_size",
    "patch": "patch_size",
    "channels": "in_chans",
    "dim": "embed_dim",
    "depth": "depths",
    "heads": "num_heads",
    "window": "window_size",
    "qkv_bias": "qkv_bias",
    "dropout": "proj_drop_rate",
    "attention_dropout": "attn_drop_rate",
}


def config(theirs: ForeignConfig) -> Config:
    told = timm.read_timm_config(theirs, NAMES, "avg")
    found = sizes(told)
    told.join(theirs)
    return Config(**found)


def second(theirs: ForeignConfig) -> swinv2.Config:
    told = timm.read_timm_config(theirs, SECOND_NAMES, "avg")
    found = sizes(told)
    before = earlier(told.args, len(found["depth"]))
    told.join(theirs)
    return trained(swinv2.Config(**found), before)


def sizes(told: timm.TimmConfig) -> dict[str, Any]:
    """The config keys shared by both versions."""
    args = told.args
    args.divides("patch_size", "img_size")
    args.ignore("strict_img_size", "weight_init")  # whether they refuse other images; how weights start
    dim = args.size("embed_dim")
    found = {
        "image": told.image,
        "patch": args.side("patch_size"),
        "channels": told.channels,
        "classes": told.classes,
        "dim": dim,
        "depth": args.depths("depths"),
        "heads": args.several("num_heads"),
        "hidden": args.times("mlp_ratio", dim),
        "window": args.side("window_size"),
        "dropout": args.share("proj_drop_rate"),
        "attention_dropout": args.share("attn_drop_rate"),
        "drop_path": args.share("drop_path_rate"),
        "qkv_bias": args.take("qkv_bias", bool),
    }
    if not args.guessed and odd(found):
        args.guess(
            f"img_size = {found['image']} gives grids of odd size, which the original implementation "
            "divides into other windows"
        )
    if not args.guessed and (why := padded_grid(found)):
        args.guess(f"img_size = {found['image']} {why}")
    return found


def export_config(ours: Config) -> dict[str, Any]:
    name = timm.nearest(ours, NAMES, KEYS)
    return written(name, ours, export_args(ours, NAMES[name]))


def export_second(ours: swinv2.Config) -> dict[str, Any]:
    name = timm.nearest(ours, SECOND_NAMES, [*KEYS, "trained"])
    usual, args = SECOND_NAMES[name], export_args(ours, SECOND_NAMES[name])
    if ours.trained != usual.trained:
        args["pretrained_window_sizes"] = list(ours.trained or [0] * len(ours.depth))
    return written(name, ours, args)


def export_args(ours: Config | swinv2.Config, usual: Config | swinv2.Config) -> dict[str, Any]:
    same_there(ours)
    same_grids(ours)
    args = timm.differing(ours, usual, KEYS)
    if ours.hidden != 4 * ours.dim:
        args["mlp_ratio"] = timm.share(ours.hidden, ours.dim)
    if ours.drop_path != DROP_PATH:
        args["drop_path_rate"] = ours.drop_path
    return args


def written(name: str, ours: Config | swinv2.Config, args: dict[str, Any]) -> dict[str, Any]:
    features = ours.dim * 2 ** (len(ours.depth) - 1)
    return timm.export_timm_config(name, ours, args, pool="avg", features=features, classifier="head.fc")


def shared(ours: Config | swinv2.Config, names: Collection[str] | None) -> list[Entry]:
    table: list[Entry] = [
        Rule("patch_embed.proj.{p}", "patch.projection.{p}"),
        Rule("patch_embed.norm.{p}", "patch_norm.{p}"),
        Rule("layers.{s}.blocks.{i}.attn.proj.{p}", "stages.{s}.blocks.{i}.mixer.attention.out.{p}"),
        Rule("layers.{s}.blocks.{i}.norm1.{p}", "stages.{s}.blocks.{i}.mixer_residual.norm.{p}"),
        Rule("layers.{s}.blocks.{i}.mlp.fc1.{p}", "stages.{s}.blocks.{i}.ffn.up.{p}"),
        Rule("layers.{s}.blocks.{i}.mlp.fc2.{p}", "stages.{s}.blocks.{i}.ffn.down.{p}"),
        Rule("layers.{s}.blocks.{i}.norm2.{p}", "stages.{s}.blocks.{i}.ffn_residual.norm.{p}"),
        Rule("norm.{p}", "norm.{p}"),
        *merging(ours, names),
    ]
    return [*table, Rule("head.fc.{p}", "head.{p}")] if ours.classes else table


def merging(ours: Config | swinv2.Config, names: Collection[str] | None) -> list[Entry]:
    """What makes a grid smaller stands before a stage; in their older files, behind the one before. A file without a
    classifier is to them an older one, whoever wrote it."""
    older = not ours.classes if names is None else any(name.startswith("layers.0.downsample.") for name in names)
    table: list[Entry] = []
    for stage in range(1, len(ours.depth)):
        theirs, here = f"layers.{stage - older}.downsample.", f"stages.{stage}.shrink."
        table += [Rule(theirs + "norm.{p}", here + "norm.{p}"), Rule(theirs + "reduction.{p}", here + "reduce.{p}")]
    return table


def parts(end: str) -> tuple[str, ...]:
    return tuple(f"stages.{{s}}.blocks.{{i}}.mixer.attention.{part}.{end}" for part in "qkv")


def rules(ours: Config, names: Collection[str] | None = None) -> list[Entry]:
    attention = "layers.{s}.blocks.{i}.attn."
    return [
        *shared(ours, names),
        Rule(attention + "qkv.{p}", parts("{p}"), Chunk(3)),
        Rule(attention + "relative_position_bias_table", "stages.{s}.blocks.{i}.mixer.offsets.weight"),
    ]


def second_rules(ours: swinv2.Config, names: Collection[str] | None = None) -> list[Entry]:
    attention, mixer = "layers.{s}.blocks.{i}.attn.", "stages.{s}.blocks.{i}.mixer."
    return [
        *shared(ours, names),
        Rule(attention + "qkv.weight", parts("weight"), Chunk(3)),
        Rule(attention + "q_bias", mixer + "attention.q.bias"),
        Rule(attention + "v_bias", mixer + "attention.v.bias"),
        Rule(attention + "logit_scale", mixer + "attention.kernel.log_scale"),
        Rule(attention + "cpb_mlp.0.{p}", mixer + "offsets.up.{p}"),
        Rule(attention + "cpb_mlp.2.{p}", mixer + "offsets.down.{p}"),
    ]
