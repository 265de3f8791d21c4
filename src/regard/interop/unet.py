"""The U-Net <-> diffusers: UNet2DConditionModel, with a text to look at, and UNet2DModel, without.

In theirs, ``attention_head_dim`` is the number of heads where there is a text, and the width of a head where there is
none.
"""

from collections.abc import Collection
from typing import Any

from regard.errors import InputError
from regard.models.unet import Config
from regard.nn.resnet_blocks import Padding

from .diffusers_config import (
    CLASS,
    CONDITIONED,
    UNCONDITIONED,
    assume_class,
    given_activation,
    given_blocks,
    given_levels,
    their_activation,
)
from .foreign import ForeignConfig
from .rules import Entry, Rule
from .tensor_ops import Chunk

KIND, PLAIN = "UNet2DConditionModel", "UNet2DModel"
# Their names for the kinds of blocks: without attention, and with.
DOWN, UP = ("DownBlock2D", "CrossAttnDownBlock2D"), ("UpBlock2D", "CrossAttnUpBlock2D")
PLAIN_DOWN, PLAIN_UP = ("DownBlock2D", "AttnDownBlock2D"), ("UpBlock2D", "AttnUpBlock2D")
OLD = {"to_q": "query", "to_k": "key", "to_v": "value", "to_out.0": "proj_attn"}  # in older files
PADDINGS: dict[int, Padding] = {1: "both", 0: "end"}


def config(theirs: ForeignConfig) -> Config:
    """With a text."""
    assume_class(theirs, CONDITIONED)
    theirs.ignore("upcast_attention")  # in half precision alone
    theirs.ignore("addition_embed_type_num_heads")  # of an embedding that is refused
    found = settings(theirs, DOWN, UP)
    several = isinstance(theirs.data["attention_head_dim"], list | tuple)
    stages = len(found["multipliers"])
    heads = theirs.several("attention_head_dim", stages=stages) if several else theirs.size("attention_head_dim")
    linear = theirs.take("use_linear_projection", bool)
    return Config(**found, heads=heads, context=same_width(theirs), projection="linear" if linear else "convolution")


def plain_config(theirs: ForeignConfig) -> Config:
    """Without."""
    assume_class(theirs, UNCONDITIONED)
    theirs.ignore("num_train_timesteps")  # of a learned embedding of the time, which is refused
    found = settings(theirs, PLAIN_DOWN, PLAIN_UP)
    if found["activation"] != "silu":
        theirs.guess(f"act_fn = {found['activation']!r} is not supported, expected 'silu'")  # theirs ends with silu
    width = theirs.optional_size("attention_head_dim")
    widths = [found["dim"] * many for many in found["multipliers"]]
    if wrong := [widths[i] for i in (*found["attended"], -1) if width and widths[i] % width]:
        theirs.guess(f"block_out_channels has {wrong[0]}, not a multiple of attention_head_dim = {width}")
    return Config(**found, heads=tuple(max(channels // (width or channels), 1) for channels in widths), context=0)


def settings(theirs: ForeignConfig, down: tuple[str, str], up: tuple[str, str]) -> dict[str, Any]:
    """The keys of both kinds."""
    attending = given_blocks(theirs, "down_block_types", *down)
    above = given_blocks(theirs, "up_block_types", *up)
    if attending != above[::-1]:
        theirs.guess("up_block_types must have attention at the levels at which down_block_types has it, and no other")
    dim, multipliers = given_levels(theirs, len(attending))
    theirs.expect("time_embedding_dim", None, 4 * dim)
    padding = theirs.size("downsample_padding", least=0)
    if padding not in PADDINGS:
        theirs.guess(f"downsample_padding = {padding} is not supported, expected 0 or 1")
    told = theirs.data.get("sample_size") is not None
    theirs.ignore("sample_size")
    return {
        "image": theirs.side("sample_size") if told else None,
        "channels": theirs.size("in_channels"),
        "out": theirs.size("out_channels"),
        "dim": dim,
        "multipliers": multipliers,
        "depth": theirs.depth("layers_per_block"),
        "attended": tuple(i for i, attends in enumerate(attending) if attends),
        "padding": PADDINGS.get(padding, "both"),
        "cosines_first": theirs.take("flip_sin_to_cos", bool),
        "frequency_shift": theirs.size("freq_shift", least=0),
        "activation": given_activation(theirs),
        "norm_groups": theirs.size("norm_num_groups"),
        "eps": theirs.above_zero("norm_eps"),
        "dropout": theirs.share("dropout"),
    }


def same_width(theirs: ForeignConfig) -> int:
    """The width of the text, which they may say once for each level."""
    told: Any = theirs.data["cross_attention_dim"]
    if isinstance(told, list | tuple) and len(set(map(str, told))) == 1:
        theirs.data["cross_attention_dim"] = told[0]
    return theirs.size("cross_attention_dim")


def export_config(ours: Config) -> dict[str, Any]:
    """With a text."""
    if not ours.context:
        raise InputError(f"a U-Net without a context is a {PLAIN} in diffusers", got="context = 0")
    return {
        CLASS: KIND,
        **export_settings(ours, DOWN, UP),
        "mid_block_type": "UNetMidBlock2DCrossAttn",
        "attention_head_dim": ours.heads if isinstance(ours.heads, int) else list(ours.heads),
        "cross_attention_dim": ours.context,
        "use_linear_projection": ours.projection == "linear",
    }


def export_plain(ours: Config) -> dict[str, Any]:
    """Without."""
    if ours.context:
        raise InputError(f"a U-Net with a context is a {KIND} in diffusers", got=f"context = {ours.context}")
    if ours.activation != "silu":
        raise InputError(f"{PLAIN} has no other activation", got=f"activation = {ours.activation!r}", expected="silu")
    attending = {*ours.attended, len(ours.multipliers) - 1}
    widths = {ours.widths[level] // ours.level_heads[level] for level in attending}
    single = set(ours.level_heads) == {1}
    if len(widths) > 1 and not single:
        raise InputError(
            f"{PLAIN} has one width for all heads", got=f"heads = {ours.heads}", expected="heads of one width, or one"
        )
    return {
        CLASS: PLAIN,
        **export_settings(ours, PLAIN_DOWN, PLAIN_UP),
        "mid_block_type": "UNetMidBlock2D",
        "attention_head_dim": None if single else widths.pop(),
    }


def export_settings(ours: Config, down: tuple[str, str], up: tuple[str, str]) -> dict[str, Any]:
    attending = [level in ours.attended for level in range(len(ours.multipliers))]
    return {
        "sample_size": ours.image,
        "in_channels": ours.channels,
        "out_channels": ours.out,
        "center_input_sample": False,
        "flip_sin_to_cos": ours.cosines_first,
        "freq_shift": ours.frequency_shift,
        "down_block_types": [down[attends] for attends in attending],
        "up_block_types": [up[attends] for attends in reversed(attending)],
        "block_out_channels": list(ours.widths),
        "layers_per_block": ours.depth,
        "downsample_padding": 1 if ours.padding == "both" else 0,
        "mid_block_scale_factor": 1,
        "dropout": ours.dropout,
        "act_fn": their_activation(ours.activation),
        "norm_num_groups": ours.norm_groups,
        "norm_eps": ours.eps,
    }


def rules(ours: Config, names: Collection[str] | None = None) -> list[Entry]:
    old = any(".proj_attn." in name for name in names or ())
    table: list[Entry] = [
        Rule("conv_in.{p}", "stem.{p}"),
        Rule("time_embedding.linear_1.{p}", "time.up.{p}"),
        Rule("time_embedding.linear_2.{p}", "time.down.{p}"),
        Rule("conv_norm_out.{p}", "norm.{p}"),
        Rule("conv_out.{p}", "head.{p}"),
        Rule("down_blocks.{l}.downsamplers.0.conv.{p}", "down.{l}.halving.convolution.{p}"),
        Rule("up_blocks.{l}.upsamplers.0.conv.{p}", "up.{l}.doubling.convolution.{p}"),
    ]
    places = (("down_blocks.{l}", "down.{l}.steps"), ("mid_block", "middle"), ("up_blocks.{l}", "up.{l}.steps"))
    for theirs, here in places:
        table += residual_rules(f"{theirs}.resnets.{{i}}.", f"{here}.{{i}}.residual.")
        place = f"{theirs}.attentions.{{i}}.", f"{here}.{{i}}.attention."
        table += transformer_rules(*place) if ours.context else pixel_rules(*place, OLD if old else {})
    return table


def residual_rules(theirs: str, ours: str) -> list[Entry]:
    names = {"norm1": "norm1", "conv1": "convolution1", "norm2": "norm2", "conv2": "convolution2"}
    names |= {"time_emb_proj": "time", "conv_shortcut": "shortcut"}
    return [Rule(f"{theirs}{one}.{{p}}", f"{ours}{other}.{{p}}") for one, other in names.items()]


def pixel_rules(theirs: str, ours: str, old: dict[str, str]) -> list[Entry]:
    """Of an attention of pixels alone, whose layers have other names in older files."""
    names = {"to_q": "q", "to_k": "k", "to_v": "v", "to_out.0": "out"}
    attention = [Rule(f"{theirs}{old.get(one, one)}.{{p}}", f"{ours}mixer.{x}.{{p}}") for one, x in names.items()]
    return [Rule(f"{theirs}group_norm.{{p}}", f"{ours}norm.{{p}}"), *attention]


def transformer_rules(theirs: str, ours: str) -> list[Entry]:
    inside, block = theirs + "transformer_blocks.0.", ours + "block."
    table: list[Entry] = [
        Rule(theirs + "norm.{p}", ours + "norm.{p}"),
        Rule(theirs + "proj_in.{p}", ours + "into.{p}"),
        Rule(theirs + "proj_out.{p}", ours + "out.{p}"),
        Rule(inside + "norm1.{p}", block + "mixer_residual.norm.{p}"),
        Rule(inside + "norm2.{p}", block + "cross_residual.norm.{p}"),
        Rule(inside + "norm3.{p}", block + "ffn_residual.norm.{p}"),
        Rule(inside + "ff.net.0.proj.{p}", (block + "ffn.up.{p}", block + "ffn.gate.{p}"), Chunk(2)),
        Rule(inside + "ff.net.2.{p}", block + "ffn.down.{p}"),
    ]
    for one, other in (("attn1", "mixer"), ("attn2", "cross")):
        table += [Rule(f"{inside}{one}.to_{x}.{{p}}", f"{block}{other}.{x}.{{p}}") for x in "qkv"]
        table.append(Rule(f"{inside}{one}.to_out.0.{{p}}", f"{block}{other}.out.{{p}}"))
    return table
