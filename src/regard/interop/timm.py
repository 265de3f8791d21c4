"""What all of timm's folders share: config.json names an architecture, and in ``model_args`` what differs from it.

Of the rest, ``pretrained_cfg`` tells the size of the images; what else it says is about where weights came from and how
images are cut, and changes no number that the model computes. In older folders its keys stand in config.json itself.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .defaults import ReferenceDefaults, architecture_defaults, pretrained_keys
from .foreign import ForeignConfig
from .rules import Entry, Rule
from .tensor_ops import Chunk

KIND = "timm "  # begins the names of these kinds: they say "architecture": "mixer_b16_224", and have no model_type


@dataclass(frozen=True, eq=False)
class TimmConfig:
    """Their config: what its architecture usually is, with what differs."""

    args: ForeignConfig  # model_args
    channels: int
    image: int
    classes: int

    def join(self, theirs: ForeignConfig) -> None:
        """When all keys of ``args`` were read: its problems are those of the config."""
        theirs.problems += [f"model_args: {problem}" for problem in self.args.finish()]
        theirs.guessed |= self.args.guessed


def read_timm_config(theirs: ForeignConfig, sizes: Collection[str], *pools: str) -> TimmConfig:
    """Read a config whose architecture is one of ``sizes``, and whose pooling, if given, is one of ``pools``."""
    theirs.assume(ReferenceDefaults({"pretrained_cfg": {}, "model_args": {}}))
    architecture = theirs.take("architecture", str)
    if architecture not in sizes:
        theirs.guess(f"architecture = {architecture[:60]!r} is not supported, expected {', '.join(sizes)}")
    flat = "pretrained_cfg" not in theirs.given
    theirs.ignore("num_classes", "num_features")  # the latter tells nothing that the tensors do not
    theirs.ignore("label_names", "label_descriptions", *(["labels", *pretrained_keys()] if flat else []))
    args = ForeignConfig(table(theirs, "model_args"), theirs.tensors)
    pretrained = dict(theirs.given) if flat else table(theirs, "pretrained_cfg")
    args.assume(ReferenceDefaults({**architecture_defaults(architecture).keys, **told_before(theirs, pretrained)}))
    args.expect("global_pool", *pools)
    theirs.expect("global_pool", args.data.get("global_pool"))
    return TimmConfig(args, args.size("in_chans"), args.side("img_size"), args.size("num_classes", least=0))


def told_before(theirs: ForeignConfig, pretrained: Mapping[str, Any]) -> dict[str, Any]:
    """What they take from elsewhere in the config where ``model_args`` does not say it."""
    classes = theirs.given.get("num_classes", pretrained.get("num_classes", 1000))
    found = {} if classes is None else {"num_classes": classes}
    size = pretrained.get("input_size", [3, 224, 224])
    if not isinstance(size, list) or len(size) != 3:
        theirs.guess(f"input_size = {size!r}"[:100] + " is not a list of channels, height and width")
        return found
    fixed = pretrained.get("fixed_input_size", False)
    return found | {"in_chans": size[0]} | ({"img_size": size[1:]} if fixed else {})


def table(theirs: ForeignConfig, key: str) -> dict[str, Any]:
    theirs.ignore(key)
    value = theirs.data[key]
    if isinstance(value, dict):
        return value
    theirs.guess(f"{key} = {value!r}"[:100] + " is not a table")
    return {}


def hidden_units(args: ForeignConfig, key: str, dim: int) -> int:
    """Hidden units of an MLP, given as a ratio of its input size."""
    args.ignore(key)
    ratio: Any = args.data.get(key)
    if type(ratio) not in (int, float) or not 1 <= ratio * dim < 1 << 40:
        args.guess(f"{key} = {ratio!r}"[:100] + " is not a ratio that gives at least 1 hidden unit")
        return 1
    return int(ratio * dim)


def one_dropout(args: ForeignConfig) -> float:
    """Of what is added to the stream, and of the stream's first state, which here is one share."""
    dropout = args.share("proj_drop_rate")
    args.expect("pos_drop_rate", dropout)
    return dropout


def share(hidden: int, dim: int) -> float:
    """The way back: a number from which they get the same whole one."""
    found = hidden / dim
    return found if int(found * dim) == hidden else (hidden + 0.25) / dim


def nearest(ours: Any, sizes: Mapping[str, Any], keys: Iterable[str]) -> str:
    """The architecture that differs in the fewest of these keys."""
    return max(sizes, key=lambda name: sum(getattr(ours, key) == getattr(sizes[name], key) for key in keys))


def differing(ours: Any, usual: Any, keys: Mapping[str, str]) -> dict[str, Any]:
    """By their names, the values that are not the usual ones."""
    changed = {key: getattr(ours, key) for key in keys if getattr(ours, key) != getattr(usual, key)}
    return {keys[key]: list(x) if isinstance(x, tuple) else x for key, x in changed.items()}


def export_timm_config(
    architecture: str,
    ours: Any,
    args: Mapping[str, Any],
    *,
    pool: str = "token",
    features: int | None = None,
    first: str = "patch_embed.proj",
    classifier: str | list[str] = "head",
) -> dict[str, Any]:
    """Their config.json; ``features`` are those that the head reads, if they are not as many as ``dim``."""
    picture = {"input_size": [ours.channels, ours.image, ours.image], "fixed_input_size": True}
    return {
        "architecture": architecture,
        "num_classes": ours.classes,
        "num_features": ours.dim if features is None else features,
        "global_pool": pool,
        **({"model_args": dict(args)} if args else {}),
        "pretrained_cfg": picture | {"first_conv": first, "classifier": classifier, "num_classes": ours.classes},
    }


def block_rules(theirs: str, ours: str, attention: str = "attn.qkv.{p}") -> list[Entry]:
    """One pre-norm block, its queries, keys and values in one tensor there."""
    return [
        Rule(theirs + "norm1.{p}", ours + "mixer_residual.norm.{p}"),
        Rule(theirs + attention, tuple(ours + f"mixer.{x}.{{p}}" for x in "qkv"), Chunk(3)),
        Rule(theirs + "attn.proj.{p}", ours + "mixer.out.{p}"),
        Rule(theirs + "norm2.{p}", ours + "ffn_residual.norm.{p}"),
        Rule(theirs + "mlp.fc1.{p}", ours + "ffn.up.{p}"),
        Rule(theirs + "mlp.fc2.{p}", ours + "ffn.down.{p}"),
    ]
