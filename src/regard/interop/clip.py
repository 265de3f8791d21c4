"""CLIP <-> Hugging Face (model_type clip): both towers, each with a config of its own in that of the whole."""

from collections.abc import Collection, Mapping
from typing import Any

from regard.models.clip import Config

from . import cliptext
from .defaults import kind_defaults
from .foreign import THEIR_ACTIVATIONS, ForeignConfig
from .rules import Dropped, Entry, Rule
from .tensor_ops import Reshape

VISION = "clip_vision_model"


def config(theirs: ForeignConfig) -> Config:
    theirs.assume(kind_defaults("clip"))
    theirs.ignore("logit_scale_init_value")  # before training
    text, vision = nested(theirs, "text_config", cliptext.KIND), nested(theirs, "vision_config", VISION)
    reading, looking = cliptext.settings(text), vision_settings(vision)
    for key, told in (("text_config", text), ("vision_config", vision)):
        told.ignore("projection_dim")  # the whole tells it
        theirs.problems += [f"{key}: {problem}" for problem in told.finish()]
        theirs.guessed |= told.guessed
    both = {"vocab", "length", "ending", "end"}
    return Config(
        **looking,
        **{key if key in both else f"text_{key}": value for key, value in reading.items()},
        joint=theirs.size("projection_dim"),
    )


def nested(theirs: ForeignConfig, key: str, kind: str) -> ForeignConfig:
    """The config of a tower. Older files have it twice, and the one under ``_dict`` counts, with all its defaults."""
    tables: list[Mapping[str, Any]] = []
    for name in (f"{key}_dict", key):
        theirs.ignore(name)
        inner = theirs.data.get(name)
        if not isinstance(inner, dict | None):
            theirs.guess(f"{name} = {inner!r}"[:100] + " is not a table")
        elif inner is not None:
            tables.append(inner)
    found = ForeignConfig({**tables[-1], **tables[0]} if tables else {}, theirs.tensors)
    found.assume(kind_defaults(kind))
    if len(tables) == 2:
        found.data |= {name: value for name, value in found.assumed.items() if name not in tables[0]}
    found.expect("model_type", kind)
    return found


def vision_settings(theirs: ForeignConfig) -> dict[str, Any]:
    theirs.divides("num_attention_heads", "hidden_size")
    theirs.divides("patch_size", "image_size")
    theirs.ignore("dropout")  # in older files, where no layer has one
    return {
        "image": theirs.side("image_size"),
        "patch": theirs.side("patch_size"),
        "channels": theirs.size("num_channels"),
        "dim": theirs.size("hidden_size"),
        "depth": theirs.depth("num_hidden_layers"),
        "heads": theirs.size("num_attention_heads"),
        "hidden": theirs.size("intermediate_size"),
        "attention_dropout": theirs.share("attention_dropout"),
        "eps": theirs.above_zero("layer_norm_eps"),
        "activation": theirs.activation("hidden_act"),
    }


def export_config(ours: Config) -> dict[str, Any]:
    vision = {
        "model_type": VISION,
        "image_size": ours.image,
        "patch_size": ours.patch,
        "num_channels": ours.channels,
        "hidden_size": ours.dim,
        "num_hidden_layers": ours.depth,
        "num_attention_heads": ours.heads,
        "intermediate_size": ours.hidden,
        "projection_dim": ours.joint,
        "attention_dropout": ours.attention_dropout,
        "layer_norm_eps": ours.eps,
        "hidden_act": THEIR_ACTIVATIONS[ours.activation],
    }
    return {
        "architectures": ["CLIPModel"],
        "model_type": "clip",
        "text_config": cliptext.export_settings(ours.reading(), ours.joint),
        "vision_config": vision,
        "projection_dim": ours.joint,
    }


def rules(ours: Config, names: Collection[str] | None = None) -> list[Entry]:
    vision, tower, places = "vision_model.", "image.", (1 + (ours.image // ours.patch) ** 2, ours.dim)
    return [
        Rule("logit_scale", "scale"),
        *cliptext.tower("text_model.", "text."),
        Rule("text_projection.weight", "text.projection.weight"),
        Rule(vision + "embeddings.class_embedding", tower + "class_token", Reshape((ours.dim,), (1, 1, ours.dim))),
        Rule(vision + "embeddings.position_embedding.weight", tower + "positions", Reshape(places, (1, *places))),
        Rule(vision + "embeddings.patch_embedding.weight", tower + "patch.projection.weight"),
        Dropped(vision + "embeddings.position_ids", "a buffer that counts 0, 1, 2 ..."),
        Rule(vision + "pre_layrnorm.{p}", tower + "first_norm.{p}"),
        *cliptext.layers(vision + "encoder.layers.{i}.", tower + "blocks.{i}."),
        Rule(vision + "post_layernorm.{p}", tower + "norm.{p}"),
        Rule("visual_projection.weight", "image.projection.weight"),
    ]


def example() -> Config:
    return Config(
        image=8,
        patch=4,
        channels=3,
        dim=16,
        depth=2,
        heads=4,
        hidden=24,
        vocab=13,
        length=12,
        text_dim=16,
        text_depth=2,
        text_heads=4,
        text_hidden=24,
        joint=12,
        end=3,
    )
