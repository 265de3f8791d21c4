"""DistilBERT <-> Hugging Face (model_type distilbert): the encoder alone, or with one of its heads."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from regard.decode.symbols import PAD
from regard.models.bert import Config

from .bert import HEADS, classified, embeddings, heads_of, labels_of
from .defaults import kind_defaults
from .foreign import THEIR_ACTIVATIONS, ForeignConfig
from .rules import Entry, Rule, Tied

SYMBOLS = {PAD: 0}
ARCHITECTURES = {
    "none": "DistilBertModel",
    "words": "DistilBertForMaskedLM",
    "label": "DistilBertForSequenceClassification",
    "tags": "DistilBertForTokenClassification",
    "span": "DistilBertForQuestionAnswering",
}


def config(theirs: ForeignConfig) -> Config:
    theirs.assume(kind_defaults("distilbert"))
    theirs.divides("n_heads", "dim")
    theirs.expect("sinusoidal_pos_embds", False, True)  # where they come from; in the file is what they are
    theirs.expect("tie_word_embeddings", True)
    theirs.ignore("qa_dropout", "seq_classif_dropout", "tie_weights_")
    head, classes = labels_of(theirs)
    return Config(
        vocab=theirs.size("vocab_size"),
        length=theirs.size("max_position_embeddings"),
        segments=0,
        dim=theirs.size("dim"),
        depth=theirs.depth("n_layers"),
        heads=theirs.size("n_heads"),
        hidden=theirs.size("hidden_dim"),
        dropout=theirs.share("dropout"),
        attention_dropout=theirs.share("attention_dropout"),
        activation=theirs.activation("activation"),
        pooler=head == "label",
        pooling="relu" if head == "label" else "tanh",
        head=head,
        classes=classes,
    )


def complete(ours: Config, names: Collection[str]) -> Config:
    head = heads_of(ours, names, "vocab_transform.")
    pooler = any(name.startswith("pre_classifier.") for name in names)
    return replace(ours, pooler=pooler, pooling="relu" if pooler else "tanh", head=head)


def export_config(ours: Config) -> dict[str, Any]:
    return {
        "architectures": [ARCHITECTURES.get(ours.head, "DistilBertModel")],
        "model_type": "distilbert",
        "vocab_size": ours.vocab,
        "max_position_embeddings": ours.length,
        "dim": ours.dim,
        "n_layers": ours.depth,
        "n_heads": ours.heads,
        "hidden_dim": ours.hidden,
        "dropout": ours.dropout,
        "attention_dropout": ours.attention_dropout,
        "activation": THEIR_ACTIVATIONS[ours.activation],
        **classified(ours),
    }


def rules(ours: Config, names: Collection[str] | None = None) -> list[Entry]:
    whole = any(x.startswith("distilbert.") for x in names) if names is not None else ours.head != "none"
    prefix = "distilbert." if whole else ""
    layer, block = prefix + "transformer.layer.{i}.", "blocks.{i}."
    table: list[Entry] = [
        *embeddings(prefix),
        Rule(prefix + "embeddings.LayerNorm.{p}", "norm.{p}"),
        *(Rule(f"{layer}attention.{x}_lin.{{p}}", f"{block}mixer.{x}.{{p}}") for x in "qkv"),
        Rule(layer + "attention.out_lin.{p}", block + "mixer.out.{p}"),
        Rule(layer + "sa_layer_norm.{p}", block + "mixer_residual.norm.{p}"),
        Rule(layer + "ffn.lin1.{p}", block + "ffn.up.{p}"),
        Rule(layer + "ffn.lin2.{p}", block + "ffn.down.{p}"),
        Rule(layer + "output_layer_norm.{p}", block + "ffn_residual.norm.{p}"),
    ]
    if ours.pooler:
        table.append(Rule("pre_classifier.{p}", "pooler.{p}"))
    if ours.head == "words":
        table += [
            Rule("vocab_transform.{p}", "words.dense.{p}"),
            Rule("vocab_layer_norm.{p}", "words.norm.{p}"),
            Rule("vocab_projector.bias", "words.bias"),
            Tied("vocab_projector.weight", "embed.weight"),
        ]
    return table + HEADS.get(ours.head, [])
