"""Reformer <-> Hugging Face (model_type reformer).

Earlier versions of transformers, with which the published models were made, add the bias of the words to the logits;
version 5 keeps it but no longer adds it. So a file is read as the version that wrote it computes, which its config
tells, and what goes out, to be opened by version 5, must have none or zeros. The library draws other hashes for every
call unless there is a seed; ours are drawn once, by the seed 0 if there is none. Its penalty for looking at oneself is
so large that beside it float32 loses a part of the weights of several rounds: there logits differ by up to 0.01.
"""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import torch

from regard.decode.symbols import BEGIN, END, PAD
from regard.models.reformer import Config
from regard.nn.mechanisms import layer_choices

from .defaults import kind_defaults
from .foreign import THEIR_ACTIVATIONS, ForeignConfig
from .rules import Entry, Idle, Ours, Rule, Tied
from .tensor_ops import Reshape

SYMBOLS = {BEGIN: None, END: 2, PAD: 0}
UNBIASED = 5  # the version from which on logits have no bias


def config(theirs: ForeignConfig) -> Config:
    theirs.assume(kind_defaults("reformer"))
    causal = theirs.take("is_decoder", bool)
    written = str(theirs.data.get("transformers_version", "")).partition(".")[0]
    theirs.ignore("axial_norm_std", "chunk_size_lm_head", "num_hidden_layers", "attn_layers", "axial_pos_shape")
    theirs.ignore("axial_pos_embds_dim")
    theirs.expect("sinusoidal_pos_embds", False, True)  # which no version has read
    theirs.ignore(
        "attention_probs_dropout_prob", "intermediate_size", "num_chunks_after", "num_chunks_before"
    )  # of old
    layers = attending(theirs)
    local: dict[str, Any] = {"kind": "chunked", "chunk": theirs.size("local_attn_chunk_length")}
    local |= {"after": 1} if theirs.size("local_num_chunks_after", least=0) else {}
    theirs.expect("local_num_chunks_after", *((0,) if causal else (0, 1)))
    hashed = hashing(theirs, "lsh" in layers)
    axial = theirs.take("axial_pos_embds", bool)
    grid, widths = pair(theirs, "axial_pos_shape"), pair(theirs, "axial_pos_embds_dim")
    dim = theirs.size("hidden_size")
    if axial and sum(widths) != dim:
        theirs.guess(f"axial_pos_embds_dim = {widths} do not add up to hidden_size = {dim}")
    return Config(
        vocab=theirs.size("vocab_size"),
        length=theirs.size("max_position_embeddings"),
        dim=dim,
        depth=len(layers),
        heads=theirs.size("num_attention_heads"),
        head_dim=theirs.size("attention_head_size"),
        hidden=theirs.size("feed_forward_size"),
        dropout=theirs.share("hidden_dropout_prob"),
        attention_dropout=theirs.share("local_attention_probs_dropout_prob"),
        hashed_dropout=theirs.share("lsh_attention_probs_dropout_prob"),
        eps=theirs.above_zero("layer_norm_eps"),
        activation=theirs.activation("hidden_act"),
        grid=tuple(grid) if axial else None,
        row_dim=widths[0] if axial else None,
        causal=causal,
        output_bias=not (written.isdecimal() and int(written) >= UNBIASED),
        attention=shortest([shorter(local) if kind == "local" else hashed for kind in layers]),
    )


def hashing(theirs: ForeignConfig, there: bool) -> dict[str, Any]:
    """The table of the layers that hash, if there are any."""
    found: dict[str, Any] = {"kind": "lsh", "form": "chunks", "once": False}
    found |= {"chunk": theirs.size("lsh_attn_chunk_length"), "rounds": theirs.size("num_hashes")}
    theirs.ignore("num_buckets", "hash_seed")
    buckets, seed = theirs.data["num_buckets"], theirs.data["hash_seed"]
    several = isinstance(buckets, list) and bool(buckets) and all(type(x) is int for x in buckets)
    if there and type(buckets) is not int and not several:
        why = ": the reference takes as many as its first text asks for" if buckets is None else ""
        theirs.guess(
            f"num_buckets = {buckets!r}"[:100] + f" is not supported{why}, expected a number or a list of them"
        )
    if not isinstance(seed, int | None):
        theirs.guess(f"hash_seed = {seed!r}"[:100] + " is not an integer")
    return found | {"buckets": buckets} | ({"seed": seed} if seed else {})


GRID, WIDTHS = ("axial_pos_shape", [64, 64]), ("axial_pos_embds_dim", [64, 192])


def attending(theirs: ForeignConfig) -> list[str]:
    layers = theirs.data["attn_layers"]
    if not isinstance(layers, list) or not layers or any(kind not in ("local", "lsh") for kind in layers):
        theirs.guess(f"attn_layers = {layers!r}"[:100] + " is not a list of 'local' and 'lsh'")
        return ["local"]
    if theirs.tensors is not None and len(layers) > theirs.tensors:
        theirs.guess(f"attn_layers has more layers than the checkpoint has tensors, {theirs.tensors}")
        return ["local"]
    return layers


def pair(theirs: ForeignConfig, key: str) -> list[int]:
    found = theirs.data[key]
    if not isinstance(found, list) or len(found) != 2 or any(type(x) is not int or not 0 < x < 1 << 40 for x in found):
        theirs.guess(f"{key} = {found!r}"[:100] + " is not a list of two sizes")
        return [1, 1]
    return found


def shorter(local: dict[str, Any]) -> Any:
    """A table that sets nothing is its name."""
    return "chunked" if local == {"kind": "chunked", "chunk": 64} else local


def shortest(layers: list[Any]) -> Any:
    """The layers that take turns."""
    period = next(n for n in range(1, len(layers) + 1) if layers == [layers[i % n] for i in range(len(layers))])
    return layers[0] if period == 1 else tuple(layers[:period])


def complete(ours: Config, names: Collection[str]) -> Config:
    return ours if any(name.startswith("lm_head.") for name in names) else replace(ours, head="none", output_bias=True)


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
        **({} if ours.output_bias else {"transformers_version": f"{UNBIASED}.0.0"}),
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
    bias: list[Entry] = [
        Rule("lm_head.bias", "head.bias"),
        Tied("lm_head.decoder.bias", "head.bias"),  # earlier versions kept it twice
    ]
    if names is None or not ours.output_bias:
        unread = "version 5 keeps it and does not add it"
        bias = [Idle("lm_head.bias", "head.weight", lambda: torch.zeros(ours.vocab), unread)]
        bias += [Ours("head.bias", lambda: torch.zeros(ours.vocab))] if ours.output_bias else []
    head: list[Entry] = [Rule("lm_head.decoder.weight", "head.weight"), *bias]
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
