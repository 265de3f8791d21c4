"""GPT-1 <-> Hugging Face (model_type openai-gpt)."""

from collections.abc import Collection
from typing import Any

from regard.decode.symbols import BEGIN, END, PAD
from regard.models.gpt import Config

from .defaults import kind_defaults
from .foreign import ForeignConfig
from .gpt2 import conv
from .rules import Dropped, Entry, Rule, Tied

SYMBOLS = {BEGIN: None, END: None, PAD: None}
ACTIVATIONS = {"gelu": "gelu_tanh", "relu": "relu", "silu": "silu", "swish": "silu"}  # their gelu is the tanh form


def config(theirs: ForeignConfig) -> Config:
    theirs.assume(kind_defaults("openai-gpt"))
    theirs.divides("n_head", "n_embd")
    theirs.expect("tie_word_embeddings", True)
    theirs.expect("afn", *ACTIVATIONS)
    theirs.ignore("summary_activation", "summary_first_dropout", "summary_proj_to_labels", "summary_type")
    theirs.ignore("summary_use_proj")
    return Config(
        vocab=theirs.size("vocab_size"),
        length=theirs.size("n_positions"),
        dim=theirs.size("n_embd"),
        depth=theirs.depth("n_layer"),
        heads=theirs.size("n_head"),
        dropout=theirs.share("resid_pdrop"),
        attention_dropout=theirs.share("attn_pdrop"),
        embedding_dropout=theirs.share("embd_pdrop"),
        norm="post",
        eps=theirs.above_zero("layer_norm_epsilon"),
        activation=ACTIVATIONS.get(str(theirs.data["afn"]), "gelu_tanh"),
    )


def export_config(ours: Config) -> dict[str, Any]:
    return {
        "architectures": ["OpenAIGPTLMHeadModel"],
        "model_type": "openai-gpt",
        "vocab_size": ours.vocab,
        "n_positions": ours.length,
        "n_embd": ours.dim,
        "n_layer": ours.depth,
        "n_head": ours.heads,
        "resid_pdrop": ours.dropout,
        "attn_pdrop": ours.attention_dropout,
        "embd_pdrop": ours.embedding_dropout,
        "layer_norm_epsilon": ours.eps,
        "afn": next((theirs for theirs, mine in ACTIVATIONS.items() if mine == ours.activation), "gelu"),
    }


def rules(ours: Config, names: Collection[str] | None = None) -> list[Entry]:
    prefix = "" if names is not None and not any(name.startswith("transformer.") for name in names) else "transformer."
    return [
        Rule(prefix + "tokens_embed.weight", "embed.weight"),
        Rule(prefix + "positions_embed.weight", "positions.weight"),
        Dropped(prefix + "position_ids", "a buffer that counts 0, 1, 2 ..."),
        *conv(prefix + "h.{i}.", "blocks.{i}."),
        Tied("lm_head.weight", "embed.weight"),
    ]
