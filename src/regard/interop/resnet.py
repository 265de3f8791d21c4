"""ResNet <-> Hugging Face (model_type resnet): with a classifier, or the bare net."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any, Literal

from regard.models.resnet import Config, ResNetSizes

from .batchnorm import batch_norm
from .defaults import kind_defaults
from .foreign import ForeignConfig, default_labels
from .rules import Entry, Rule


def config(theirs: ForeignConfig) -> Config:
    theirs.ignore("out_features", "out_indices")  # what it gives to a larger net
    return Config(classes=theirs.classes(), **vars(backbone(theirs)))


def backbone(theirs: ForeignConfig) -> ResNetSizes:
    """The convolutions, of a ResNet or as part of a larger net."""
    theirs.assume(kind_defaults("resnet"))
    theirs.expect("hidden_act", "relu")  # between the convolutions of a layer theirs has it in any case
    theirs.expect("downsample_in_first_stage", False)
    theirs.ignore("stage_names")
    layers: dict[str, Literal["basic", "bottleneck"]] = {"basic": "basic", "bottleneck": "bottleneck"}
    layer = theirs.take("layer_type", str)
    if layer not in layers:
        theirs.guess(f"layer_type = {layer[:60]!r} is not supported, expected {', '.join(layers)}")
    depths, dims = theirs.depths("depths"), theirs.several("hidden_sizes")
    if len(depths) != len(dims):
        theirs.guess(f"depths and hidden_sizes must have the same number of stages, got {len(depths)} and {len(dims)}")
        dims = (1,) * len(depths)
    return ResNetSizes(
        channels=theirs.size("num_channels"),
        width=theirs.size("embedding_size"),
        layer=layers.get(layer, "basic"),
        depths=depths,
        dims=dims,
        halving="first" if theirs.take("downsample_in_bottleneck", bool) else "middle",
    )


def complete(ours: Config, names: Collection[str]) -> Config:
    """A bare net has no classifier."""
    return ours if any(name.startswith("classifier.") for name in names) else replace(ours, classes=0)


def export_config(ours: Config) -> dict[str, Any]:
    return {
        "architectures": ["ResNetForImageClassification" if ours.classes else "ResNetModel"],
        **export_backbone(ours),
        **(default_labels(ours.classes) if ours.classes else {}),
    }


def export_backbone(ours: ResNetSizes) -> dict[str, Any]:
    return {
        "model_type": "resnet",
        "num_channels": ours.channels,
        "embedding_size": ours.width,
        "hidden_sizes": list(ours.dims),
        "depths": list(ours.depths),
        "layer_type": "bottleneck" if ours.layer == "bottleneck" else "basic",
        "hidden_act": "relu",
        "downsample_in_first_stage": False,
        "downsample_in_bottleneck": ours.halving == "first",
    }


def rules(ours: Config, names: Collection[str] | None = None) -> list[Entry]:
    table: list[Entry] = []
    for theirs, here in places("resnet." if ours.classes else ""):
        table.append(Rule(theirs + "convolution.weight", here + "convolution.weight"))
        table += batch_norm(theirs + "normalization.", here + "norm.")
    return [*table, Rule("classifier.1.{p}", "head.{p}")] if ours.classes else table


def places(prefix: str) -> list[tuple[str, str]]:
    """Where a convolution and its norm are, theirs and ours."""
    theirs, ours = prefix + "encoder.stages.{s}.layers.{i}.", "backbone.stages.{s}.layers.{i}."
    return [
        (prefix + "embedder.embedder.", "backbone.stem."),
        (theirs + "shortcut.", ours + "shortcut."),
        (theirs + "layer.{j}.", ours + "convolutions.{j}."),
    ]
