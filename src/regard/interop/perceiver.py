"""Perceiver IO <-> Hugging Face (model_type perceiver): images with either kind of positions, and masked texts."""

from collections.abc import Collection, Mapping
from typing import Any

from regard.errors import InputError
from regard.models import perceiver, perceiverlm

from .defaults import kind_defaults
from .foreign import THEIR_ACTIVATIONS, ForeignConfig, default_labels
from .rules import Entry, Rule
from .tensor_ops import Reshape

TEXT = "perceiver text"  # their model_type is one for all; only the class in ``architectures`` tells
FOURIER, LEARNED = "PerceiverForImageClassificationFourier", "PerceiverForImageClassificationLearned"
WORDS = "PerceiverForMaskedLM"
SIDE = 224  # of the images for which their frequencies are made, whatever config.json says
ELSEWHERE = ("train_size", "num_frames", "audio_samples_per_frame", "samples_per_patch", "output_shape")


def architecture(data: Mapping[str, Any]) -> str:
    told = data.get("architectures")
    return str(told[0]) if isinstance(told, list) and told else ""


def sizes(theirs: ForeignConfig) -> dict[str, Any]:
    """The config keys shared by all kinds; those of other kinds (video, audio, flow) are ignored."""
    theirs.assume(kind_defaults("perceiver"))
    theirs.ignore(*ELSEWHERE, "output_num_channels", "_label_trainable_num_channels")
    theirs.ignore("layer_norm_eps")  # their norms do not read it
    theirs.divides("num_self_attention_heads", "d_latents")
    theirs.divides("num_cross_attention_heads", "d_latents")
    theirs.expect("use_query_residual", True)
    free = theirs.data.get("qk_channels") is not None  # then nothing else decides how wide keys are
    theirs.expect("cross_attention_shape_for_attention", "kv", *(["q"] if free else []))
    dim = theirs.size("d_latents")
    return {
        "latents": theirs.size("num_latents"),
        "dim": dim,
        "depth": theirs.depth("num_self_attends_per_block"),
        "repeats": theirs.size("num_blocks"),
        "heads": theirs.size("num_self_attention_heads"),
        "cross_heads": theirs.size("num_cross_attention_heads"),
        "key_dim": theirs.optional_size("qk_channels"),
        "value_dim": theirs.optional_size("v_channels"),
        "hidden": dim * theirs.size("self_attention_widening_factor"),
        "cross_hidden": dim * theirs.size("cross_attention_widening_factor"),
        "dropout": theirs.share("attention_probs_dropout_prob"),
        "activation": theirs.activation("hidden_act"),
    }


def images(theirs: ForeignConfig) -> perceiver.Config:
    shared = sizes(theirs)
    kind = architecture(theirs.data)
    if kind not in (FOURIER, LEARNED):
        theirs.guess(f"architectures = {kind[:60]!r} is not supported, expected {FOURIER}, {LEARNED} or {WORDS}")
    theirs.ignore("d_model", "vocab_size", "max_position_embeddings", "num_labels")
    side = theirs.pixels("image_size")
    return perceiver.Config(
        image=side if kind == LEARNED else SIDE,
        classes=theirs.classes(least=1),
        positions="learned" if kind == LEARNED else "fourier",
        **shared,
    )


def text(theirs: ForeignConfig) -> perceiverlm.Config:
    shared = sizes(theirs)
    theirs.ignore("image_size")
    return perceiverlm.Config(
        vocab=theirs.size("vocab_size"),
        length=theirs.size("max_position_embeddings"),
        token_dim=theirs.size("d_model"),
        **shared,
    )


def export_sizes(ours: perceiver.Config | perceiverlm.Config, architecture: str) -> dict[str, Any]:
    for name in ("hidden", "cross_hidden"):
        if getattr(ours, name) % ours.dim:
            raise InputError(
                f"this perceiver cannot be exported: the target format requires {name} to be a multiple of dim",
                got=f"{name} = {getattr(ours, name)}, dim = {ours.dim}",
            )
    if (ours.value_dim or ours.key_dim or ours.dim) != ours.dim:
        raise InputError(
            "this perceiver cannot be exported: the target format requires value_dim = dim",
            got=f"key_dim = {ours.key_dim}, value_dim = {ours.value_dim}, dim = {ours.dim}",
        )
    return {
        "architectures": [architecture],
        "model_type": "perceiver",
        "num_latents": ours.latents,
        "d_latents": ours.dim,
        "num_blocks": ours.repeats,
        "num_self_attends_per_block": ours.depth,
        "num_self_attention_heads": ours.heads,
        "num_cross_attention_heads": ours.cross_heads,
        "qk_channels": ours.key_dim,
        "v_channels": ours.value_dim,
        "self_attention_widening_factor": ours.hidden // ours.dim,
        "cross_attention_widening_factor": ours.cross_hidden // ours.dim,
        "attention_probs_dropout_prob": ours.dropout,
        "hidden_act": THEIR_ACTIVATIONS[ours.activation],
    }


def export_images(ours: perceiver.Config) -> dict[str, Any]:
    learned = ours.positions == "learned"
    return export_sizes(ours, LEARNED if learned else FOURIER) | {
        **({"image_size": ours.image} if learned else {}),
        **default_labels(ours.classes),
    }


def export_text(ours: perceiverlm.Config) -> dict[str, Any]:
    return export_sizes(ours, WORDS) | {
        "vocab_size": ours.vocab,
        "max_position_embeddings": ours.length,
        "d_model": ours.token_dim,
    }


def look(theirs: str, ours: str) -> list[Entry]:
    inner = theirs + "attention.self."
    return [
        Rule(inner + "layernorm1.{p}", ours + "norm.{p}"),
        Rule(inner + "layernorm2.{p}", ours + "context_norm.{p}"),
        Rule(inner + "query.{p}", ours + "look.q.{p}"),
        Rule(inner + "key.{p}", ours + "look.k.{p}"),
        Rule(inner + "value.{p}", ours + "look.v.{p}"),
        Rule(theirs + "attention.output.dense.{p}", ours + "look.out.{p}"),
        Rule(theirs + "layernorm.{p}", ours + "ffn_norm.{p}"),
        Rule(theirs + "mlp.dense1.{p}", ours + "ffn.up.{p}"),
        Rule(theirs + "mlp.dense2.{p}", ours + "ffn.down.{p}"),
    ]


def shared_rules() -> list[Entry]:
    layer, block = "perceiver.encoder.self_attends.{i}.", "latents.blocks.{i}."
    return [
        Rule("perceiver.embeddings.latents", "latents.start"),
        *look("perceiver.encoder.cross_attention.", "latents.cross."),
        Rule(layer + "attention.self.layernorm1.{p}", block + "mixer_residual.norm.{p}"),
        Rule(layer + "attention.self.query.{p}", block + "mixer.q.{p}"),
        Rule(layer + "attention.self.key.{p}", block + "mixer.k.{p}"),
        Rule(layer + "attention.self.value.{p}", block + "mixer.v.{p}"),
        Rule(layer + "attention.output.dense.{p}", block + "mixer.out.{p}"),
        Rule(layer + "layernorm.{p}", block + "ffn_residual.norm.{p}"),
        Rule(layer + "mlp.dense1.{p}", block + "ffn.up.{p}"),
        Rule(layer + "mlp.dense2.{p}", block + "ffn.down.{p}"),
    ]


def image_rules(ours: perceiver.Config, names: Collection[str] | None = None) -> list[Entry]:
    before, after = "perceiver.input_preprocessor.", "perceiver.decoder.decoder."
    table = [
        *shared_rules(),
        *look(after + "decoding_cross_attention.", "decoder."),
        Rule(after + "output_position_encodings.position_embeddings", "query"),
        Rule(after + "final_layer.{p}", "head.{p}"),
    ]
    if ours.positions == "learned":
        flat = (ours.features, ours.channels)
        table += [
            Rule(before + "convnet_1x1.weight", "pixels.weight", Reshape((*flat, 1, 1), flat)),
            Rule(before + "convnet_1x1.bias", "pixels.bias"),
            Rule(before + "position_embeddings.position_embeddings", "positions"),
            Rule(before + "positions_projection.{p}", "placed.{p}"),
        ]
    return table


def text_rules(ours: perceiverlm.Config, names: Collection[str] | None = None) -> list[Entry]:
    before, after = "perceiver.input_preprocessor.", "perceiver.decoder."
    return [
        *shared_rules(),
        *look(after + "decoding_cross_attention.", "decoder."),
        Rule(before + "embeddings.weight", "embed.weight"),
        Rule(before + "position_embeddings.weight", "positions.weight"),
        Rule(after + "output_position_encodings.position_embeddings", "queries.weight"),
        Rule("embedding_decoder.bias", "bias"),
    ]
