"""MLP-Mixer <-> timm's folders: config.json names the architecture, and in ``model_args`` what differs from it.

There a name fixes patches, width and depth, so only such models go out; one of other sizes can be read.
"""

from collections.abc import Collection
from typing import Any

from regard.errors import InputError
from regard.models.mixer import PRESETS, Config

from .foreign import Foreign
from .rules import Entry, Rule

KIND = "timm mixer"  # they say "architecture": "mixer_b16_224", and have no model_type
SIZES = {
    f"mixer_{name.removeprefix('mixer-')}_224": config for name, config in PRESETS.items() if name != "mixer-h14"
}  # the largest they do not have


def config(theirs: Foreign) -> Config:
    architecture = theirs.take("architecture", str)
    if architecture not in SIZES:
        theirs.guess(f"architecture = {architecture[:60]!r} is not supported, only {', '.join(SIZES)}")
    usual = SIZES.get(architecture, PRESETS["mixer-s32"])
    theirs.expect("global_pool", "avg")
    theirs.expect("num_features", theirs.data.get("num_features"))  # it tells nothing that the tensors do not
    theirs.ignore("label_names", "label_descriptions", "pretrained_cfg", "model_args")
    shape = pictured(theirs.data.get("pretrained_cfg"), usual)
    told = Foreign(table(theirs, "model_args"), theirs.tensors)
    for key in ("drop_rate", "drop_path_rate"):
        told.expect(key, 0, 0.0)
    told.expect("global_pool", "avg")
    told.expect("stem_norm", False)
    told.expect("num_classes", theirs.data.get("num_classes"))
    told.ignore("nlhb", "mlp_ratio")
    dim = told.size("embed_dim", usual.dim)
    tokens, hidden = widths(told, dim)
    found = Config(
        image=told.size("img_size", shape[1]),
        patch=told.size("patch_size", usual.patch),
        channels=told.size("in_chans", shape[0]),
        classes=theirs.size("num_classes", 1000, least=0),
        dim=dim,
        depth=told.depth("num_blocks", usual.depth),
        tokens=tokens,
        hidden=hidden,
        dropout=told.share("proj_drop_rate", 0.0),
    )
    theirs.problems += [f"model_args: {problem}" for problem in told.finish()]
    theirs.guessed |= told.guessed
    return found


def table(theirs: Foreign, key: str) -> dict[str, Any]:
    value = theirs.data.get(key, {})
    if isinstance(value, dict):
        return value
    theirs.guess(f"{key} = {value!r}"[:100] + " is not a table")
    return {}


def pictured(data: object, usual: Config) -> tuple[int, int]:
    """Channels and side of the images, where ``pretrained_cfg`` tells them: their input_size is (3, 224, 224)."""
    size = data.get("input_size") if isinstance(data, dict) else None
    plain = isinstance(size, list) and len(size) == 3 and all(type(x) is int and x > 0 for x in size)
    return (size[0], size[-1]) if isinstance(size, list) and plain else (usual.channels, usual.image)


def widths(told: Foreign, dim: int) -> tuple[int, int]:
    """Hidden units over patches and over features, which they tell as shares of the width."""
    shares = told.data.get("mlp_ratio", [0.5, 4.0])
    right = isinstance(shares, list) and len(shares) == 2 and all(type(x) in (int, float) for x in shares)
    if not right or not all(1 <= x * dim < 1 << 40 for x in shares):
        told.guess(f"mlp_ratio = {shares!r}"[:100] + " is not two shares of the width")
        return 1, 1
    return int(shares[0] * dim), int(shares[1] * dim)


def share(hidden: int, dim: int) -> float:
    """The way back: a number from which they get the same whole one."""
    found = hidden / dim
    return found if int(found * dim) == hidden else (hidden + 0.25) / dim


def export_config(ours: Config) -> dict[str, Any]:
    fixed = (ours.patch, ours.dim, ours.depth)
    named = next((name for name, x in SIZES.items() if (x.patch, x.dim, x.depth) == fixed), None)
    if named is None:
        raise InputError(
            "their format has no counterpart of this mixer: there a name fixes patch, dim and depth",
            got=f"patch = {ours.patch}, dim = {ours.dim}, depth = {ours.depth}",
            expected=", ".join(f"{x.patch}, {x.dim} and {x.depth}" for x in SIZES.values()),
        )
    usual = SIZES[named]
    args: dict[str, Any] = {}
    if (ours.image, ours.channels) != (usual.image, usual.channels):
        args |= {"img_size": ours.image, "in_chans": ours.channels}
    if (ours.tokens, ours.hidden) != (usual.tokens, usual.hidden):
        args |= {"mlp_ratio": [share(ours.tokens, ours.dim), share(ours.hidden, ours.dim)]}
    if ours.dropout:
        args |= {"proj_drop_rate": ours.dropout}
    picture = {"input_size": [ours.channels, ours.image, ours.image], "fixed_input_size": True}
    return {
        "architecture": named,
        "num_classes": ours.classes,
        "num_features": ours.dim,
        "global_pool": "avg",
        **({"model_args": args} if args else {}),
        "pretrained_cfg": picture | {"first_conv": "stem.proj", "classifier": "head", "num_classes": ours.classes},
    }


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
