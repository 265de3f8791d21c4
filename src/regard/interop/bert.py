"""BERT <-> Hugging Face (model_type bert): the encoder alone, with the masked-word head, or with both heads."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from regard.errors import InputError
from regard.models.bert import Config

from .foreign import THEIR_ACTIVATIONS, Foreign
from .rules import Dropped, Entry, Rule, Tied
from .symbols import PAD

SYMBOLS = {PAD: 0}
ARCHITECTURES = {"none": "BertModel", "words": "BertForMaskedLM", "pretraining": "BertForPreTraining"}


def config(theirs: Foreign) -> Config:
    theirs.divides("num_attention_heads", "hidden_size")
    theirs.expect("position_embedding_type", "absolute")
    theirs.expect("is_decoder", False)
    theirs.expect("add_cross_attention", False)
    theirs.expect("tie_word_embeddings", True)
    theirs.ignore("directionality", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers")
    theirs.ignore("pooler_size_per_head", "pooler_type")
    return Config(
        vocab=theirs.size("vocab_size", 30522),
        length=theirs.size("max_position_embeddings", 512),
        segments=theirs.size("type_vocab_size", 2),
        dim=theirs.size("hidden_size", 768),
        depth=theirs.depth("num_hidden_layers", 12),
        heads=theirs.size("num_attention_heads", 12),
        hidden=theirs.size("intermediate_size", 3072),
        dropout=theirs.share("hidden_dropout_prob", 0.1),
        attention_dropout=theirs.share("attention_probs_dropout_prob", 0.1),
        eps=theirs.above_zero("layer_norm_eps", 1e-12),
        activation=theirs.activation("hidden_act"),
    )


def complete(ours: Config, names: Collection[str]) -> Config:
    """Which heads there are, only the tensors tell."""
    head = "none"
    if any(name.startswith("cls.predictions.") for name in names):
        head = "pretraining" if any(name.startswith("cls.seq_relationship.") for name in names) else "words"
    pooler = head == "pretraining" or any("pooler.dense." in name for name in names)  # that head reads the pooler
    return replace(ours, pooler=pooler, head=head)  # type: ignore[arg-type]


def export_config(ours: Config) -> dict[str, Any]:
    if ours.head == "words" and ours.pooler:
        raise InputError("their model with a masked-word head alone has no pooler", fix="build it with pooler=False")
    return {
        "architectures": [ARCHITECTURES[ours.head]],
        "model_type": "bert",
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
        Rule(prefix + "embeddings.word_embeddings.weight", "embed.weight"),
        Rule(prefix + "embeddings.position_embeddings.weight", "positions.weight"),
        Rule(prefix + "embeddings.token_type_embeddings.weight", "segments.weight"),
        Dropped(prefix + "embeddings.position_ids", "a buffer that counts 0, 1, 2 ..."),
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
    if ours.head != "none":
        table += [
            Rule("cls.predictions.transform.dense.{p}", "words.dense.{p}"),
            *norm("cls.predictions.transform.", "words."),
            Rule("cls.predictions.bias", "words.bias"),
            Tied("cls.predictions.decoder.weight", "embed.weight"),
            Tied("cls.predictions.decoder.bias", "words.bias"),
        ]
    if ours.head == "pretraining":
        table.append(Rule("cls.seq_relationship.{p}", "follows.{p}"))
    return table
