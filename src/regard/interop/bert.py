"""BERT <-> Hugging Face (model_type bert): the encoder alone, or with one of its heads."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from regard.decode.symbols import PAD
from regard.errors import InputError
from regard.models.bert import Config, Head

from .defaults import kind_defaults
from .foreign import THEIR_ACTIVATIONS, ForeignConfig, default_labels
from .rules import Dropped, Entry, Rule, Tied

SYMBOLS = {PAD: 0}
ARCHITECTURES = {
    "none": "BertModel",
    "words": "BertForMaskedLM",
    "pretraining": "BertForPreTraining",
    "follows": "BertForNextSentencePrediction",
    "label": "BertForSequenceClassification",
    "tags": "BertForTokenClassification",
    "span": "BertForQuestionAnswering",
}


def config(theirs: ForeignConfig) -> Config:
    theirs.assume(kind_defaults("bert"))
    theirs.expect("tie_word_embeddings", True)
    theirs.ignore("directionality", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers")
    theirs.ignore("pooler_size_per_head", "pooler_type")
    return sizes(theirs, theirs.depth("num_hidden_layers"))


def sizes(theirs: ForeignConfig, depth: int) -> Config:
    """The config keys shared by BERT and ALBERT, whose layers are one."""
    theirs.divides("num_attention_heads", "hidden_size")
    head, classes = labels_of(theirs)
    return Config(
        vocab=theirs.size("vocab_size"),
        length=theirs.size("max_position_embeddings"),
        segments=theirs.size("type_vocab_size"),
        dim=theirs.size("hidden_size"),
        depth=depth,
        heads=theirs.size("num_attention_heads"),
        hidden=theirs.size("intermediate_size"),
        dropout=theirs.share("hidden_dropout_prob"),
        attention_dropout=theirs.share("attention_probs_dropout_prob"),
        eps=theirs.above_zero("layer_norm_eps"),
        activation=theirs.activation("hidden_act"),
        head=head,
        classes=classes,
    )


def labels_of(theirs: ForeignConfig) -> tuple[Head, int]:
    """The head by the architecture name, where the tensors do not determine it, and the number of labels."""
    kind = theirs.architecture()
    head: Head = "tags" if kind.endswith("TokenClassification") else "none"
    head = "label" if kind.endswith("SequenceClassification") else head
    return head, theirs.classes(least=1) if head != "none" else 2


def heads_of(ours: Config, names: Collection[str], words: str, follows: str | None = None) -> Head:
    """Determine the heads from the tensors, and from the config where two heads have the same tensor names."""

    def there(prefix: str) -> bool:
        return any(name.startswith(prefix) for name in names)

    if there(words):
        return "pretraining" if follows is not None and there(follows) else "words"
    if follows is not None and there(follows):
        return "follows"
    if there("qa_outputs."):
        return "span"
    return ours.head if there("classifier.") else "none"


def complete(ours: Config, names: Collection[str]) -> Config:
    head = heads_of(ours, names, "cls.predictions.", "cls.seq_relationship.")
    pooler = head in ("pretraining", "follows", "label") or any(
        "pooler.dense." in name for name in names
    )  # they read the pooler
    return replace(ours, pooler=pooler, head=head)


def classified(ours: Config) -> dict[str, Any]:
    """The labels, by number: names are not kept yet."""
    if ours.head not in ("label", "tags"):
        return {}
    return default_labels(ours.classes)


def export_config(ours: Config) -> dict[str, Any]:
    if ours.head in ("words", "tags", "span") and ours.pooler:
        raise InputError(
            "the Hugging Face model with this head has no pooler",
            got=ours.head,
            fix="build the model with pooler=False",
        )
    return export_sizes(ours, "bert", ARCHITECTURES[ours.head])


def export_sizes(ours: Config, kind: str, architecture: str) -> dict[str, Any]:
    """The way back from ``sizes``."""
    return {
        "architectures": [architecture],
        "model_type": kind,
        "vocab_size": ours.vocab,
        "max_position_embeddings": ours.length,
        "type_vocab_size": ours.segments,
        "hidden_size": ours.dim,
        "num_hidden_layers": ours.depth,
        "num_attention_heads": ours.heads,
        "intermediate_size": ours.hidden,
        "hidden_dropout_prob": ours.dropout,
        "attention_probs_dropout_prob": ours.attention_dropout,
        "layer_norm_eps": ours.eps,
        "hidden_act": THEIR_ACTIVATIONS[ours.activation],
        **classified(ours),
    }


def rules(ours: Config, names: Collection[str] | None = None) -> list[Entry]:
    """A bare encoder has no ``bert.`` before its names; files from TensorFlow call a norm's weights gamma and beta."""
    prefix = (
        "bert." if (any(x.startswith("bert.") for x in names) if names is not None else ours.head != "none") else ""
    )
    gamma = names is not None and any(name.endswith("LayerNorm.gamma") for name in names)
    spelled = {"weight": "gamma", "bias": "beta"} if gamma else {"weight": "weight", "bias": "bias"}
    layer, block = prefix + "encoder.layer.{i}.", "blocks.{i}."

    def norm(theirs: str, ours: str) -> list[Entry]:
        return [Rule(f"{theirs}LayerNorm.{their}", f"{ours}norm.{our}") for our, their in spelled.items()]

    table: list[Entry] = [
        *embeddings(prefix),
        Rule(prefix + "embeddings.token_type_embeddings.weight", "segments.weight"),
        *norm(prefix + "embeddings.", ""),
        Rule(layer + "attention.self.query.{p}", block + "mixer.q.{p}"),
        Rule(layer + "attention.self.key.{p}", block + "mixer.k.{p}"),
        Rule(layer + "attention.self.value.{p}", block + "mixer.v.{p}"),
        Rule(layer + "attention.output.dense.{p}", block + "mixer.out.{p}"),
        *norm(layer + "attention.output.", block + "mixer_residual."),
        Rule(layer + "intermediate.dense.{p}", block + "ffn.up.{p}"),
        Rule(layer + "output.dense.{p}", block + "ffn.down.{p}"),
        *norm(layer + "output.", block + "ffn_residual."),
    ]
    if ours.pooler:
        table.append(Rule(prefix + "pooler.dense.{p}", "pooler.{p}"))
    table += guesses(ours.head, norm("cls.predictions.transform.", "words."))
    return table + HEADS.get(ours.head, [])


def guesses(head: Head, norm: list[Entry]) -> list[Entry]:
    """What guesses hidden words, and whether one sentence follows the other."""
    table: list[Entry] = []
    if head in ("words", "pretraining"):
        table += [
            Rule("cls.predictions.transform.dense.{p}", "words.dense.{p}"),
            *norm,
            Rule("cls.predictions.bias", "words.bias"),
            Tied("cls.predictions.decoder.weight", "embed.weight"),
            Tied("cls.predictions.decoder.bias", "words.bias"),
        ]
    if head in ("pretraining", "follows"):
        table.append(Rule("cls.seq_relationship.{p}", "follows.{p}"))
    return table


def embeddings(prefix: str) -> list[Entry]:
    """Of BERT and all its kin."""
    return [
        Rule(prefix + "embeddings.word_embeddings.weight", "embed.weight"),
        Rule(prefix + "embeddings.position_embeddings.weight", "positions.weight"),
        Dropped(prefix + "embeddings.position_ids", "a buffer that counts 0, 1, 2 ..."),
    ]


HEADS: dict[str, list[Entry]] = {
    "label": [Rule("classifier.{p}", "label.{p}")],
    "tags": [Rule("classifier.{p}", "tags.{p}")],
    "span": [Rule("qa_outputs.{p}", "span.{p}")],
}
