"""GPT-2 <-> Hugging Face (model_type gpt2)."""

from collections.abc import Collection
from typing import Any

from regard.decode.symbols import BEGIN, END, PAD
from regard.models.gpt import Config

from .defaults import kind_defaults
from .foreign import THEIR_ACTIVATIONS, ForeignConfig
from .rules import Dropped, Entry, Rule, Tied
from .tensor_ops import Chain, Chunk, Transpose

ARCHITECTURE = "GPT2LMHeadModel"
SYMBOLS = {BEGIN: 50256, END: 50256, PAD: None}


def config(theirs: ForeignConfig) -> Config:
    theirs.assume(kind_defaults("gpt2"))
    theirs.divides("n_head", "n_embd")
    theirs.expect("scale_attn_weights", True)
    theirs.expect("scale_attn_by_inverse_layer_idx", False)
    theirs.expect("reorder_and_upcast_attn", False, True)  # the same numbers in float32
    theirs.ignore("summary_activation", "summary_first_dropout", "summary_proj_to_labels", "summary_type")
    theirs.ignore("summary_use_proj")
    return Config(
        vocab=theirs.size("vocab_size"),
        length=theirs.size("n_positions"),
        dim=theirs.size("n_embd"),
        depth=theirs.depth("n_layer"),
        heads=theirs.size("n_head"),
        hidden=theirs.optional_size("n_inner"),
        dropout=theirs.share("resid_pdrop"),
        attention_dropout=theirs.share("attn_pdrop"),
        embedding_dropout=theirs.share("embd_pdrop"),
        eps=theirs.above_zero("layer_norm_epsilon"),
        activation=theirs.activation("activation_function"),
        tied=theirs.take("tie_word_embeddings", bool),
    )


def export_config(ours: Config) -> dict[str, Any]:
    return {
        "architectures": [ARCHITECTURE],
        "model_type": "gpt2",
        "vocab_size": ours.vocab,
        "n_positions": ours.length,
        "n_embd": ours.dim,
        "n_layer": ours.depth,
        "n_head": ours.heads,
        "n_inner": ours.hidden,
        "resid_pdrop": ours.dropout,
        "attn_pdrop": ours.attention_dropout,
        "embd_pdrop": ours.embedding_dropout,
        "layer_norm_epsilon": ours.eps,
        "activation_function": THEIR_ACTIVATIONS[ours.activation],
        "tie_word_embeddings": ours.tied,
    }


def rules(ours: Config, names: Collection[str] | None = None) -> list[Entry]:
    """The published gpt2 files have names without the prefix ``transformer.``; ``names`` determines which form it
    is."""
    prefix = "" if names is not None and not any(name.startswith("transformer.") for name in names) else "transformer."
    head: Entry = Tied("lm_head.weight", "embed.weight") if ours.tied else Rule("lm_head.weight", "head.weight")
    return [
        Rule(prefix + "wte.weight", "embed.weight"),
        Rule(prefix + "wpe.weight", "positions.weight"),
        *conv(prefix + "h.{i}.", "blocks.{i}."),
        Rule(prefix + "ln_f.{p}", "norm.{p}"),
        head,
    ]


def conv(layer: str, block: str) -> list[Entry]:
    """A block of GPT-1 or GPT-2. Their ``Conv1D`` keeps its matrix the other way round."""
    qkv = (block + "mixer.q.{p}", block + "mixer.k.{p}", block + "mixer.v.{p}")
    return [
        Rule(layer + "ln_1.{p}", block + "mixer_residual.norm.{p}"),
        Rule(layer + "attn.c_attn.{p}", qkv, Chain(Transpose(), Chunk(3))),
        Rule(layer + "attn.c_proj.{p}", block + "mixer.out.{p}", Transpose()),
        Dropped(layer + "attn.bias", "a buffer with the causal mask, which follows from the length"),
        Dropped(layer + "attn.masked_bias", "a buffer with the number that stood for minus infinity"),
        Rule(layer + "ln_2.{p}", block + "ffn_residual.norm.{p}"),
        Rule(layer + "mlp.c_fc.{p}", block + "ffn.up.{p}", Transpose()),
        Rule(layer + "mlp.c_proj.{p}", block + "ffn.down.{p}", Transpose()),
    ]
