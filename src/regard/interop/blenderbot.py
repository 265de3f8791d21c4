"""The pre-norm Transformer <-> Hugging Face's Blenderbot (model_type blenderbot), the class there whose layers are it.

Positions are a learned table there and sinusoids here: the sinusoids are written as that table, and only such a table
is read.
"""

from collections.abc import Collection
from typing import Any

from regard.decode.symbols import BEGIN, END, FIRST, LAST, PAD
from regard.models.transformer import Config

from .defaults import kind_defaults
from .foreign import ForeignConfig
from .marian import export_settings, position_waves, settings, weights
from .rules import Entry, Known, Rule

SYMBOLS = {FIRST: 1, BEGIN: 1, END: 2, LAST: 2, PAD: 0}
POSITIONS = 1024  # tokens that an exported model reads or writes


def config(theirs: ForeignConfig) -> Config:
    theirs.assume(kind_defaults("blenderbot"))
    theirs.ignore("max_position_embeddings")
    return Config(**settings(theirs), vocab=theirs.size("vocab_size"), norm="pre")


def export_config(ours: Config) -> dict[str, Any]:
    return {
        "architectures": ["BlenderbotForConditionalGeneration"],
        "model_type": "blenderbot",
        "max_position_embeddings": POSITIONS,
        "encoder_no_repeat_ngram_size": 0,
        **export_settings(ours),
    }


def example() -> Config:
    return Config(vocab=13, dim=16, depth=2, heads=4, hidden=24, norm="pre")


def rules(ours: Config, names: Collection[str] | None = None) -> list[Entry]:
    table = weights(ours)
    for stack in ("encoder", "decoder"):
        there, shape = f"model.{stack}.", (POSITIONS, ours.dim)
        table.append(Known(there + "embed_positions.weight", position_waves(ours), shape))
        table.append(Rule(there + "layer_norm.{p}", stack + "_norm.{p}"))
    return table
