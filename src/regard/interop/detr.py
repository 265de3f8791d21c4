"""DETR <-> Hugging Face (model_type detr), for detection. The backbone is a ResNet of theirs, or one of timm's, as in
the published folders; what goes out has the first."""

from collections.abc import Collection, Mapping
from typing import Any

from regard.errors import InputError
from regard.models import resnet as models
from regard.models.detr import Config

from . import resnet
from .batchnorm import frozen_norm
from .defaults import kind_defaults
from .foreign import THEIR_ACTIVATIONS, ForeignConfig, default_labels
from .rules import Dropped, Entry, Rule

TIMM = "detr with timm"  # they say model_type "detr" of both
NESTED = "backbone_config"


def of_timm(data: Mapping[str, Any]) -> bool:
    """Whether the backbone is timm's, the default in older configs without a table for the backbone."""
    inner = data.get(NESTED)
    if isinstance(inner, dict):
        return inner.get("model_type") == "timm_backbone"
    return bool(data.get("use_timm_backbone", True))


def config(theirs: ForeignConfig) -> Config:
    theirs.assume(kind_defaults("detr"))
    theirs.ignore("use_timm_backbone", "use_pretrained_backbone", "dilation")  # a table of the backbone says it all
    theirs.expect("backbone", None)
    told = nested(theirs)
    told.expect("model_type", "resnet")
    found = resnet.backbone(told)
    last = len(found.depths)
    told.expect("out_features", [f"stage{last}"], None)
    told.expect("out_indices", [last], [-1], None)
    return full_config(theirs, told, found)


def config_timm(theirs: ForeignConfig) -> Config:
    theirs.assume(kind_defaults("detr"))
    theirs.ignore("use_timm_backbone", "use_pretrained_backbone")
    theirs.expect("backbone_kwargs", None, {})
    told = nested(theirs)
    told.assume(kind_defaults("timm_backbone"))
    dilated = theirs.take("dilation", bool)
    if theirs.data[NESTED] is None:  # then the net tells it
        name = theirs.data.get("backbone")
        told.data |= {"backbone": name or "resnet50", "num_channels": theirs.data["num_channels"]}
        told.data |= {"output_stride": 16 if dilated else None}
        theirs.ignore("backbone")
    else:
        told.expect("out_indices", [1, 2, 3, 4], [4], [-1])
        told.ignore("model_type")
    sizes = {preset.replace("-", ""): x for preset, x in models.PRESETS.items() if x.stem == "large"}
    backbone = told.take("backbone", str)
    if backbone not in sizes:
        told.guess(f"backbone = {backbone[:60]!r} is not supported, expected {', '.join(sizes)}")
    told.expect("out_features", ["layer1", "layer2", "layer3", "layer4"], ["layer4"], None)
    told.expect("output_stride", 32, None, 16)
    told.ignore("freeze_batch_norm_2d", "use_pretrained_backbone", "stage_names", "use_timm_backbone")
    usual = sizes.get(backbone, models.PRESETS["resnet-18"])
    found = models.ResNetSizes(
        channels=told.size("num_channels"),
        layer=usual.layer,
        depths=usual.depths,
        dims=usual.dims,
        last="dilated" if told.data.get("output_stride") == 16 else "halving",
    )
    return full_config(theirs, told, found)


def nested(theirs: ForeignConfig) -> ForeignConfig:
    """The table of the backbone, empty where there is none."""
    inner = theirs.data[NESTED]
    theirs.ignore(NESTED)
    if not isinstance(inner, dict | None):
        theirs.guess(f"{NESTED} = {inner!r}"[:100] + " is not a table")
    return ForeignConfig(inner if isinstance(inner, dict) else {}, theirs.tensors)


def full_config(theirs: ForeignConfig, told: ForeignConfig, backbone: models.ResNetSizes) -> Config:
    theirs.problems += [f"{NESTED}: {problem}" for problem in told.finish()]
    theirs.guessed |= told.guessed
    # With it theirs normalises between the layers of the decoder, too: another model than the paper's, see the tests.
    theirs.expect("auxiliary_loss", False)
    theirs.expect("position_embedding_type", "sine")
    theirs.expect("scale_embedding", False)
    theirs.divides("encoder_attention_heads", "d_model")
    theirs.ignore(*TRAINING, "encoder_layerdrop", "decoder_layerdrop", "max_position_embeddings")
    heads, hidden = theirs.size("encoder_attention_heads"), theirs.size("encoder_ffn_dim")
    theirs.same("decoder_attention_heads", "encoder_attention_heads")
    theirs.same("decoder_ffn_dim", "encoder_ffn_dim")
    theirs.expect("num_channels", backbone.channels)
    return Config(
        **vars(backbone),
        classes=theirs.classes(least=1),
        queries=theirs.size("num_queries"),
        dim=theirs.size("d_model"),
        depth=theirs.depth("encoder_layers"),
        decoder_depth=theirs.depth("decoder_layers"),
        heads=heads,
        hidden=hidden,
        dropout=theirs.share("dropout"),
        attention_dropout=theirs.share("attention_dropout"),
        hidden_dropout=theirs.share("activation_dropout"),
        activation=theirs.activation("activation_function"),
    )


TRAINING = (
    "init_xavier_std",
    "class_cost",
    "bbox_cost",
    "giou_cost",
    "mask_loss_coefficient",
    "dice_loss_coefficient",
    "bbox_loss_coefficient",
    "giou_loss_coefficient",
    "eos_coefficient",
)


def export_config(ours: Config) -> dict[str, Any]:
    if ours.last == "dilated":
        raise InputError(
            "a detr with a dilated last stage cannot be exported: the target format has it only with a timm backbone"
        )
    depth = ours.depth if ours.decoder_depth is None else ours.decoder_depth
    return {
        "architectures": ["DetrForObjectDetection"],
        "model_type": "detr",
        "backbone_config": resnet.export_backbone(ours) | {"out_features": [f"stage{len(ours.depths)}"]},
        "use_timm_backbone": False,
        "num_channels": ours.channels,
        "num_queries": ours.queries,
        "d_model": ours.dim,
        "encoder_layers": ours.depth,
        "decoder_layers": depth,
        "encoder_attention_heads": ours.heads,
        "decoder_attention_heads": ours.heads,
        "encoder_ffn_dim": ours.hidden,
        "decoder_ffn_dim": ours.hidden,
        "dropout": ours.dropout,
        "attention_dropout": ours.attention_dropout,
        "activation_dropout": ours.hidden_dropout,
        "activation_function": THEIR_ACTIVATIONS[ours.activation],
        "auxiliary_loss": False,
        "position_embedding_type": "sine",
        "dilation": False,
        **default_labels(ours.classes),
    }


def export_timm(ours: Config) -> dict[str, Any]:
    raise InputError("a detr cannot be exported with a timm backbone, only with the Hugging Face backbone")


BACKBONE = "model.backbone.conv_encoder.model."


def rules(ours: Config, names: Collection[str] | None = None) -> list[Entry]:
    table = transformer()
    for theirs, here in resnet.places(BACKBONE):
        table.append(Rule(theirs + "convolution.weight", here + "convolution.weight"))
        table += frozen_norm(theirs + "normalization.", here + "norm.")
    return table


def rules_timm(ours: Config, names: Collection[str] | None = None) -> list[Entry]:
    table: list[Entry] = [Rule(BACKBONE + "conv1.weight", "backbone.stem.convolution.weight")]
    table += frozen_norm(BACKBONE + "bn1.", "backbone.stem.norm.")
    for s in range(len(ours.depths)):
        theirs, there = f"{BACKBONE}layer{s + 1}.{{i}}.", f"backbone.stages.{s}.layers.{{i}}."
        table.append(Rule(theirs + "downsample.0.weight", there + "shortcut.convolution.weight"))
        table += frozen_norm(theirs + "downsample.1.", there + "shortcut.norm.")
        table.append(Dropped(theirs + "downsample.1.num_batches_tracked", "nothing is counted in a frozen norm"))
        for j in range(3 if ours.layer == "bottleneck" else 2):
            table.append(Rule(f"{theirs}conv{j + 1}.weight", f"{there}convolutions.{j}.convolution.weight"))
            table += frozen_norm(f"{theirs}bn{j + 1}.", f"{there}convolutions.{j}.norm.")
    return [*table, *transformer()]


def transformer() -> list[Entry]:
    table: list[Entry] = [
        Rule("model.input_projection.{p}", "input.{p}"),
        Rule("model.query_position_embeddings.weight", "queries"),
        Rule("model.decoder.layernorm.{p}", "norm.{p}"),
        Rule("class_labels_classifier.{p}", "label.{p}"),
        *(Rule(f"bbox_predictor.layers.{i}.{{p}}", f"box.{2 * i}.{{p}}") for i in range(3)),
    ]
    attentions = {("encoder", "self_attn"): "mixer", ("decoder", "self_attn"): "mixer"}
    attentions |= {("decoder", "encoder_attn"): "cross"}
    for (stack, theirs), ours in attentions.items():
        there, here = f"model.{stack}.layers.{{i}}.{theirs}", f"{stack}.{{i}}.{ours}"
        for part, name in {"q": "q_proj", "k": "k_proj", "v": "v_proj", "out": "out_proj"}.items():
            table.append(Rule(f"{there}.{name}.{{p}}", f"{here}.{part}.{{p}}"))
        table.append(Rule(f"{there}_layer_norm.{{p}}", f"{here}_residual.norm.{{p}}"))
    for stack in ("encoder", "decoder"):
        there, here = f"model.{stack}.layers.{{i}}.", f"{stack}.{{i}}."
        table += [
            Rule(there + "fc1.{p}", here + "ffn.up.{p}"),
            Rule(there + "fc2.{p}", here + "ffn.down.{p}"),
            Rule(there + "final_layer_norm.{p}", here + "ffn_residual.norm.{p}"),
        ]
    return table
