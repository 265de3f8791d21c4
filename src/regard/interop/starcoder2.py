"""A GPT with LayerNorm and rotary positions <-> Hugging Face's Starcoder2 (model_type starcoder2)."""

from collections.abc import Collection
from typing import Any

from regard.decode.symbols import BEGIN, END, PAD
from regard.models.gpt import Config

from .defaults import kind_defaults
from .foreign import THEIR_ACTIVATIONS, ForeignConfig
from .llama import banded, rotary
from .rules import Entry, Rule, Tied

SYMBOLS = {BEGIN: 50256, END: 50256, PAD: None}


def config(theirs: ForeignConfig) -> Config:
    theirs.assume(kind_defaults("starcoder2"))
    theirs.divides("num_attention_heads", "hidden_size")
    theirs.divides("num_key_value_heads", "num_attention_heads")
    return Config(
        vocab=theirs.size("vocab_size"),
        length=theirs.size("max_position_embeddings"),
        dim=theirs.size("hidden_size"),
        depth=theirs.depth("num_hidden_layers"),
        heads=theirs.size("num_attention_heads"),
        groups=theirs.size("num_key_value_heads"),
        hidden=theirs.size("intermediate_size"),
        dropout=theirs.share("residual_dropout"),
        attention_dropout=theirs.share("attention_dropout"),
        embedding_dropout=theirs.share("embedding_dropout"),
        eps=theirs.above_zero("norm_epsilon"),
        rotary=rotary(theirs),
        activation=theirs.activation("hidden_act"),
        biases="all" if theirs.take("use_bias", bool) else "none",
        tied=theirs.take("tie_word_embeddings", bool),
        attention=banded(theirs),
    )


def export_config(ours: Config) -> dict[str, Any]:
    return {
        "architectures": ["Starcoder2ForCausalLM"],
        "model_type": "starcoder2",
        "vocab_size": ours.vocab,
        "max_position_embeddings": ours.length,
        "hidden_size": ours.dim,
        "num_hidden_layers": ours.depth,
        "num_attention_heads": ours.heads,
        "num_key_value_heads": ours.groups or ours.heads,
        "intermediate_size": ours.hidden or 4 * ours.dim,
        "hidden_act": THEIR_ACTIVATIONS[ours.activation].replace("gelu_new", "gelu_pytorch_tanh"),
        "norm_epsilon": ours.eps,
        "rope_parameters": {"rope_theta": ours.rotary or 10000.0, "rope_type": "default"},
        "sliding_window": ours.attention.get("window", 256) if isinstance(ours.attention, dict) else None,
        "residual_dropout": ours.dropout,
        "attention_dropout": ours.attention_dropout,
        "embedding_dropout": ours.embedding_dropout,
        "use_bias": ours.biases == "all",
        "tie_word_embeddings": ours.tied,
    }


def example() -> Config:
    return Config(vocab=13, length=12, dim=16, depth=2, heads=4, hidden=24, rotary=10000.0, attention_dropout=0.0)


def rules(ours: Config, names: Collection[str] | None = None) -> list[Entry]:
    layer, block = "model.layers.{i}.", "blocks.{i}."
    head: Entry = Tied("lm_head.weight", "embed.weight") if ours.tied else Rule("lm_head.weight", "head.weight")
    return [
        Rule("model.embed_tokens.weight", "embed.weight"),
        *(Rule(f"{layer}self_attn.{x}_proj.{{p}}", f"{block}mixer.{x}.{{p}}") for x in "qkv"),
        Rule(layer + "self_attn.o_proj.{p}", block + "mixer.out.{p}"),
        Rule(layer + "mlp.c_fc.{p}", block + "ffn.up.{p}"),
        Rule(layer + "mlp.c_proj.{p}", block + "ffn.down.{p}"),
        Rule(layer + "input_layernorm.{p}", block + "mixer_residual.norm.{p}"),
        Rule(layer + "post_attention_layernorm.{p}", block + "ffn_residual.norm.{p}"),
        Rule("model.norm.{p}", "norm.{p}"),
        head,
    ]
