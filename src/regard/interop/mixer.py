"""MLP-Mixer <-> timm's folders, where a name fixes patches, width and depth: only such models go out; one of other
sizes can be read."""

from collections.abc import Collection
from typing import Any

from regard.errors import InputError
from regard.models.mixer import PRESETS, Config

from . import timm
from .foreign import ForeignConfig
from .rules import Entry, Rule
from .timm import share

KIND = timm.KIND + "mixer"
SIZES = {
    f"mixer_{name.removeprefix('mixer-')}_224": config
    for name, config in PRESETS.items()
    if name not in ("mixer-h14", "mixer-cifar")
}  # the largest and the smallest they do not have


def config(theirs: ForeignConfig) -> Config:
    told = timm.read_timm_config(theirs, SIZES, "avg")
    args = told.args
    args.ignore("nlhb", "mlp_ratio")  # the first tells how the head starts
    dim = args.size("embed_dim")
    tokens, hidden = widths(args, dim)
    patch, depth = args.side("patch_size"), args.depth("num_blocks")
    dropout = args.share("proj_drop_rate")
    told.join(theirs)
    return Config(
        image=told.image,
        patch=patch,
        channels=told.channels,
        classes=told.classes,
        dim=dim,
        depth=depth,
        tokens=tokens,
        hidden=hidden,
        dropout=dropout,
    )


def widths(args: ForeignConfig, dim: int) -> tuple[int, int]:
    """Hidden units over patches and over features, given as ratios of the hidden size."""
    shares: Any = args.data.get("mlp_ratio")
    right = isinstance(shares, list) and len(shares) == 2 and all(type(x) in (int, float) for x in shares)
    if not right or not all(1 <= x * dim < 1 << 40 for x in shares):
        args.guess(f"mlp_ratio = {shares!r}"[:100] + " is not a list of two ratios of the hidden size")
        return 1, 1
    return int(shares[0] * dim), int(shares[1] * dim)


def export_config(ours: Config) -> dict[str, Any]:
    fixed = (ours.patch, ours.dim, ours.depth)
    named = next((name for name, x in SIZES.items() if (x.patch, x.dim, x.depth) == fixed), None)
    if named is None:
        raise InputError(
            "this mixer cannot be exported: the target format has only published combinations of patch, dim and depth",
            got=f"patch = {ours.patch}, dim = {ours.dim}, depth = {ours.depth}",
            expected=", ".join(f"{x.patch}, {x.dim} and {x.depth}" for x in SIZES.values()),
        )
    usual = SIZES[named]
    args = timm.differing(ours, usual, {"image": "img_size", "channels": "in_chans", "dropout": "proj_drop_rate"})
    if (ours.tokens, ours.hidden) != (usual.tokens, usual.hidden):
        args |= {"mlp_ratio": [share(ours.tokens, ours.dim), share(ours.hidden, ours.dim)]}
    return timm.export_timm_config(named, ours, args, pool="avg", first="stem.proj")


def rules(ours: Config, names: Collection[str] | None = None) -> list[Entry]:
    table: list[Entry] = [
        Rule("stem.proj.{p}", "patch.projection.{p}"),
        Rule("blocks.{i}.norm1.{p}", "blocks.{i}.mixer_residual.norm.{p}"),
        Rule("blocks.{i}.mlp_tokens.fc1.{p}", "blocks.{i}.mixer.mlp.up.{p}"),
        Rule("blocks.{i}.mlp_tokens.fc2.{p}", "blocks.{i}.mixer.mlp.down.{p}"),
        Rule("blocks.{i}.norm2.{p}", "blocks.{i}.ffn_residual.norm.{p}"),
        Rule("blocks.{i}.mlp_channels.fc1.{p}", "blocks.{i}.ffn.up.{p}"),
        Rule("blocks.{i}.mlp_channels.fc2.{p}", "blocks.{i}.ffn.down.{p}"),
        Rule("norm.{p}", "norm.{p}"),
    ]
    return [*table, Rule("head.{p}", "head.{p}")] if ours.classes else table
