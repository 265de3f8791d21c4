"""ViT and DeiT <-> timm's folders: ``vit_*``, ``deit_*`` (a ViT) and ``deit_*_distilled_*``.

What a name does not fix, ``model_args`` says, so that models of any size go out.
"""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from regard.errors import InputError
from regard.models import deit, vit

from . import timm
from .foreign import ForeignConfig
from .rules import Entry, Rule

KIND, DISTILLED = timm.KIND + "vit", timm.KIND + "deit"

WIDTHS = {
    "tiny": vit.PRESETS["vit-tiny"],
    "small": vit.PRESETS["vit-small"],
    "base": vit.PRESETS["vit-base"],
    "large": vit.PRESETS["vit-large"],
    "huge": vit.PRESETS["vit-huge"],
}
PUBLISHED = (  # width, patch, sides of the images
    ("tiny", 16, (224, 384)),
    ("small", 32, (224, 384)),
    ("small", 16, (224, 384)),
    ("small", 8, (224,)),
    ("base", 32, (224, 384)),
    ("base", 16, (224, 384)),
    ("base", 8, (224,)),
    ("large", 32, (224, 384)),
    ("large", 16, (224, 384)),
    ("large", 14, (224,)),
    ("huge", 14, (224,)),
)
SIZES = {
    f"vit_{name}_patch{patch}_{side}": replace(WIDTHS[name], patch=patch, image=side)
    for name, patch, sides in PUBLISHED
    for side in sides
}
SIZES |= {"vit_base_patch16_224_miil": replace(WIDTHS["base"], qkv_bias=False)}
PLAIN = {"tiny": (224,), "small": (224,), "base": (224, 384)}
SIZES |= {
    f"deit_{name}_patch16_{side}": replace(WIDTHS[name], image=side) for name, sides in PLAIN.items() for side in sides
}
TWO_TOKENS = {
    f"deit_{name}_distilled_patch16_{side}": replace(deit.PRESETS[f"deit-{name}"], image=side)
    for name, sides in PLAIN.items()
    for side in sides
}
KEYS = {
    "image": "img_size",
    "patch": "patch_size",
    "channels": "in_chans",
    "dim": "embed_dim",
    "depth": "depth",
    "heads": "num_heads",
    "qkv_bias": "qkv_bias",
    "attention_dropout": "attn_drop_rate",
    "drop_path": "drop_path_rate",
}


def config(theirs: ForeignConfig) -> vit.Config:
    told = timm.read_timm_config(theirs, SIZES, "token", "avg")
    mean = told.args.data.get("global_pool") == "avg"
    told.args.expect("class_token", not mean)
    told.args.expect("fc_norm", *((False,) if mean else (None, False)))
    return vit.Config(**settings(theirs, told), pool="mean" if mean else "class")


def distilled(theirs: ForeignConfig) -> deit.Config:
    told = timm.read_timm_config(theirs, TWO_TOKENS, "token")
    told.args.expect("fc_norm", None, False)
    return deit.Config(**settings(theirs, told))


def settings(theirs: ForeignConfig, told: timm.TimmConfig) -> dict[str, Any]:
    args = told.args
    args.expect("act_layer", None, "gelu")
    args.ignore("weight_init", "fix_init")
    args.divides("num_heads", "embed_dim")
    dim = args.size("embed_dim")
    found = {
        "image": told.image,
        "patch": args.side("patch_size"),
        "channels": told.channels,
        "classes": told.classes,
        "dim": dim,
        "depth": args.depth("depth"),
        "heads": args.size("num_heads"),
        "hidden": timm.hidden_units(args, "mlp_ratio", dim),
        "dropout": timm.one_dropout(args),
        "attention_dropout": args.share("attn_drop_rate"),
        "drop_path": args.share("drop_path_rate"),
        "qkv_bias": args.take("qkv_bias", bool),
    }
    told.join(theirs)
    return found


def export_config(ours: vit.Config) -> dict[str, Any]:
    name = timm.nearest(ours, SIZES, KEYS)
    args = export_args(ours, SIZES[name])
    if ours.pool == "mean":
        args |= {"global_pool": "avg", "class_token": False, "fc_norm": False}
    return timm.export_timm_config(name, ours, args, pool="avg" if ours.pool == "mean" else "token")


def export_distilled(ours: deit.Config) -> dict[str, Any]:
    if ours.representation:
        raise InputError("this deit cannot be exported: the target format has no tanh layer", got="representation")
    name = timm.nearest(ours, TWO_TOKENS, KEYS)
    return timm.export_timm_config(name, ours, export_args(ours, TWO_TOKENS[name]), classifier=["head", "head_dist"])


def export_args(ours: Any, usual: Any) -> dict[str, Any]:
    args = timm.differing(ours, usual, KEYS)
    if ours.hidden != 4 * ours.dim:
        args |= {"mlp_ratio": timm.share(ours.hidden, ours.dim)}
    if ours.dropout:
        args |= {"proj_drop_rate": ours.dropout, "pos_drop_rate": ours.dropout}
    return args


def rules(ours: vit.Config, names: Collection[str] | None = None) -> list[Entry]:
    first: list[Entry] = [Rule("cls_token", "class_token")] if ours.pool == "class" else []
    return first + encoder_rules(ours.classes)


def distilled_rules(ours: deit.Config, names: Collection[str] | None = None) -> list[Entry]:
    table: list[Entry] = [Rule("cls_token", "class_token"), Rule("dist_token", "distillation_token")]
    if ours.classes and ours.pool == "both":
        table.append(Rule("head_dist.{p}", "teacher_head.{p}"))
    return table + encoder_rules(ours.classes)


def encoder_rules(classes: int) -> list[Entry]:
    table: list[Entry] = [
        Rule("patch_embed.proj.{p}", "patch.projection.{p}"),
        Rule("pos_embed", "positions"),
        *timm.block_rules("blocks.{i}.", "blocks.{i}."),
        Rule("norm.{p}", "norm.{p}"),
    ]
    return [*table, Rule("head.{p}", "head.{p}")] if classes else table
