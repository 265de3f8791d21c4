"""DeiT <-> Hugging Face (model_type deit): two heads, one on the class token alone, or the bare encoder.

Their DeiTForImageClassification has the distillation token too, and reads the class token alone.
"""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from regard.errors import InputError
from regard.models.deit import Config

from .defaults import kind_defaults
from .foreign import ForeignConfig
from .rules import Entry, Rule
from .vit import encoder_rules, export_settings, settings


def config(theirs: ForeignConfig) -> Config:
    theirs.assume(kind_defaults("deit"))
    return Config(**settings(theirs))


def complete(ours: Config, names: Collection[str]) -> Config:
    """Determine the heads from the tensors."""
    if any(name.startswith(("cls_classifier.", "distillation_classifier.")) for name in names):
        return ours
    one, pooler = (any(name.startswith(part) for name in names) for part in ("classifier.", "pooler."))
    return replace(
        ours, pool="class", classes=ours.classes if one else 0, representation=ours.dim if pooler and not one else None
    )


def export_config(ours: Config) -> dict[str, Any]:
    if ours.representation and (ours.classes or ours.representation != ours.dim):
        raise InputError(
            "this deit cannot be exported: the target format has a tanh layer only as wide as dim, and without classes",
            got=f"representation = {ours.representation}, dim = {ours.dim}, classes = {ours.classes}",
        )
    heads = {"both": "DeiTForImageClassificationWithTeacher", "class": "DeiTForImageClassification"}
    return export_settings(ours, "deit", heads[ours.pool] if ours.classes else "DeiTModel")


def rules(ours: Config, names: Collection[str] | None = None) -> list[Entry]:
    prefix = "deit." if ours.classes else ""
    table = [
        *encoder_rules(prefix),
        Rule(prefix + "embeddings.distillation_token", "distillation_token"),
    ]
    if ours.classes and ours.pool == "both":
        return [
            *table,
            Rule("cls_classifier.{p}", "head.{p}"),
            Rule("distillation_classifier.{p}", "teacher_head.{p}"),
        ]
    if ours.representation:
        return [*table, Rule("pooler.dense.{p}", "representation.{p}")]
    return [*table, Rule("classifier.{p}", "head.{p}")] if ours.classes else table
