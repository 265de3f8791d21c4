"""ALBERT <-> Hugging Face (model_type albert): the encoder alone, or with one of its heads."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from regard.decode.symbols import BEGIN, END, PAD
from regard.models.bert import Config

from .bert import HEADS, embeddings, export_sizes, heads_of, sizes
from .defaults import kind_defaults
from .foreign import ForeignConfig
from .rules import Entry, Rule, Tied

SYMBOLS = {PAD: 0, BEGIN: 2, END: 3}
ARCHITECTURES = {
    "none": "AlbertModel",
    "words": "AlbertForMaskedLM",
    "pretraining": "AlbertForPreTraining",
    "label": "AlbertForSequenceClassification",
    "tags": "AlbertForTokenClassification",
    "span": "AlbertForQuestionAnswering",
}


def config(theirs: ForeignConfig) -> Config:
    theirs.assume(kind_defaults("albert"))
    theirs.expect("num_hidden_groups", 1)
    theirs.expect("inner_group_num", 1)
    theirs.expect("tie_word_embeddings", True)
    theirs.ignore("classifier_dropout_prob", "down_scale_factor", "gap_size", "net_structure_type", "num_memory_blocks")
    theirs.ignore("layers_to_keep")
    narrow = theirs.size("embedding_size")
    return replace(sizes(theirs, theirs.size("num_hidden_layers")), narrow=narrow, shared=True)


def complete(ours: Config, names: Collection[str]) -> Config:
    """Determine the heads from the tensors, and from the config where two heads have the same tensor names."""
    head = heads_of(ours, names, "predictions.", "sop_classifier.")
    head = "none" if head == "follows" else head  # of which alone they have no model
    return replace(ours, pooler=any("pooler." in name for name in names), head=head)


def export_config(ours: Config) -> dict[str, Any]:
    return export_sizes(ours, "albert", ARCHITECTURES.get(ours.head, "AlbertModel")) | {
        "embedding_size": ours.narrow or ours.dim
    }


def rules(ours: Config, names: Collection[str] | None = None) -> list[Entry]:
    whole = any(x.startswith("albert.") for x in names) if names is not None else ours.head != "none"
    prefix = "albert." if whole else ""
    layer, block = prefix + "encoder.albert_layer_groups.0.albert_layers.0.", "blocks.0."
    table: list[Entry] = [
        *embeddings(prefix),
        Rule(prefix + "embeddings.token_type_embeddings.weight", "segments.weight"),
        Rule(prefix + "embeddings.LayerNorm.{p}", "norm.{p}"),
        Rule(prefix + "encoder.embedding_hidden_mapping_in.{p}", "widen.{p}"),
        Rule(layer + "attention.query.{p}", block + "mixer.q.{p}"),
        Rule(layer + "attention.key.{p}", block + "mixer.k.{p}"),
        Rule(layer + "attention.value.{p}", block + "mixer.v.{p}"),
        Rule(layer + "attention.dense.{p}", block + "mixer.out.{p}"),
        Rule(layer + "attention.LayerNorm.{p}", block + "mixer_residual.norm.{p}"),
        Rule(layer + "ffn.{p}", block + "ffn.up.{p}"),
        Rule(layer + "ffn_output.{p}", block + "ffn.down.{p}"),
        Rule(layer + "full_layer_layer_norm.{p}", block + "ffn_residual.norm.{p}"),
    ]
    if ours.pooler:
        table.append(Rule(prefix + "pooler.{p}", "pooler.{p}"))
    if ours.head in ("words", "pretraining"):
        table += [
            Rule("predictions.dense.{p}", "words.dense.{p}"),
            Rule("predictions.LayerNorm.{p}", "words.norm.{p}"),
            Rule("predictions.bias", "words.bias"),
            Tied("predictions.decoder.weight", "embed.weight"),
            Tied("predictions.decoder.bias", "words.bias"),
        ]
    if ours.head == "pretraining":
        table.append(Rule("sop_classifier.classifier.{p}", "follows.{p}"))
    return table + HEADS.get(ours.head, [])
