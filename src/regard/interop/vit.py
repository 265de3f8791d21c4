"""ViT <-> Hugging Face (model_type vit): with a classifier, or the bare encoder with its pooler."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from regard.models.vit import Config

from .defaults import kind_defaults
from .foreign import THEIR_ACTIVATIONS, ForeignConfig, default_labels
from .rules import Entry, Rule


def config(theirs: ForeignConfig) -> Config:
    theirs.assume(kind_defaults("vit"))
    return Config(**settings(theirs))


def settings(theirs: ForeignConfig) -> dict[str, Any]:
    """The config keys shared by ViT and DeiT."""
    theirs.divides("num_attention_heads", "hidden_size")
    theirs.divides("patch_size", "image_size")
    theirs.expect("pooler_act", "tanh")
    theirs.ignore("encoder_stride", "pooler_output_size")
    return {
        "image": theirs.side("image_size"),
        "patch": theirs.side("patch_size"),
        "channels": theirs.size("num_channels"),
        "classes": theirs.classes(),
        "dim": theirs.size("hidden_size"),
        "depth": theirs.depth("num_hidden_layers"),
        "heads": theirs.size("num_attention_heads"),
        "hidden": theirs.size("intermediate_size"),
        "dropout": theirs.share("hidden_dropout_prob"),
        "attention_dropout": theirs.share("attention_probs_dropout_prob"),
        "eps": theirs.above_zero("layer_norm_eps"),
        "activation": theirs.activation("hidden_act"),
        "qkv_bias": theirs.take("qkv_bias", bool),
    }


def complete(ours: Config, names: Collection[str]) -> Config:
    """A bare encoder has no classifier, and may have a tanh layer on the class token."""
    if any(name.startswith("classifier.") for name in names):
        return ours
    pooler = any(name.startswith("pooler.") for name in names)
    return replace(ours, classes=0, representation=ours.dim if pooler else None)


def export_config(ours: Config) -> dict[str, Any]:
    return export_settings(ours, "vit", "ViTForImageClassification" if ours.classes else "ViTModel")


def export_settings(ours: Any, kind: str, architecture: str) -> dict[str, Any]:
    return {
        "architectures": [architecture],
        "model_type": kind,
        "image_size": ours.image,
        "patch_size": ours.patch,
        "num_channels": ours.channels,
        "hidden_size": ours.dim,
        "num_hidden_layers": ours.depth,
        "num_attention_heads": ours.heads,
        "intermediate_size": ours.hidden,
        "hidden_dropout_prob": ours.dropout,
        "attention_probs_dropout_prob": ours.attention_dropout,
        "layer_norm_eps": ours.eps,
        "hidden_act": THEIR_ACTIVATIONS[ours.activation],
        "qkv_bias": ours.qkv_bias,
        **(default_labels(ours.classes) if ours.classes else {}),
    }


def rules(ours: Config, names: Collection[str] | None = None) -> list[Entry]:
    table = encoder_rules("vit." if ours.classes else "")
    if ours.classes:
        table.append(Rule("classifier.{p}", "head.{p}"))
    elif ours.representation:
        table.append(Rule("pooler.dense.{p}", "representation.{p}"))
    return table


def encoder_rules(prefix: str) -> list[Entry]:
    layer, block = prefix + "encoder.layer.{i}.", "blocks.{i}."
    return [
        Rule(prefix + "embeddings.cls_token", "class_token"),
        Rule(prefix + "embeddings.position_embeddings", "positions"),
        Rule(prefix + "embeddings.patch_embeddings.projection.{p}", "patch.projection.{p}"),
        Rule(layer + "attention.attention.query.{p}", block + "mixer.q.{p}"),
        Rule(layer + "attention.attention.key.{p}", block + "mixer.k.{p}"),
        Rule(layer + "attention.attention.value.{p}", block + "mixer.v.{p}"),
        Rule(layer + "attention.output.dense.{p}", block + "mixer.out.{p}"),
        Rule(layer + "layernorm_before.{p}", block + "mixer_residual.norm.{p}"),
        Rule(layer + "intermediate.dense.{p}", block + "ffn.up.{p}"),
        Rule(layer + "output.dense.{p}", block + "ffn.down.{p}"),
        Rule(layer + "layernorm_after.{p}", block + "ffn_residual.norm.{p}"),
        Rule(prefix + "layernorm.{p}", "norm.{p}"),
    ]
