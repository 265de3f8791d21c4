"""Today's decoders <-> Hugging Face: Llama, and its kin that differ in a band (Mistral) or in biases (Qwen2)."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from regard.decode.symbols import BEGIN, END, PAD
from regard.models.gpt import LLAMA, Biases, Config
from regard.nn.mechanisms import Choice

from .defaults import ReferenceDefaults, kind_defaults
from .foreign import THEIR_ACTIVATIONS, ForeignConfig
from .rules import Dropped, Entry, Rule, Tied

SYMBOLS = {BEGIN: 1, END: 2, PAD: None}
ROPE_BASE = 10000.0  # where nothing else is told


def common(theirs: ForeignConfig, biases: Biases, attention: Choice) -> Config:
    """What they all have."""
    heads = theirs.size("num_attention_heads")
    width = theirs.optional_size("head_dim")
    if width is None:
        theirs.divides("num_attention_heads", "hidden_size")
    groups = theirs.optional_size("num_key_value_heads")
    if groups is not None:
        theirs.divides("num_key_value_heads", "num_attention_heads")
    return Config(
        vocab=theirs.size("vocab_size"),
        length=theirs.size("max_position_embeddings"),
        dim=theirs.size("hidden_size"),
        depth=theirs.depth("num_hidden_layers"),
        heads=heads,
        head_dim=width,
        groups=heads if groups is None else groups,
        hidden=theirs.size("intermediate_size"),
        dropout=0.0,
        attention_dropout=theirs.share("attention_dropout"),
        embedding_dropout=0.0,
        normed="rms",
        eps=theirs.above_zero("rms_norm_eps"),
        rotary=rotary(theirs),
        activation=theirs.activation("hidden_act"),
        gated=True,
        biases=biases,
        tied=theirs.take("tie_word_embeddings", bool),
        attention=attention,
    )


def rotary(theirs: ForeignConfig) -> float:
    """The base of the rotary positions: in a table today, a separate key in older files, which still holds where the
    table has none. The table's older name wins over the newer. Scaled positions are not supported."""
    theirs.ignore("rope_parameters", "rope_scaling", "rope_theta")
    name = "rope_scaling" if theirs.data.get("rope_scaling") else "rope_parameters"
    table = theirs.data.get(name) or {}
    if not isinstance(table, dict):
        theirs.guess(f"{name} = {table!r}"[:100] + " is not a table")
        table = {}
    inner = ForeignConfig(table)
    inner.assume(ReferenceDefaults({"rope_theta": theirs.data.get("rope_theta", ROPE_BASE)}))
    inner.ignore("type")
    inner.data["rope_type"] = table.get("rope_type", table.get("type", "default"))
    inner.expect("rope_type", "default")
    inner.expect("partial_rotary_factor", 1, None)
    base = inner.above_zero("rope_theta")
    for problem in inner.finish():
        theirs.guess(f"{name}: {problem}")
    return base


def config(theirs: ForeignConfig) -> Config:
    theirs.assume(kind_defaults("llama"))
    theirs.ignore("pretraining_tp")  # how a matrix was divided among devices
    attention, hidden = theirs.take("attention_bias", bool), theirs.take("mlp_bias", bool)
    if hidden and not attention:
        theirs.guess("mlp_bias = True is not supported without attention_bias = True")
    return common(theirs, "all" if hidden else "attention" if attention else "none", "softmax")


def mistral(theirs: ForeignConfig) -> Config:
    theirs.assume(kind_defaults("mistral"))
    return common(theirs, "none", banded(theirs))


def banded(theirs: ForeignConfig) -> Choice:
    """Softmax, over a window if there is one."""
    window = theirs.optional_size("sliding_window")
    return "softmax" if window is None else {"kind": "local", "window": window}


def qwen2(theirs: ForeignConfig) -> Config:
    theirs.assume(kind_defaults("qwen2"))
    theirs.expect("use_sliding_window", False)
    theirs.ignore("sliding_window", "max_window_layers", "layer_types")
    kinds = theirs.data.get("layer_types") or []
    if not isinstance(kinds, list) or any(kind != "full_attention" for kind in kinds):
        theirs.guess("layer_types is supported only if all are 'full_attention'")
    return common(theirs, "qkv", "softmax")


def export_common(ours: Config, name: str, kind: str) -> dict[str, Any]:
    return {
        "architectures": [name],
        "model_type": kind,
        "vocab_size": ours.vocab,
        "max_position_embeddings": ours.length,
        "hidden_size": ours.dim,
        "num_hidden_layers": ours.depth,
        "num_attention_heads": ours.heads,
        "num_key_value_heads": ours.groups or ours.heads,
        "intermediate_size": ours.hidden or 4 * ours.dim,
        "hidden_act": THEIR_ACTIVATIONS[ours.activation],
        "rms_norm_eps": ours.eps,
        "rope_parameters": {"rope_theta": ours.rotary or LLAMA.rotary, "rope_type": "default"},
        "attention_dropout": ours.attention_dropout,
        "tie_word_embeddings": ours.tied,
    } | ({} if ours.head_dim is None else {"head_dim": ours.head_dim})


def export_config(ours: Config) -> dict[str, Any]:
    biases = {"attention_bias": ours.biases in ("all", "attention"), "mlp_bias": ours.biases == "all"}
    return export_common(ours, "LlamaForCausalLM", "llama") | biases


def export_mistral(ours: Config) -> dict[str, Any]:
    window = ours.attention.get("window", 256) if isinstance(ours.attention, dict) else None
    return export_common(ours, "MistralForCausalLM", "mistral") | {"sliding_window": window}


def export_qwen2(ours: Config) -> dict[str, Any]:
    return export_common(ours, "Qwen2ForCausalLM", "qwen2") | {"use_sliding_window": False}


def complete(ours: Config, names: Collection[str]) -> Config:
    """A bare decoder (LlamaModel) has no output matrix: the embedding takes its place, as in a GPT2Model."""
    alone = not any(name.startswith(("model.", "lm_head.")) for name in names)
    return replace(ours, tied=True) if alone else ours


def rules(ours: Config, names: Collection[str] | None = None) -> list[Entry]:
    """A decoder alone has no ``model.`` before its names."""
    prefix = "" if names is not None and not any(name.startswith("model.") for name in names) else "model."
    layer, block = prefix + "layers.{i}.", "blocks.{i}."
    head: Entry = Tied("lm_head.weight", "embed.weight") if ours.tied else Rule("lm_head.weight", "head.weight")
    return [
        Rule(prefix + "embed_tokens.weight", "embed.weight"),
        *(Rule(f"{layer}self_attn.{x}_proj.{{p}}", f"{block}mixer.{x}.{{p}}") for x in "qkv"),
        Rule(layer + "self_attn.o_proj.{p}", block + "mixer.out.{p}"),
        Dropped(layer + "self_attn.rotary_emb.inv_freq", "a buffer that follows from the base"),
        *(Rule(f"{layer}mlp.{x}_proj.{{p}}", f"{block}ffn.{x}.{{p}}") for x in ("gate", "up", "down")),
        Rule(layer + "input_layernorm.weight", block + "mixer_residual.norm.weight"),
        Rule(layer + "post_attention_layernorm.weight", block + "ffn_residual.norm.weight"),
        Rule(prefix + "norm.weight", "norm.weight"),
        head,
    ]
