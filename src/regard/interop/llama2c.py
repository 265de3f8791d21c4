"""Decoders of the llama2.c kind: the config stands in the file's metadata, all layers of a weight in one tensor.

https://github.com/karpathy/llama2.c
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from regard.decode.symbols import BEGIN, END, PAD
from regard.errors import InputError
from regard.models.gpt import LLAMA, Config

from .foreign import ForeignConfig
from .rules import Entry, Rule
from .tensor_ops import Chain, Chunk, Op, Permute, Reshape

KIND = "llama2.c"
SYMBOLS = {BEGIN: 1, END: 2, PAD: None}
KEYS = ("dim", "hidden_dim", "n_layers", "n_heads", "n_kv_heads", "vocab_size", "max_seq_len")


def config_from_metadata(metadata: Mapping[str, str]) -> dict[str, Any] | None:
    """The metadata of such a file in the form of a config.json; None for any other file."""
    if not set(KEYS) <= metadata.keys():
        return None
    return {"model_type": KIND} | {key: int(x) if x.isdecimal() else x for key, x in metadata.items()}


def config(theirs: ForeignConfig) -> Config:
    theirs.divides("n_heads", "dim")
    theirs.divides("n_kv_heads", "n_heads")
    return replace(
        LLAMA,
        vocab=theirs.size("vocab_size"),
        length=theirs.size("max_seq_len"),
        dim=theirs.size("dim"),
        depth=theirs.size("n_layers"),
        heads=theirs.size("n_heads"),
        groups=theirs.size("n_kv_heads"),
        hidden=theirs.size("hidden_dim"),
    )


def complete(ours: Config, names: Collection[str]) -> Config:
    """Determine from the tensors whether the output has a separate matrix."""
    return replace(ours, tied="wcls" not in names)


def export_config(ours: Config) -> dict[str, Any]:
    sizes = (ours.dim, ours.hidden or 4 * ours.dim, ours.depth, ours.heads, ours.groups or ours.heads, ours.vocab)
    return {"model_type": KIND} | dict(zip(KEYS, (*sizes, ours.length), strict=True))


def rules(ours: Config, names: Collection[str] | None = None) -> list[Entry]:
    dim, hidden, width = ours.dim, ours.hidden or 4 * ours.dim, ours.dim // ours.heads
    if width % 2:
        raise InputError(
            "this gpt cannot be exported: the target format requires heads of an even width",
            got=f"dim / heads = {width}",
        )
    wide = {"q": ours.heads * width, "k": (ours.groups or ours.heads) * width}

    def stacked(theirs: str, block: str, op: Op) -> Entry:
        return Rule(theirs, tuple(f"blocks.{i}.{block}.weight" for i in range(ours.depth)), op)

    def layers(*shape: int) -> Op:
        """One tensor for each layer."""
        flat = (ours.depth * shape[0], *shape[1:])
        return Chain(Reshape((ours.depth, *shape), flat), Chunk(ours.depth))

    def turned(rows: int) -> Op:
        """The same, and where rotary positions turn neighbours, those that are half a head apart."""
        heads, half = ours.depth * rows // width, width // 2
        return Chain(
            Reshape((ours.depth, rows, dim), (heads, half, 2, dim)),
            Permute((0, 2, 1, 3)),
            Reshape((heads, 2, half, dim), (ours.depth * rows, dim)),
            Chunk(ours.depth),
        )

    return [
        Rule("tok_embeddings", "embed.weight"),
        *(stacked(f"w{x}", f"mixer.{x}", turned(rows)) for x, rows in wide.items()),
        stacked("wv", "mixer.v", layers(wide["k"], dim)),
        stacked("wo", "mixer.out", layers(dim, wide["q"])),
        stacked("w1", "ffn.gate", layers(hidden, dim)),
        stacked("w3", "ffn.up", layers(hidden, dim)),
        stacked("w2", "ffn.down", layers(dim, hidden)),
        stacked("rms_att", "mixer_residual.norm", layers(dim)),
        stacked("rms_ffn", "ffn_residual.norm", layers(dim)),
        Rule("rms_final", "norm.weight"),
        *([] if ours.tied else [Rule("wcls", "head.weight")]),
    ]
