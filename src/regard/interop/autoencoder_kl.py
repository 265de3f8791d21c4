"""The autoencoder of latent diffusion <-> diffusers' AutoencoderKL."""

from collections.abc import Collection, Mapping
from typing import Any

from regard.models.autoencoder import Config

from .diffusers_config import (
    AUTOENCODER,
    CLASS,
    assume_class,
    given_activation,
    given_blocks,
    given_levels,
    their_activation,
)
from .foreign import ForeignConfig
from .rules import Entry, Rule
from .tensor_ops import Reshape
from .unet import OLD, pixel_rules, residual_rules

KIND = "AutoencoderKL"
DOWN, UP = "DownEncoderBlock2D", "UpDecoderBlock2D"
EPS = 1e-6  # theirs, which no key tells


def config(theirs: ForeignConfig) -> Config:
    assume_class(theirs, AUTOENCODER)
    theirs.ignore("force_upcast")  # in half precision alone
    down, up = given_blocks(theirs, "down_block_types", DOWN, DOWN), given_blocks(theirs, "up_block_types", UP, UP)
    if len(down) != len(up):
        theirs.guess(f"down_block_types and up_block_types must have the same length, got {len(down)} and {len(up)}")
    dim, multipliers = given_levels(theirs, len(down))
    channels = theirs.size("in_channels")
    theirs.same("out_channels", "in_channels")
    mixed = theirs.take("use_quant_conv", bool)
    theirs.expect("use_post_quant_conv", mixed)
    if theirs.data.get("shift_factor") is None:
        theirs.data["shift_factor"] = 0.0
    if (found := given_activation(theirs)) != "silu":
        theirs.guess(f"act_fn = {found[:60]!r} is not supported, expected 'silu'")  # theirs ends with silu
    return Config(
        image=rounded(theirs.side("sample_size"), len(down)),
        channels=channels,
        latent=theirs.size("latent_channels"),
        dim=dim,
        multipliers=multipliers,
        depth=theirs.depth("layers_per_block"),
        mixed=mixed,
        scale=theirs.above_zero("scaling_factor"),
        shift=theirs.take("shift_factor", float),
        norm_groups=theirs.size("norm_num_groups"),
        eps=EPS,
        activation="silu",
    )


def rounded(side: int, levels: int) -> int:
    """The size tells how large an image may be before it is cut into tiles; the net itself takes any."""
    factor = 1 << (levels - 1)
    return -(-side // factor) * factor


def export_config(ours: Config) -> dict[str, Any]:
    levels = len(ours.multipliers)
    return {
        CLASS: KIND,
        "in_channels": ours.channels,
        "out_channels": ours.channels,
        "down_block_types": [DOWN] * levels,
        "up_block_types": [UP] * levels,
        "block_out_channels": list(ours.widths),
        "layers_per_block": ours.depth,
        "act_fn": their_activation(ours.activation),
        "latent_channels": ours.latent,
        "norm_num_groups": ours.norm_groups,
        "sample_size": ours.image,
        "scaling_factor": ours.scale,
        "shift_factor": ours.shift or None,
        "use_quant_conv": ours.mixed,
        "use_post_quant_conv": ours.mixed,
    }


def rules(ours: Config, names: Collection[str] | None = None) -> list[Entry]:
    table: list[Entry] = [Rule("quant_conv.{p}", "mix_out.{p}"), Rule("post_quant_conv.{p}", "mix_in.{p}")]
    for half, levels, resizers in (("encoder", "down_blocks", "downsamplers"), ("decoder", "up_blocks", "upsamplers")):
        level, ours_level = f"{half}.{levels}.{{l}}.", f"{half}.levels.{{l}}."
        table += [
            Rule(f"{half}.conv_in.{{p}}", f"{half}.stem.{{p}}"),
            Rule(f"{half}.conv_norm_out.{{p}}", f"{half}.norm.{{p}}"),
            Rule(f"{half}.conv_out.{{p}}", f"{half}.head.{{p}}"),
            Rule(f"{level}{resizers}.0.conv.{{p}}", f"{ours_level}resize.convolution.{{p}}"),
            *residual_rules(f"{level}resnets.{{i}}.", f"{ours_level}residuals.{{i}}."),
            *residual_rules(f"{half}.mid_block.resnets.0.", f"{half}.middle.first."),
            *residual_rules(f"{half}.mid_block.resnets.1.", f"{half}.middle.second."),
            *attention_rules(ours, half, names),
        ]
    return table


def attention_rules(ours: Config, half: str, names: Collection[str] | None) -> list[Entry]:
    """By its names of today, or by the older ones of Stable Diffusion 1, there perhaps as 1x1 convolutions."""
    there, here = f"{half}.mid_block.attentions.0.", f"{half}.middle.attention."
    if not any(name.startswith(f"{there}proj_attn.") for name in names or ()):
        return pixel_rules(there, here, {})
    query, dim = f"{there}query.weight", ours.widths[-1]
    if not isinstance(names, Mapping) or len(names.get(query, ())) != 4:
        return pixel_rules(there, here, OLD)
    table: list[Entry] = [Rule(f"{there}group_norm.{{p}}", f"{here}norm.{{p}}")]
    for theirs, x in zip(OLD.values(), ("q", "k", "v", "out"), strict=True):
        flat = Reshape((dim, dim, 1, 1), (dim, dim))
        table += [
            Rule(f"{there}{theirs}.weight", f"{here}mixer.{x}.weight", flat),
            Rule(f"{there}{theirs}.bias", f"{here}mixer.{x}.bias"),
        ]
    return table
