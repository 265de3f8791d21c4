"""VOLO <-> timm's folders (``volo_*``), where a name fixes layers, widths and heads: only such models go out; one of
other sizes can be read."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from regard.errors import InputError
from regard.models.volo import PRESETS, Config

from . import timm
from .batchnorm import batch_norm
from .foreign import ForeignConfig
from .rules import Entry, Rule
from .tensor_ops import Chunk, Reshape

KIND = timm.KIND + "volo"
SIDES = {"d1": (224, 384), "d2": (224, 384), "d3": (224, 448), "d4": (224, 448), "d5": (224, 448, 512)}
SIZES = {
    f"volo_{name}_{side}": replace(PRESETS[f"volo-{name}"], image=side)
    for name, sides in SIDES.items()
    for side in sides
}
# Their transformer has three stages that differ in nothing but their names.
STAGES = {"d1": (4, 8, 2), "d2": (4, 10, 4), "d3": (8, 16, 4), "d4": (8, 16, 4), "d5": (12, 20, 4)}
FIXED = ("outlookers", "depth", "fine_dim", "dim", "fine_heads", "heads")
KEYS = {
    "image": "img_size",
    "patch": "patch_size",
    "channels": "in_chans",
    "stem_dim": "stem_hidden_dim",
    "qkv_bias": "qkv_bias",
    "token_head": "use_aux_head",
    "attention_dropout": "attn_drop_rate",
    "drop_path": "drop_path_rate",
}


def config(theirs: ForeignConfig) -> Config:
    told = timm.read_timm_config(theirs, SIZES, "token")
    args = told.args
    args.ignore("use_mix_token")  # of training
    outlookers, *layers = args.depths("layers", stages=4)
    fine_dim, *dims = args.several("embed_dims", stages=4)
    fine_heads, *heads = args.several("num_heads", stages=4)
    if len(set(dims)) > 1 or len(set(heads)) > 1:
        args.problems.append("embed_dims and num_heads must each be equal in the last three stages")
    found: dict[str, Any] = {
        "image": told.image,
        "patch": args.side("patch_size"),
        "channels": told.channels,
        "classes": told.classes,
        "stem_dim": args.size("stem_hidden_dim"),
        "fine_dim": fine_dim,
        "outlookers": outlookers,
        "fine_heads": fine_heads,
        "fine_hidden": timm.hidden_units(args, "mlp_ratio", fine_dim),
        "dim": dims[-1],
        "depth": sum(layers),
        "heads": heads[-1],
        "hidden": timm.hidden_units(args, "mlp_ratio", dims[-1]),
        "token_head": args.take("use_aux_head", bool),
        "attention_dropout": args.share("attn_drop_rate"),
        "drop_path": args.share("drop_path_rate"),
        "qkv_bias": args.take("qkv_bias", bool),
    }
    told.join(theirs)
    return Config(**found)


def named(ours: Config) -> str:
    """The architecture of these layers, widths and heads; of several, the one for this size of images."""
    wanted = [getattr(ours, key) for key in FIXED]
    found = [name for name, x in SIZES.items() if [getattr(x, key) for key in FIXED] == wanted]
    if not found:
        raise InputError(
            f"this volo cannot be exported: the target format has only published combinations of {', '.join(FIXED)}",
            got=", ".join(f"{key} = {getattr(ours, key)}" for key in FIXED),
            expected=", ".join(PRESETS),
        )
    return max(found, key=lambda name: SIZES[name].image == ours.image)


def export_config(ours: Config) -> dict[str, Any]:
    name = named(ours)
    args = timm.differing(ours, SIZES[name], KEYS)
    if ours.hidden != SIZES[name].hidden:
        args |= {"mlp_ratio": timm.share(ours.hidden, ours.dim)}
    heads = ["head", "aux_head"]
    return timm.export_timm_config(
        name, ours, args, first="patch_embed.conv.0", classifier=heads if ours.token_head else "head"
    )


def rules(ours: Config, names: Collection[str] | None = None) -> list[Entry]:
    fine, look, rows = "network.0.{i}.", "post_network.{i}.", ours.grid
    table: list[Entry] = [
        *convolution(0, "stem.first."),
        *convolution(3, "stem.second."),
        *convolution(6, "stem.third."),
        Rule("patch_embed.proj.{p}", "stem.patch.projection.{p}"),
        Rule(fine + "norm1.{p}", "outlookers.{i}.mixer_residual.norm.{p}"),
        Rule(fine + "attn.attn.{p}", "outlookers.{i}.mixer.scores.{p}"),
        Rule(fine + "attn.v.{p}", "outlookers.{i}.mixer.v.{p}"),
        Rule(fine + "attn.proj.{p}", "outlookers.{i}.mixer.out.{p}"),
        Rule(fine + "norm2.{p}", "outlookers.{i}.ffn_residual.norm.{p}"),
        Rule(fine + "mlp.fc1.{p}", "outlookers.{i}.ffn.up.{p}"),
        Rule(fine + "mlp.fc2.{p}", "outlookers.{i}.ffn.down.{p}"),
        Rule("network.1.proj.{p}", "merge.projection.{p}"),
        Rule("pos_embed", "positions", Reshape((1, *rows, ours.dim), (1, rows[0] * rows[1], ours.dim))),
        Rule("cls_token", "class_token"),
        Rule(look + "norm1.{p}", "looks.{i}.norm.{p}"),
        Rule(look + "attn.q.{p}", "looks.{i}.mixer.q.{p}"),
        Rule(look + "attn.kv.{p}", ("looks.{i}.mixer.k.{p}", "looks.{i}.mixer.v.{p}"), Chunk(2)),
        Rule(look + "attn.proj.{p}", "looks.{i}.mixer.out.{p}"),
        Rule(look + "norm2.{p}", "looks.{i}.ffn_residual.norm.{p}"),
        Rule(look + "mlp.fc1.{p}", "looks.{i}.ffn.up.{p}"),
        Rule(look + "mlp.fc2.{p}", "looks.{i}.ffn.down.{p}"),
        Rule("norm.{p}", "norm.{p}"),
    ]
    places = [(stage, i) for stage, count in enumerate(stages(ours, names)) for i in range(count)]
    for block, (stage, i) in enumerate(places):
        table += timm.block_rules(f"network.{2 + stage}.{i}.", f"blocks.{block}.")
    if ours.classes:
        table.append(Rule("head.{p}", "head.{p}"))
    if ours.classes and ours.token_head:
        table.append(Rule("aux_head.{p}", "token_head.{p}"))
    return table


def stages(ours: Config, names: Collection[str] | None) -> tuple[int, ...]:
    """How many blocks each stage of their transformer has: as the file tells, or the name by which ours goes out."""
    if names is None:
        return STAGES[named(ours).split("_")[1]]
    within = [name.split(".", 3)[1:3] for name in names if name.startswith("network.") and name.count(".") > 2]
    return tuple(len({i for stage, i in within if stage == str(2 + place)}) for place in range(3))


def convolution(place: int, ours: str) -> list[Entry]:
    """One of the stem's, and its norm."""
    return [
        Rule(f"patch_embed.conv.{place}.weight", ours + "convolution.weight"),
        *batch_norm(f"patch_embed.conv.{place + 1}.", ours + "norm."),
    ]
