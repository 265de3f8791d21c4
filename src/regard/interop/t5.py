"""T5, versions 1.0 and 1.1 <-> Hugging Face (model_type t5)."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

from regard.decode.symbols import END, FIRST, PAD
from regard.models.t5 import Config

from .foreign import ForeignConfig
from .rules import Entry, Rule, Tied

SYMBOLS = {FIRST: 0, END: 1, PAD: 0}
FEED_FORWARD = {"relu": ("relu", False), "gated-gelu": ("gelu_tanh", True), "gated-silu": ("silu", True)}
FEED_FORWARD |= {"gated-relu": ("relu", True), "gelu": ("gelu", False), "gelu_new": ("gelu_tanh", False)}


@dataclass(frozen=True)
class T5Sizes:
    """What a file that leaves a size out means by that."""

    dim: int = 512
    depth: int = 6
    heads: int = 8


def config(theirs: ForeignConfig) -> Config:
    kind = str(theirs.data.get("feed_forward_proj", "relu"))
    theirs.expect("feed_forward_proj", *FEED_FORWARD)
    tied = theirs.take("tie_word_embeddings", bool, True)
    scaled = theirs.take("scale_decoder_outputs", bool, tied)
    if scaled and not tied:
        theirs.guess("scale_decoder_outputs = True is not supported with tie_word_embeddings = False")
    theirs.ignore("dense_act_fn", "is_gated_act")
    act, gated = FEED_FORWARD.get(kind, ("relu", False))
    return Config(**shared(theirs, T5Sizes()), activation=act, gated=gated, tied=tied, scaled=scaled or not tied)


def complete(ours: Config, names: Collection[str]) -> Config:
    """Of version 1.1 newer files say that it is tied, and that its states are not made smaller: where there is an
    output matrix, only the latter is meant."""
    return replace(ours, tied=False, scaled=True) if not ours.scaled and "lm_head.weight" in names else ours


def shared(theirs: ForeignConfig, sizes: T5Sizes) -> dict[str, Any]:
    """The config keys shared by T5 and its variants."""
    theirs.ignore("n_positions", "output_past", "classifier_dropout", "is_decoder", "num_decoder_layers")
    depth = theirs.depth("num_layers", sizes.depth)
    given = theirs.data.get("num_decoder_layers") is not None
    return {
        "vocab": theirs.size("vocab_size", 32128),
        "dim": theirs.size("d_model", sizes.dim),
        "depth": depth,
        "decoder_depth": theirs.depth("num_decoder_layers", depth) if given else depth,
        "heads": theirs.size("num_heads", sizes.heads),
        "head_dim": theirs.size("d_kv", 64),
        "hidden": theirs.size("d_ff", 2048),
        "dropout": theirs.share("dropout_rate", 0.1),
        "eps": theirs.above_zero("layer_norm_epsilon", 1e-6),
        "buckets": theirs.size("relative_attention_num_buckets", 32),
        "farthest": theirs.size("relative_attention_max_distance", 128),
    }


def export_config(ours: Config) -> dict[str, Any]:
    kinds = {said: name for name, said in FEED_FORWARD.items()}
    return {
        "architectures": ["T5ForConditionalGeneration"],
        "model_type": "t5",
        **export_shared(ours),
        "feed_forward_proj": kinds.get((ours.activation, ours.gated), "relu"),
    } | ({} if ours.scaled else {"scale_decoder_outputs": False})


def export_shared(ours: Config) -> dict[str, Any]:
    return {
        "is_encoder_decoder": True,
        "vocab_size": ours.vocab,
        "d_model": ours.dim,
        "num_layers": ours.depth,
        "num_decoder_layers": ours.decoder_depth or ours.depth,
        "num_heads": ours.heads,
        "d_kv": ours.head_dim,
        "d_ff": ours.hidden,
        "dropout_rate": ours.dropout,
        "layer_norm_epsilon": ours.eps,
        "relative_attention_num_buckets": ours.buckets,
        "relative_attention_max_distance": ours.farthest,
        "tie_word_embeddings": ours.tied,
    }


def rules(ours: Config, names: Collection[str] | None = None) -> list[Entry]:
    theirs = {"gate": "wi_0", "up": "wi_1"} if ours.gated else {"up": "wi"}
    inner = {f"DenseReluDense.{name}.weight": f"{mine}.weight" for mine, name in {**theirs, "down": "wo"}.items()}
    return around(ours, lambda layer, ffn: [Rule(f"{layer}.{a}", f"{ffn}.{b}") for a, b in inner.items()])


def around(ours: Config, feed_forward: Callable[[str, str], list[Entry]], copies: bool = False) -> list[Entry]:
    """All but the feed-forward, of which it is told where it stands, theirs and ours. Their layers are lists: attention
    first, cross-attention next in the decoder, the feed-forward last. Some want a copy of the words for each stack."""

    def attention(layer: str, theirs: str, ours: str) -> list[Entry]:
        names = {"q": "q", "k": "k", "v": "v", "o": "out"}
        return [Rule(f"{layer}.{theirs}.{a}.weight", f"{ours}.{b}.weight") for a, b in names.items()]

    def stack(side: str, parts: int) -> list[Entry]:
        layer, block, last = f"{side}.block.{{i}}.layer", f"{side}.{{i}}", parts - 1
        norms = ["mixer", "cross", "ffn"] if parts == 3 else ["mixer", "ffn"]
        return [
            *attention(f"{layer}.0", "SelfAttention", f"{block}.mixer"),
            *(attention(f"{layer}.1", "EncDecAttention", f"{block}.cross") if parts == 3 else []),
            *feed_forward(f"{layer}.{last}", f"{block}.ffn"),
            *(
                Rule(f"{layer}.{i}.layer_norm.weight", f"{block}.{name}_residual.norm.weight")
                for i, name in enumerate(norms)
            ),
            Rule(f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight", f"{side}_bias.weight"),
            Rule(f"{side}.final_layer_norm.weight", f"{side}_norm.weight"),
            Tied(f"{side}.embed_tokens.weight", "embed.weight", written=copies),
        ]

    head: Entry = Tied("lm_head.weight", "embed.weight") if ours.tied else Rule("lm_head.weight", "head.weight")
    return [Rule("shared.weight", "embed.weight"), *stack("encoder", 2), *stack("decoder", 3), head]
