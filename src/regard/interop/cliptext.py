"""The text encoder of CLIP <-> Hugging Face (model_type clip_text_model), with its projection or without.

Their files name the tensors of the encoder alone with ``text_model.`` before, or since version 5.6 without it.
"""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from regard.decode.symbols import BEGIN, PAD
from regard.errors import InputError
from regard.models.cliptext import Config

from .defaults import kind_defaults
from .foreign import THEIR_ACTIVATIONS, ForeignConfig
from .rules import Dropped, Entry, Rule

KIND = "clip_text_model"
SYMBOLS = {BEGIN: 49406, PAD: 1}  # the end is a part of the model here
OLD_END = 2  # in older configs, of whatever vocabulary: the end is then the token with the largest id


def config(theirs: ForeignConfig) -> Config:
    theirs.assume(kind_defaults(KIND))
    return Config(**settings(theirs), joint=theirs.optional_size("projection_dim"))


def settings(theirs: ForeignConfig) -> dict[str, Any]:
    """All but the projection, of which a whole CLIP tells otherwise."""
    theirs.divides("num_attention_heads", "hidden_size")
    theirs.ignore("dropout")  # in older files, where no layer has one
    vocab = theirs.size("vocab_size")
    end = theirs.size("eos_token_id", least=0)
    if end != OLD_END and not {"eos_token_id", "vocab_size"} & theirs.wrong and end >= vocab:
        theirs.guess(f"eos_token_id = {end} is not an id of the vocabulary, vocab_size = {vocab}")
    return {
        "vocab": vocab,
        "length": theirs.size("max_position_embeddings"),
        "dim": theirs.size("hidden_size"),
        "depth": theirs.depth("num_hidden_layers"),
        "heads": theirs.size("num_attention_heads"),
        "hidden": theirs.size("intermediate_size"),
        "ending": "highest" if end == OLD_END else "first",
        "end": None if end == OLD_END else end,
        "attention_dropout": theirs.share("attention_dropout"),
        "eps": theirs.above_zero("layer_norm_eps"),
        "activation": theirs.activation("hidden_act"),
    }


def complete(ours: Config, names: Collection[str]) -> Config:
    """The config tells the width of a projection even where there is none."""
    return ours if "text_projection.weight" in names else replace(ours, joint=None)


def export_config(ours: Config) -> dict[str, Any]:
    architecture = "CLIPTextModel" if ours.joint is None else "CLIPTextModelWithProjection"
    return {"architectures": [architecture], **export_settings(ours, ours.joint)}


def export_settings(ours: Config, joint: int | None) -> dict[str, Any]:
    if ours.ending == "first" and ours.end is None:
        raise InputError(
            "a text encoder is exported with the id of its end token, which this one does not know",
            got="end = None",
            expected="an id of the vocabulary",
            fix="build it again with config.end set, and load these weights into it",
        )
    return {
        "model_type": KIND,
        "vocab_size": ours.vocab,
        "max_position_embeddings": ours.length,
        "hidden_size": ours.dim,
        "num_hidden_layers": ours.depth,
        "num_attention_heads": ours.heads,
        "intermediate_size": ours.hidden,
        "projection_dim": ours.dim if joint is None else joint,
        "eos_token_id": OLD_END if ours.ending == "highest" else ours.end,
        "attention_dropout": ours.attention_dropout,
        "layer_norm_eps": ours.eps,
        "hidden_act": THEIR_ACTIVATIONS[ours.activation],
    }


def rules(ours: Config, names: Collection[str] | None = None) -> list[Entry]:
    bare = names is not None and not any(name.startswith("text_model.") for name in names)
    table = tower("" if bare else "text_model.", "")
    if ours.joint is not None:
        table.append(Rule("text_projection.weight", "projection.weight"))
    return table


def tower(theirs: str, ours: str) -> list[Entry]:
    return [
        Rule(theirs + "embeddings.token_embedding.weight", ours + "embed.weight"),
        Rule(theirs + "embeddings.position_embedding.weight", ours + "positions.weight"),
        Dropped(theirs + "embeddings.position_ids", "a buffer that counts 0, 1, 2 ..."),
        *layers(theirs + "encoder.layers.{i}.", ours + "blocks.{i}."),
        Rule(theirs + "final_layer_norm.{p}", ours + "norm.{p}"),
    ]


def layers(layer: str, block: str) -> list[Entry]:
    """Of either tower."""
    return [
        Rule(layer + "self_attn.q_proj.{p}", block + "mixer.q.{p}"),
        Rule(layer + "self_attn.k_proj.{p}", block + "mixer.k.{p}"),
        Rule(layer + "self_attn.v_proj.{p}", block + "mixer.v.{p}"),
        Rule(layer + "self_attn.out_proj.{p}", block + "mixer.out.{p}"),
        Rule(layer + "layer_norm1.{p}", block + "mixer_residual.norm.{p}"),
        Rule(layer + "mlp.fc1.{p}", block + "ffn.up.{p}"),
        Rule(layer + "mlp.fc2.{p}", block + "ffn.down.{p}"),
        Rule(layer + "layer_norm2.{p}", block + "ffn_residual.norm.{p}"),
    ]


def example() -> Config:
    return Config(vocab=13, length=12, dim=16, depth=2, heads=4, hidden=24, end=3)
