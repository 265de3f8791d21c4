"""What the configs of diffusers have in common: their defaults, frozen for the pinned version, and their levels.

They name no ``model_type``, but a class. A test compares the defaults with what is installed.
"""

from collections.abc import Mapping
from typing import Any

from regard.errors import InputError

from .defaults import ReferenceDefaults
from .foreign import ForeignConfig

CLASS = "_class_name"
# What saves a config writes down of itself, and what an average of weights was made with.
IGNORED: tuple[str, ...] = (CLASS, "_diffusers_version", "_name_or_path", "_use_default_values")
IGNORED += ("decay", "inv_gamma", "min_decay", "optimization_step", "power", "update_after_step", "use_ema_warmup")
SAME_ACTIVATIONS = ("silu", "gelu", "relu")

# What both kinds of U-Net assume.
SHARED: dict[str, Any] = {
    "sample_size": None,
    "center_input_sample": False,
    "flip_sin_to_cos": True,
    "freq_shift": 0,
    "layers_per_block": 2,
    "downsample_padding": 1,
    "mid_block_scale_factor": 1,
    "dropout": 0.0,
    "act_fn": "silu",
    "norm_num_groups": 32,
    "norm_eps": 1e-5,
    "attention_head_dim": 8,
    "class_embed_type": None,
    "num_class_embeds": None,
    "resnet_time_scale_shift": "default",
    "time_embedding_type": "positional",
    "time_embedding_dim": None,
}
CONDITIONED = SHARED | {
    "in_channels": 4,
    "out_channels": 4,
    "down_block_types": ["CrossAttnDownBlock2D"] * 3 + ["DownBlock2D"],
    "mid_block_type": "UNetMidBlock2DCrossAttn",
    "up_block_types": ["UpBlock2D"] + ["CrossAttnUpBlock2D"] * 3,
    "only_cross_attention": False,
    "block_out_channels": [320, 640, 1280, 1280],
    "cross_attention_dim": 1280,
    "transformer_layers_per_block": 1,
    "reverse_transformer_layers_per_block": None,
    "encoder_hid_dim": None,
    "encoder_hid_dim_type": None,
    "num_attention_heads": None,
    "dual_cross_attention": False,
    "use_linear_projection": False,
    "addition_embed_type": None,
    "addition_time_embed_dim": None,
    "upcast_attention": False,
    "resnet_skip_time_act": False,
    "resnet_out_scale_factor": 1.0,
    "time_embedding_act_fn": None,
    "timestep_post_act": None,
    "time_cond_proj_dim": None,
    "conv_in_kernel": 3,
    "conv_out_kernel": 3,
    "projection_class_embeddings_input_dim": None,
    "attention_type": "default",
    "class_embeddings_concat": False,
    "mid_block_only_cross_attention": None,
    "cross_attention_norm": None,
    "addition_embed_type_num_heads": 64,
}
UNCONDITIONED = SHARED | {
    "in_channels": 3,
    "out_channels": 3,
    "down_block_types": ["DownBlock2D"] + ["AttnDownBlock2D"] * 3,
    "mid_block_type": "UNetMidBlock2D",
    "up_block_types": ["AttnUpBlock2D"] * 3 + ["UpBlock2D"],
    "block_out_channels": [224, 448, 672, 896],
    "downsample_type": "conv",
    "upsample_type": "conv",
    "attn_norm_num_groups": None,
    "add_attention": True,
    "num_train_timesteps": None,
}
AUTOENCODER: dict[str, Any] = {
    "in_channels": 3,
    "out_channels": 3,
    "down_block_types": ["DownEncoderBlock2D"],
    "up_block_types": ["UpDecoderBlock2D"],
    "block_out_channels": [64],
    "layers_per_block": 1,
    "act_fn": "silu",
    "latent_channels": 4,
    "norm_num_groups": 32,
    "sample_size": 32,
    "scaling_factor": 0.18215,
    "shift_factor": None,
    "latents_mean": None,
    "latents_std": None,
    "force_upcast": True,
    "use_quant_conv": True,
    "use_post_quant_conv": True,
    "mid_block_add_attention": True,
}


def assume_class(theirs: ForeignConfig, defaults: Mapping[str, Any]) -> None:
    """An absent key is what the class assumes, and what is said of the saving changes nothing."""
    theirs.assume(ReferenceDefaults(defaults))
    theirs.ignore(*IGNORED)


def given_words(theirs: ForeignConfig, key: str) -> list[str]:
    """A list of strings."""
    theirs.read.add(key)
    value: Any = theirs.data.get(key)
    if not isinstance(value, list | tuple) or not value or not all(isinstance(word, str) for word in value):
        theirs.guess(f"{key} = {value!r}"[:100] + " is not a list of strings")
        return [""]
    return list(value)


def given_blocks(theirs: ForeignConfig, key: str, plain: str, attending: str) -> list[bool]:
    """Of each level, whether its blocks attend; no other kind of block is known."""
    kinds = {plain: False, attending: True}
    found = given_words(theirs, key)
    for kind in dict.fromkeys(word for word in found if word and word not in kinds):
        theirs.guess(f"{key} has {kind[:60]!r}, which is not supported, expected {' or '.join(dict.fromkeys(kinds))}")
    return [kinds.get(kind, False) for kind in found]


def given_levels(theirs: ForeignConfig, known: int) -> tuple[int, tuple[int, ...]]:
    """The channels of the first level, and how many times as many each has, of so many levels as there are blocks."""
    widths = theirs.several("block_out_channels", stages=known)
    if odd := [width for width in widths if width % widths[0]]:
        theirs.guess(
            f"block_out_channels = {list(widths)}: {odd[0]} is not a multiple of the first, which is not supported"
        )
        return 1, (1,) * known
    return widths[0], tuple(width // widths[0] for width in widths)


def given_activation(theirs: ForeignConfig) -> str:
    found = theirs.take("act_fn", str)
    if found.lower() == "swish":
        return "silu"
    if found not in SAME_ACTIVATIONS:
        theirs.guess(f"act_fn = {found[:60]!r} is not supported, expected swish, {', '.join(SAME_ACTIVATIONS)}")
    return found


def their_activation(ours: str) -> str:
    if ours not in SAME_ACTIVATIONS:
        raise InputError(
            "this activation does not exist in diffusers",
            got=f"activation = {ours!r}",
            expected=", ".join(SAME_ACTIVATIONS),
        )
    return ours
