"""FNet <-> Hugging Face (model_type fnet): the encoder alone, or with one of its heads."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from regard.decode.symbols import BEGIN, END, PAD
from regard.models.bert import Config

from .bert import HEADS, embeddings, export_sizes, guesses, heads_of, labels_of
from .defaults import kind_defaults
from .foreign import ForeignConfig
from .rules import Entry, Rule

SYMBOLS = {PAD: 3, BEGIN: 1, END: 2}
ARCHITECTURES = {
    "none": "FNetModel",
    "words": "FNetForMaskedLM",
    "pretraining": "FNetForPreTraining",
    "follows": "FNetForNextSentencePrediction",
    "label": "FNetForSequenceClassification",
    "tags": "FNetForTokenClassification",
    "span": "FNetForQuestionAnswering",
}


def config(theirs: ForeignConfig) -> Config:
    """Read the config. FNet has no attention heads, so the format has no such key; ours may have one for hybrid
    models."""
    theirs.assume(kind_defaults("fnet"))
    theirs.expect("tie_word_embeddings", True)
    theirs.ignore(
        "use_tpu_fourier_optimizations", "tpu_short_seq_length", "actual_seq_length"
    )  # another way to the same numbers
    head, classes = labels_of(theirs)
    dim = theirs.size("hidden_size")
    return Config(
        vocab=theirs.size("vocab_size"),
        length=theirs.size("max_position_embeddings"),
        segments=theirs.size("type_vocab_size"),
        narrow=dim,
        dim=dim,
        depth=theirs.depth("num_hidden_layers"),
        heads=theirs.optional_size("num_attention_heads") or usual(dim),
        hidden=theirs.size("intermediate_size"),
        dropout=theirs.share("hidden_dropout_prob"),
        attention_dropout=0.0,
        eps=theirs.above_zero("layer_norm_eps"),
        activation=theirs.activation("hidden_act"),
        head=head,
        classes=classes,
        attention="fourier",
    )


def usual(dim: int) -> int:
    """One for every 64 features, as BERT has them."""
    return 1 if dim % 64 else dim // 64


def complete(ours: Config, names: Collection[str]) -> Config:
    head = heads_of(ours, names, "cls.predictions.", "cls.seq_relationship.")
    return replace(ours, pooler=any("pooler.dense." in name for name in names), head=head)


def export_config(ours: Config) -> dict[str, Any]:
    told = export_sizes(ours, "fnet", ARCHITECTURES[ours.head])
    unsaid = ["attention_probs_dropout_prob", *(["num_attention_heads"] if ours.heads == usual(ours.dim) else [])]
    return {key: value for key, value in told.items() if key not in unsaid}


def rules(ours: Config, names: Collection[str] | None = None) -> list[Entry]:
    whole = any(x.startswith("fnet.") for x in names) if names is not None else ours.head != "none"
    prefix = "fnet." if whole else ""
    layer, block = prefix + "encoder.layer.{i}.", "blocks.{i}."
    table: list[Entry] = [
        *embeddings(prefix),
        Rule(prefix + "embeddings.token_type_embeddings.weight", "segments.weight"),
        Rule(prefix + "embeddings.LayerNorm.{p}", "norm.{p}"),
        Rule(prefix + "embeddings.projection.{p}", "widen.{p}"),
        Rule(layer + "fourier.output.LayerNorm.{p}", block + "mixer_residual.norm.{p}"),
        Rule(layer + "intermediate.dense.{p}", block + "ffn.up.{p}"),
        Rule(layer + "output.dense.{p}", block + "ffn.down.{p}"),
        Rule(layer + "output.LayerNorm.{p}", block + "ffn_residual.norm.{p}"),
    ]
    if ours.pooler:
        table.append(Rule(prefix + "pooler.dense.{p}", "pooler.{p}"))
    table += guesses(ours.head, [Rule("cls.predictions.transform.LayerNorm.{p}", "words.norm.{p}")])
    return table + HEADS.get(ours.head, [])
