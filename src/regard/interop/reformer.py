"""Reformer <-> Hugging Face (model_type reformer).

Version 5 of transformers keeps the bias of the words but no longer adds it to the logits; earlier versions, with which
the published models were made, do, and so do we. It draws other hashes for every call unless there is a seed; ours are
drawn once, by the seed 0 if there is none.
"""

from collections.abc import Collection
from dataclasses import replace
from math import isqrt
from typing import Any

from regard.decode.symbols import BEGIN, END, PAD
from regard.models.reformer import Config
from regard.nn.mechanisms import layer_choices

from .foreign import THEIR_ACTIVATIONS, ForeignConfig
from .rules import Entry, Rule, Tied
from .tensor_ops import Reshape

SYMBOLS = {BEGIN: None, END: 2, PAD: 0}
LAYERS = ["local", "lsh", "local", "lsh", "local", "lsh"]


def config(theirs: ForeignConfig) -> Config:
    causal = theirs.take("is_decoder", bool, False)
    theirs.expect("lsh_num_chunks_before", 1)
    theirs.expect("lsh_num_chunks_after", 0)
    theirs.expect("local_num_chunks_before", 1)
    theirs.expect("tie_word_embeddings", False)
    theirs.expect("sinusoidal_pos_embds", False)
    theirs.ignore(
        "axial_norm_std", "chunk_size_lm_head", "num_hidden_layers", "num_buckets", "attn_layers", "hash_seed"
    )
    theirs.ignore("axial_pos_shape", "axial_pos_embds_dim", "is_decoder")
    theirs.ignore(
        "attention_probs_dropout_prob", "intermediate_size", "num_chunks_after", "num_chunks_before"
    )  # of old
    layers = attending(theirs)
    length, chunk = theirs.size("max_position_embeddings", 4096), theirs.size("lsh_attn_chunk_length", 64)
    local: dict[str, Any] = {"kind": "chunked", "chunk": theirs.size("local_attn_chunk_length", 64)}
    local |= {"after": 1} if theirs.size("local_num_chunks_after", 0, least=0) else {}
    theirs.expect("local_num_chunks_after", *((0,) if causal else (0, 1)))
    rounds, seed = theirs.size("num_hashes", 1), theirs.data.get("hash_seed")
    hashed = {"kind": "lsh", "form": "chunks", "once": False, "chunk": chunk, "rounds": rounds}
    hashed |= {"buckets": theirs.data.get("num_buckets") or buckets(length, chunk)}
    hashed |= {"seed": seed} if isinstance(seed, int) and seed else {}
    axial = theirs.take("axial_pos_embds", bool, True)
    grid, widths = (pair(theirs, key, default) for key, default in (GRID, WIDTHS))
    dim = theirs.size("hidden_size", 256)
    if axial and sum(widths) != dim:
        theirs.guess(f"axial_pos_embds_dim = {widths} do not add up to hidden_size = {dim}")
    return Config(
        vocab=theirs.size("vocab_size", 320),
        length=length,
        dim=dim,
        depth=len(layers),
        heads=theirs.size("num_attention_heads", 12),
        head_dim=theirs.size("attention_head_size", 64),
        hidden=theirs.size("feed_forward_size", 512),
        dropout=theirs.share("hidden_dropout_prob", 0.05),
        attention_dropout=theirs.share("local_attention_probs_dropout_prob", 0.05),
        hashed_dropout=theirs.share("lsh_attention_probs_dropout_prob", 0.0),
        eps=theirs.above_zero("layer_norm_eps", 1e-12),
        activation=theirs.activation("hidden_act") if "hidden_act" in theirs.data else "relu",
        grid=tuple(grid) if axial else None,
        row_dim=widths[0] if axial else None,
        causal=causal,
        attention=shortest([shorter(local) if kind == "local" else hashed for kind in layers]),
    )


GRID, WIDTHS = ("axial_pos_shape", [64, 64]), ("axial_pos_embds_dim", [64, 192])


def attending(theirs: ForeignConfig) -> list[str]:
    layers = theirs.data.get("attn_layers", LAYERS)
    if not isinstance(layers, list) or not layers or any(kind not in ("local", "lsh") for kind in layers):
        theirs.guess(f"attn_layers = {layers!r}"[:100] + " is not a list of 'local' and 'lsh'")
        return LAYERS
    if theirs.tensors is not None and len(layers) > theirs.tensors:
        theirs.guess(f"attn_layers has more layers than the checkpoint has tensors, {theirs.tensors}")
        return LAYERS
    return layers


def pair(theirs: ForeignConfig, key: str, default: list[int]) -> list[int]:
    found = theirs.data.get(key, default)
    if not isinstance(found, list) or len(found) != 2 or any(type(x) is not int or not 0 < x < 1 << 40 for x in found):
        theirs.guess(f"{key} = {found!r}"[:100] + " is not a list of two sizes")
        return default
    return found


def buckets(length: int, chunk: int) -> int | list[int]:
    """How many there are where a file leaves that open: as they would for the longest text."""
    bits = max((2 * (length // chunk)).bit_length() - 1, 1)
    if 1 << bits > 2 * max(isqrt(length // chunk), chunk):
        return [1 << bits // 2, 1 << bits - bits // 2]
    return 1 << bits


def shorter(local: dict[str, Any]) -> Any:
    """A table that sets nothing is its name."""
    return "chunked" if local == {"kind": "chunked", "chunk": 64} else local


def shortest(layers: list[Any]) -> Any:
    """The layers that take turns."""
    period = next(n for n in range(1, len(layers) + 1) if layers == [layers[i % n] for i in range(len(layers))])
    return layers[0] if period == 1 else tuple(layers[:period])


def complete(ours: Config, names: Collection[str]) -> Config:
    return ours if any(name.startswith("lm_head.") for name in names) else replace(ours, head="none")


def tables(ours: Config) -> list[dict[str, Any]]:
    """What each layer is, by its table."""
    return [{"kind": x} if isinstance(x, str) else dict(x) for x in layer_choices(ours.attention, ours.depth)]


def export_config(ours: Config) -> dict[str, Any]:
    layers = tables(ours)
    local = next((x for x in layers if x["kind"] != "lsh"), {})
    hashed = next((x for x in layers if x["kind"] == "lsh"), {})
    row_dim = ours.row_dim or max(ours.dim // 4, 1)
    grid, widths = (GRID[1], WIDTHS[1]) if ours.grid is None else (list(ours.grid), [row_dim, ours.dim - row_dim])
    architecture = "ReformerModelWithLMHead" if ours.causal else "ReformerForMaskedLM"
    return {
        "architectures": ["ReformerModel" if ours.head == "none" else architecture],
        "model_type": "reformer",
        "is_decoder": ours.causal,
        "vocab_size": ours.vocab,
        "max_position_embeddings": ours.length,
        "hidden_size": ours.dim,
        "num_attention_heads": ours.heads,
        "attention_head_size": ours.head_dim,
        "feed_forward_size": ours.hidden,
        "hidden_dropout_prob": ours.dropout,
        "local_attention_probs_dropout_prob": ours.attention_dropout,
        "lsh_attention_probs_dropout_prob": ours.hashed_dropout,
        "layer_norm_eps": ours.eps,
        "hidden_act": THEIR_ACTIVATIONS[ours.activation],
        "axial_pos_embds": ours.grid is not None,
        "axial_pos_shape": grid,
        "axial_pos_embds_dim": widths,
        "attn_layers": ["lsh" if x["kind"] == "lsh" else "local" for x in layers],
        "local_attn_chunk_length": local.get("chunk", 64),
        "local_num_chunks_before": 1,
        "local_num_chunks_after": local.get("after", 0),
        "lsh_attn_chunk_length": hashed.get("chunk", 64),
        "lsh_num_chunks_before": 1,
        "lsh_num_chunks_after": 0,
        "num_hashes": hashed.get("rounds", 4),
        "num_buckets": hashed.get("buckets"),
        "hash_seed": hashed.get("seed", 0),
        "tie_word_embeddings": False,
    }


def rules(ours: Config, names: Collection[str] | None = None) -> list[Entry]:
    """The bare model's files have no ``reformer.`` before their names."""
    bare = ours.head == "none" and (names is None or not any(name.startswith("reformer.") for name in names))
    prefix = "" if bare else "reformer."
    layers = [
        entry for i, layer in enumerate(tables(ours)) for entry in block(f"{prefix}encoder.layers.{i}.", i, layer)
    ]
    head: list[Entry] = [
        Rule("lm_head.decoder.weight", "head.weight"),
        Rule("lm_head.bias", "head.bias"),
        Tied("lm_head.decoder.bias", "head.bias"),  # earlier versions kept it twice
    ]
    return [
        Rule(prefix + "embeddings.word_embeddings.weight", "embed.weight"),
        *positions(ours, prefix + "embeddings.position_embeddings."),
        *layers,
        Rule(prefix + "encoder.layer_norm.{p}", "norm.{p}"),
        *([] if ours.head == "none" else head),
    ]


def positions(ours: Config, prefix: str) -> list[Entry]:
    if ours.grid is None:
        return [Rule(prefix + "embedding.weight", "positions.weight")]
    row_dim = ours.row_dim or max(ours.dim // 4, 1)
    (rows, columns), rest = ours.grid, ours.dim - row_dim
    return [
        Rule(prefix + "weights.0", "positions.rows", Reshape((rows, 1, row_dim), (rows, row_dim))),
        Rule(prefix + "weights.1", "positions.columns", Reshape((1, columns, rest), (columns, rest))),
    ]


def block(theirs: str, i: int, layer: dict[str, Any]) -> list[Entry]:
    ours = f"blocks.{i}."
    shared = {"query_key": "q", "value": "v"}
    names = shared if layer["kind"] == "lsh" else {"query": "q", "key": "k", "value": "v"}
    return [
        Rule(theirs + "attention.layer_norm.{p}", ours + "mixer_norm.{p}"),
        *(Rule(f"{theirs}attention.self_attention.{a}.weight", f"{ours}mixer.{b}.weight") for a, b in names.items()),
        Rule(theirs + "attention.output.dense.weight", ours + "mixer.out.weight"),
        Rule(theirs + "feed_forward.layer_norm.{p}", ours + "ffn_norm.{p}"),
        Rule(theirs + "feed_forward.dense.dense.{p}", ours + "ffn.up.{p}"),
        Rule(theirs + "feed_forward.output.dense.{p}", ours + "ffn.down.{p}"),
    ]
