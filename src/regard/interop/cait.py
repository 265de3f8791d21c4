"""CaiT <-> timm's folders (``cait_*``). What a name does not fix, ``model_args`` says, so that any size goes out."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from regard.models.cait import PRESETS, Config

from . import timm
from .foreign import ForeignConfig
from .rules import Entry, Rule

KIND = timm.KIND + "cait"
SIDES = {
    "xxs24": (224, 384),
    "xxs36": (224, 384),
    "xs24": (384,),
    "s24": (224, 384),
    "s36": (384,),
    "m36": (384,),
    "m48": (448,),
}
SIZES = {
    f"cait_{name}_{side}": replace(PRESETS[f"cait-{name}"], image=side)
    for name, sides in SIDES.items()
    for side in sides
}
KEYS = {
    "image": "img_size",
    "patch": "patch_size",
    "channels": "in_chans",
    "dim": "embed_dim",
    "depth": "depth",
    "looks": "depth_token_only",
    "heads": "num_heads",
    "qkv_bias": "qkv_bias",
    "attention_dropout": "attn_drop_rate",
    "drop_path": "drop_path_rate",
}


def config(theirs: ForeignConfig) -> Config:
    told = timm.read_timm_config(theirs, SIZES, "token")
    args = told.args
    args.ignore("init_values")  # of what starts so, the tensors tell what it has become
    args.divides("num_heads", "embed_dim")
    dim = args.size("embed_dim")
    hidden = timm.hidden_units(args, "mlp_ratio", dim)
    if timm.hidden_units(args, "mlp_ratio_token_only", dim) != hidden:
        args.problems.append("mlp_ratio_token_only must be equal to mlp_ratio")
    dropout = timm.one_dropout(args)
    patch, heads = args.side("patch_size"), args.size("num_heads")
    depth, looks = args.depth("depth"), args.depth("depth_token_only")
    attention_dropout, drop_path = args.share("attn_drop_rate"), args.share("drop_path_rate")
    qkv_bias = args.take("qkv_bias", bool)
    told.join(theirs)
    return Config(
        image=told.image,
        patch=patch,
        channels=told.channels,
        classes=told.classes,
        dim=dim,
        depth=depth,
        looks=looks,
        heads=heads,
        hidden=hidden,
        dropout=dropout,
        attention_dropout=attention_dropout,
        drop_path=drop_path,
        qkv_bias=qkv_bias,
    )


def export_config(ours: Config) -> dict[str, Any]:
    name = timm.nearest(ours, SIZES, KEYS)
    args = timm.differing(ours, SIZES[name], KEYS)
    if ours.hidden != 4 * ours.dim:
        ratio = timm.share(ours.hidden, ours.dim)
        args |= {"mlp_ratio": ratio, "mlp_ratio_token_only": ratio}
    if ours.dropout:
        args |= {"proj_drop_rate": ours.dropout, "pos_drop_rate": ours.dropout}
    return timm.export_timm_config(name, ours, args)


def rules(ours: Config, names: Collection[str] | None = None) -> list[Entry]:
    block, look = "blocks.{i}.", "blocks_token_only.{i}."
    table: list[Entry] = [
        Rule("patch_embed.proj.{p}", "patch.projection.{p}"),
        Rule("cls_token", "class_token"),
        Rule("pos_embed", "positions"),
        *timm.block_rules(block, block),
        Rule(block + "attn.proj_l.{p}", block + "mixer.kernel.before.{p}"),
        Rule(block + "attn.proj_w.{p}", block + "mixer.kernel.after.{p}"),
        Rule(block + "gamma_1", block + "mixer_residual.branch.scale"),
        Rule(block + "gamma_2", block + "ffn_residual.branch.scale"),
        Rule(look + "norm1.{p}", "looks.{i}.norm.{p}"),
        *(Rule(look + f"attn.{x}.{{p}}", f"looks.{{i}}.mixer.{x}.{{p}}") for x in "qkv"),
        Rule(look + "attn.proj.{p}", "looks.{i}.mixer.out.{p}"),
        Rule(look + "norm2.{p}", "looks.{i}.ffn_residual.norm.{p}"),
        Rule(look + "mlp.fc1.{p}", "looks.{i}.ffn.up.{p}"),
        Rule(look + "mlp.fc2.{p}", "looks.{i}.ffn.down.{p}"),
        Rule(look + "gamma_1", "looks.{i}.branch.scale"),
        Rule(look + "gamma_2", "looks.{i}.ffn_residual.branch.scale"),
        Rule("norm.{p}", "norm.{p}"),
    ]
    return [*table, Rule("head.{p}", "head.{p}")] if ours.classes else table
