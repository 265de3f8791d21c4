"""The Transformer <-> Hugging Face's Marian (model_type marian): opus-mt and its kin."""

from collections.abc import Callable, Collection
from typing import Any

import torch

from regard.decode.symbols import END, FIRST, LAST, PAD
from regard.models.transformer import Config
from regard.nn.positions import sinusoid

from .defaults import kind_defaults
from .foreign import THEIR_ACTIVATIONS, ForeignConfig
from .rules import Entry, Known, Rule, Tied
from .tensor_ops import Reshape

SYMBOLS = {FIRST: 58100, END: 0, LAST: 0, PAD: 58100}


def config(theirs: ForeignConfig) -> Config:
    theirs.assume(kind_defaults("marian"))
    for key, value in {
        "normalize_before": False,
        "normalize_embedding": False,
        "add_final_layer_norm": False,
        "add_bias_logits": False,
        "extra_pos_embeddings": 0,
        "static_position_embeddings": True,
        "share_encoder_decoder_embeddings": True,
    }.items():
        theirs.expect(key, value)
    vocab = theirs.size("vocab_size")
    theirs.same("decoder_vocab_size", "vocab_size", None)
    theirs.ignore("max_position_embeddings")
    return Config(**settings(theirs), vocab=vocab, norm="post")


def settings(theirs: ForeignConfig) -> dict[str, Any]:
    """What Marian's config shares with its kin: all but the vocabulary and where the norms stand."""
    theirs.expect("tie_word_embeddings", True)
    theirs.divides("encoder_attention_heads", "d_model")
    found: dict[str, Any] = {
        "dim": theirs.size("d_model"),
        "depth": theirs.depth("encoder_layers"),
        "decoder_depth": theirs.depth("decoder_layers"),
        "heads": theirs.size("encoder_attention_heads"),
        "hidden": theirs.size("encoder_ffn_dim"),
        "dropout": theirs.share("dropout"),
        "attention_dropout": theirs.share("attention_dropout"),
        "hidden_dropout": theirs.share("activation_dropout"),
        "activation": theirs.activation("activation_function"),
        "waves": "halves",
        "scaled": theirs.take("scale_embedding", bool),
        "output_bias": True,
    }
    theirs.same("decoder_attention_heads", "encoder_attention_heads")
    theirs.same("decoder_ffn_dim", "encoder_ffn_dim")
    theirs.ignore("encoder_layerdrop", "decoder_layerdrop", "classif_dropout")
    return found


def export_config(ours: Config) -> dict[str, Any]:
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "decoder_vocab_size": ours.vocab,
        **export_settings(ours),
        "share_encoder_decoder_embeddings": True,
    }


def export_settings(ours: Config) -> dict[str, Any]:
    depth = ours.depth if ours.decoder_depth is None else ours.decoder_depth
    return {
        "vocab_size": ours.vocab,
        "d_model": ours.dim,
        "encoder_layers": ours.depth,
        "decoder_layers": depth,
        "encoder_attention_heads": ours.heads,
        "decoder_attention_heads": ours.heads,
        "encoder_ffn_dim": ours.hidden,
        "decoder_ffn_dim": ours.hidden,
        "dropout": ours.dropout,
        "attention_dropout": ours.attention_dropout,
        "activation_dropout": ours.hidden_dropout,
        "activation_function": THEIR_ACTIVATIONS[ours.activation],
        "scale_embedding": ours.scaled,
        "tie_word_embeddings": True,
        "is_encoder_decoder": True,
    }


def rules(ours: Config, names: Collection[str] | None = None) -> list[Entry]:
    return [
        *weights(ours),
        *(Known(f"model.{stack}.embed_positions.weight", position_waves(ours)) for stack in ("encoder", "decoder")),
    ]


def position_waves(ours: Config) -> Callable[[torch.Size], torch.Tensor]:
    """What computes a table of sinusoids of a given shape."""

    def make(shape: torch.Size) -> torch.Tensor:
        fits = len(shape) == 2 and shape[1] == ours.dim  # a shape from a file may be anything
        return sinusoid(torch.arange(shape[0] if fits else 0), ours.dim, ours.waves)

    return make


def weights(ours: Config) -> list[Entry]:
    """All that is learned."""
    table: list[Entry] = [
        Rule("model.shared.weight", "embed.weight"),
        Rule("final_logits_bias", "output_bias", Reshape((1, ours.vocab), (ours.vocab,))),
        Tied("lm_head.weight", "embed.weight"),
    ]
    for stack in ("encoder", "decoder"):
        layer, block = f"model.{stack}.layers." + "{i}.", stack + ".{i}."
        table += [
            Tied(f"model.{stack}.embed_tokens.weight", "embed.weight"),
            *attention(layer + "self_attn", block + "mixer"),
            Rule(layer + "fc1.{p}", block + "ffn.up.{p}"),
            Rule(layer + "fc2.{p}", block + "ffn.down.{p}"),
            Rule(layer + "final_layer_norm.{p}", block + "ffn_residual.norm.{p}"),
        ]
    return [*table, *attention("model.decoder.layers.{i}.encoder_attn", "decoder.{i}.cross")]


def attention(theirs: str, ours: str) -> list[Entry]:
    return [
        Rule(theirs + ".q_proj.{p}", ours + ".q.{p}"),
        Rule(theirs + ".k_proj.{p}", ours + ".k.{p}"),
        Rule(theirs + ".v_proj.{p}", ours + ".v.{p}"),
        Rule(theirs + ".out_proj.{p}", ours + ".out.{p}"),
        Rule(theirs + "_layer_norm.{p}", ours + "_residual.norm.{p}"),
    ]
