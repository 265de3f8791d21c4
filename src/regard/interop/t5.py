"""T5, versions 1.0 and 1.1 <-> Hugging Face (model_type t5)."""

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from regard.decode.symbols import END, FIRST, PAD
from regard.models.t5 import Config

from .defaults import kind_defaults
from .foreign import ForeignConfig
from .rules import Dropped, Entry, Rule, Tied

SYMBOLS = {FIRST: 0, END: 1, PAD: 0}
FEED_FORWARD = {  # the shortest names
    "relu": ("relu", False),
    "gelu": ("gelu", False),
    "gelu_new": ("gelu_tanh", False),
    "silu": ("silu", False),
    "tanh": ("tanh", False),
    "gated-gelu": ("gelu_tanh", True),
    "gated-relu": ("relu", True),
    "gated-silu": ("silu", True),
    "gated-tanh": ("tanh", True),
}


def config(theirs: ForeignConfig) -> Config:
    theirs.assume(kind_defaults("t5"))
    theirs.ignore("is_decoder")  # each stack has its own
    tied = theirs.data.get("tie_word_embeddings") is None or theirs.take("tie_word_embeddings", bool)
    theirs.data.setdefault("scale_decoder_outputs", tied)
    scaled = theirs.take("scale_decoder_outputs", bool)
    if scaled and not tied:
        theirs.guess("scale_decoder_outputs = True is not supported with tie_word_embeddings = False")
    act, gated = feed_forward(theirs)
    return Config(**shared(theirs), activation=act, gated=gated, tied=tied, scaled=scaled or not tied)


def feed_forward(theirs: ForeignConfig) -> tuple[str, bool]:
    """The activation, and whether there is a gate. One key tells both; two others, which newer files have too, win."""
    told = theirs.take("feed_forward_proj", str)
    name = told.removeprefix("gated-")
    if "-" in name:
        theirs.problems.append(f"feed_forward_proj = {told[:60]!r} is not supported, expected NAME or gated-NAME")
    theirs.data.setdefault("dense_act_fn", "gelu_new" if told == "gated-gelu" else name)
    theirs.data.setdefault("is_gated_act", told.startswith("gated-"))
    return theirs.activation("dense_act_fn"), theirs.take("is_gated_act", bool)


def complete(ours: Config, names: Collection[str]) -> Config:
    """Of version 1.1 newer files say that it is tied, and that its states are not made smaller: where there is an
    output matrix, only the latter is meant."""
    return replace(ours, tied=False, scaled=True) if not ours.scaled and "lm_head.weight" in names else ours


def shared(theirs: ForeignConfig) -> dict[str, Any]:
    """The config keys shared by T5 and its variants."""
    theirs.ignore("n_positions", "num_decoder_layers")
    depth = theirs.depth("num_layers")
    same = theirs.data.get("num_decoder_layers") is None
    return {
        "vocab": theirs.size("vocab_size"),
        "dim": theirs.size("d_model"),
        "depth": depth,
        "decoder_depth": depth if same else theirs.depth("num_decoder_layers"),
        "heads": theirs.size("num_heads"),
        "head_dim": theirs.size("d_kv"),
        "hidden": theirs.size("d_ff"),
        "dropout": theirs.share("dropout_rate"),
        "eps": theirs.above_zero("layer_norm_epsilon"),
        "buckets": theirs.size("relative_attention_num_buckets"),
        "farthest": theirs.size("relative_attention_max_distance"),
    }


def export_config(ours: Config) -> dict[str, Any]:
    kinds = {said: name for name, said in FEED_FORWARD.items()}
    return {
        "architectures": ["T5ForConditionalGeneration"],
        "model_type": "t5",
        **export_shared(ours),
        "feed_forward_proj": kinds[ours.activation, ours.gated],
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

    unused = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
    head: Entry = Tied("lm_head.weight", "embed.weight") if ours.tied else Rule("lm_head.weight", "head.weight")
    return [
        Rule("shared.weight", "embed.weight"),
        *stack("encoder", 2),
        *stack("decoder", 3),
        Dropped(unused, "in the files of version 1.0, whose cross-attention has no positions"),
        head,
    ]
