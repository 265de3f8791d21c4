"""LeViT <-> Hugging Face (model_type levit) and timm's folders: with both heads, one, or the bare encoder."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from regard.errors import InputError
from regard.models.levit import PRESETS, Config

from . import timm
from .batchnorm import batch_norm
from .defaults import kind_defaults
from .foreign import ForeignConfig, default_labels
from .rules import Entry, Rule, several
from .tensor_ops import SAME, HeadByHead, Op

TIMM = timm.KIND + "levit"
NAMES = {f"levit_{size}": PRESETS[f"levit-{size}"] for size in ("128s", "128", "192", "256", "384")}
KEYS = {
    "image": "img_size",
    "channels": "in_chans",
    "dim": "embed_dim",
    "depth": "depth",
    "heads": "num_heads",
    "head_dim": "key_dim",
    "drop_path": "drop_path_rate",
}
PATCH = 16  # their four convolutions


def config(theirs: ForeignConfig) -> Config:
    theirs.assume(kind_defaults("levit"))
    for key, value in (("kernel_size", 3), ("stride", 2), ("padding", 1), ("patch_size", PATCH)):
        theirs.expect(key, value)
    theirs.ignore("key_dim", "attention_ratio", "down_ops")
    dim, depth = theirs.several("hidden_sizes"), theirs.depths("depths")
    keys, looks = theirs.several("key_dim"), theirs.data["attention_ratio"]
    width, ratios = keys[0], theirs.several("mlp_ratio")
    if set(keys) != {width}:
        theirs.guess(f"key_dim = {list(keys)!r}"[:100] + " is not supported, expected the same size in every stage")
    if min(dim[:-1], default=width) < width:
        theirs.guess(f"hidden_sizes = {list(dim)} must be at least key_dim = {width} in each stage but the last")
    if looks != [2] * len(dim):
        theirs.problems.append(f"attention_ratio = {looks!r}"[:100] + " is not supported, expected 2 in every stage")
    steps = theirs.data.get("down_ops", shrinking((*dim[:2], 0), width, (0, 2, 2)))  # whatever mlp_ratio says
    wanted = shrinking(dim, width, ratios)
    if not isinstance(steps, list) or [step for step in steps if step != [""]] != wanted:
        theirs.problems.append(f"down_ops = {steps!r}"[:100] + f" is not supported, expected {wanted}")
    return Config(
        image=theirs.side("image_size"),
        patch=PATCH,
        channels=theirs.size("num_channels"),
        classes=theirs.classes(),
        dim=dim,
        depth=depth,
        heads=theirs.several("num_attention_heads"),
        head_dim=width,
        hidden=tuple(d * ratio for d, ratio in zip(dim, ratios, strict=False)),
        drop_path=theirs.share("drop_path_rate"),
    )


def shrinking(dim: Sequence[int], width: int, ratios: Sequence[int]) -> list[list[Any]]:
    """The downsampling layers as their config lists them: width of keys, heads, width of values, hidden units,
    stride."""
    return [["Subsample", width, d // width, 4, ratio, 2] for d, ratio in zip(dim[:-1], ratios[1:], strict=False)]


def complete(ours: Config, names: Collection[str]) -> Config:
    """What a file holds no head for has none."""
    heads = {name.partition(".")[0] for name in names}
    classes = ours.classes if heads & {"classifier", "head"} else 0
    return replace(ours, classes=classes, distilled=not classes or bool(heads & {"classifier_distill", "head_dist"}))


def check_even(ours: Config) -> None:
    if ours.patch != PATCH or any(d % ours.head_dim for d in ours.dim[:-1]):
        raise InputError(
            "this levit cannot be exported: the target format requires patch = 16 and dim a multiple of head_dim",
            got=f"patch = {ours.patch}, dim = {ours.dim}, head_dim = {ours.head_dim}",
        )


def export_config(ours: Config) -> dict[str, Any]:
    check_even(ours)
    if any(hidden % d for hidden, d in zip(ours.hidden, ours.dim, strict=True)):
        raise InputError(
            "this levit cannot be exported: the target format requires hidden to be a multiple of dim",
            got=f"hidden = {ours.hidden}, dim = {ours.dim}",
        )
    with_head = "LevitForImageClassificationWithTeacher" if ours.distilled else "LevitForImageClassification"
    stages, width = len(ours.dim), ours.head_dim
    ratios = [hidden // d for hidden, d in zip(ours.hidden, ours.dim, strict=True)]
    return {
        "architectures": [with_head if ours.classes else "LevitModel"],
        "model_type": "levit",
        "image_size": ours.image,
        "patch_size": PATCH,
        "num_channels": ours.channels,
        "hidden_sizes": list(ours.dim),
        "depths": list(ours.depth),
        "num_attention_heads": list(ours.heads),
        "key_dim": [width] * stages,
        "attention_ratio": [2] * stages,
        "mlp_ratio": ratios,
        "down_ops": shrinking(ours.dim, width, ratios),
        "drop_path_rate": 0,  # of theirs a whole number, so it cannot be anything else
        "kernel_size": 3,
        "stride": 2,
        "padding": 1,
        **(default_labels(ours.classes) if ours.classes else {}),
    }


def folder(theirs: ForeignConfig) -> Config:
    """timm's"""
    told = timm.read_timm_config(theirs, NAMES, "avg")
    args = told.args
    args.expect("attn_ratio", 2, 2.0, [2] * 3)
    args.expect("mlp_ratio", 2, 2.0, [2] * 3)
    args.ignore("distilled")  # its heads tell
    dim = args.several("embed_dim")
    found = Config(
        image=told.image,
        channels=told.channels,
        classes=told.classes,
        dim=dim,
        depth=args.depths("depth"),
        heads=args.several("num_heads"),
        head_dim=args.size("key_dim"),
        hidden=tuple(2 * d for d in dim),
        drop_path=args.share("drop_path_rate"),
    )
    told.join(theirs)
    return found


def export_folder(ours: Config) -> dict[str, Any]:
    check_even(ours)
    name = timm.nearest(ours, NAMES, KEYS)
    args = timm.differing(ours, NAMES[name], KEYS)
    if not ours.distilled:
        args["distilled"] = False
    heads = ["head.linear", "head_dist.linear"] if ours.distilled else ["head.linear"]
    first, features = "stem.conv1.linear", ours.dim[-1]
    return timm.export_timm_config(name, ours, args, pool="avg", features=features, first=first, classifier=heads)


def normed(theirs: str, bn: str, ours: str | tuple[str, ...], op: Op = SAME) -> list[Entry]:
    """A linear map and its batch norm."""
    linear = Rule(f"{theirs}.linear.weight", tuple(f"{name}.linear.weight" for name in several(ours)), op)
    return [linear, *batch_norm(f"{theirs}.{bn}.", tuple(f"{name}.norm." for name in several(ours)), op)]


def rules(ours: Config, names: Collection[str] | None = None) -> list[Entry]:
    """Theirs are one list of layers for each stage: attention, network, attention ...; and at last what shrinks it."""
    prefix, bn, table = "levit." if ours.classes else "", "batch_norm", list[Entry]()
    for i in range(4):
        layer = f"{prefix}patch_embeddings.embedding_layer_{i + 1}."
        table.append(Rule(layer + "convolution.weight", f"stem.{i}.convolution.weight"))
        table += batch_norm(f"{layer}{bn}.", f"stem.{i}.norm.")
    e = ours.head_dim
    for stage, (depth, heads) in enumerate(zip(ours.depth, ours.heads, strict=True)):
        layers = f"{prefix}encoder.stages.{stage}.layers."
        for i in range(depth):
            there, block = f"{layers}{2 * i}.module.", f"stages.{stage}.blocks.{i}."
            look = block + "mixer.attention."
            table += normed(
                there + "queries_keys_values",
                bn,
                (look + "q", look + "k", look + "v"),
                HeadByHead(heads, (e, e, 2 * e)),
            )
            table += normed(there + "projection", bn, look + "out")
            table.append(Rule(there + "attention_biases", block + "mixer.offsets.weight"))
            table += network(f"{layers}{2 * i + 1}.module.linear_", ("up", "down"), bn, block)
        if stage + 1 < len(ours.dim):
            there, block, heads = f"{layers}{2 * depth}.", f"stages.{stage + 1}.shrink.", ours.dim[stage] // e
            look = block + "look.attention."
            table += normed(there + "keys_values", bn, (look + "k", look + "v"), HeadByHead(heads, (e, 4 * e)))
            table += normed(there + "queries", bn, look + "q")
            table += normed(there + "projection", bn, look + "out")
            table.append(Rule(there + "attention_biases", block + "look.offsets.weight"))
            table += network(f"{layers}{2 * depth + 1}.module.linear_", ("up", "down"), bn, block)
    return table + judging(ours, "classifier", "classifier_distill", bn)


def network(theirs: str, parts: tuple[str, str], bn: str, block: str) -> list[Entry]:
    return [*normed(theirs + parts[0], bn, block + "ffn.up"), *normed(theirs + parts[1], bn, block + "ffn.down")]


def judging(ours: Config, label: str, teacher: str, bn: str) -> list[Entry]:
    pairs = {label: "head", teacher: "teacher_head"} if ours.distilled else {label: "head"}
    table: list[Entry] = []
    for there, here in pairs.items() if ours.classes else ():
        table += [Rule(f"{there}.linear.{{p}}", f"{here}.linear.{{p}}"), *batch_norm(f"{there}.{bn}.", f"{here}.norm.")]
    return table


def folder_rules(ours: Config, names: Collection[str] | None = None) -> list[Entry]:
    bn, e, table = "bn", ours.head_dim, list[Entry]()
    for i in range(4):
        table.append(Rule(f"stem.conv{i + 1}.linear.weight", f"stem.{i}.convolution.weight"))
        table += batch_norm(f"stem.conv{i + 1}.bn.", f"stem.{i}.norm.")
    for stage, (depth, heads) in enumerate(zip(ours.depth, ours.heads, strict=True)):
        for i in range(depth):
            there = block = f"stages.{stage}.blocks.{i}."
            look = block + "mixer.attention."
            parts = (look + "q", look + "k", look + "v")
            table += normed(there + "attn.qkv", bn, parts, HeadByHead(heads, (e, e, 2 * e)))
            table += normed(there + "attn.proj.ln", bn, look + "out")
            table.append(Rule(there + "attn.attention_biases", block + "mixer.offsets.weight"))
            table += network(there + "mlp.", ("ln1", "ln2"), bn, block)
        if stage:
            there, block = f"stages.{stage}.downsample.", f"stages.{stage}.shrink."
            look, down = block + "look.attention.", there + "attn_downsample."
            heads = ours.dim[stage - 1] // e
            table += normed(down + "kv", bn, (look + "k", look + "v"), HeadByHead(heads, (e, 4 * e)))
            table += normed(down + "q.ln", bn, look + "q")
            table += normed(down + "proj.ln", bn, look + "out")
            table.append(Rule(down + "attention_biases", block + "look.offsets.weight"))
            table += network(there + "mlp.", ("ln1", "ln2"), bn, block)
    return table + judging(ours, "head", "head_dist", bn)
