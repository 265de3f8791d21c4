"""DeiT <-> Hugging Face (model_type deit): two heads, one on the class token alone, or the bare encoder.

Their DeiTForImageClassification has the distillation token too, and reads the class token alone.
"""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from regard.models.deit import Config

from .foreign import ForeignConfig
from .rules import Entry, Rule
from .vit import encoder_rules, export_settings, settings


def config(theirs: ForeignConfig) -> Config:
    return Config(**settings(theirs))


def complete(ours: Config, names: Collection[str]) -> Config:
    """Determine the heads from the tensors."""
    if any(name.startswith(("cls_classifier.", "distillation_classifier.")) for name in names):
        return ours
    one = any(name.startswith("classifier.") for name in names)
    return replace(ours, pool="class", classes=ours.classes if one else 0)


def export_config(ours: Config) -> dict[str, Any]:
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
    return [*table, Rule("classifier.{p}", "head.{p}")] if ours.classes else table
