"""DiT <-> diffusers (``_class_name`` DiTTransformer2DModel, in older folders Transformer2DModel).

Every block has a copy of the embeddings of steps and labels there, of which the published files have equal ones; where
they differ, a file is refused. The class builds them with waves that end at the largest period, unlike the paper.
"""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

from regard.models.dit import Config

from .defaults import ReferenceDefaults
from .foreign import ForeignConfig
from .rules import Entry, Rule, Tied

CLASS = "DiTTransformer2DModel"
WAVES = 256
EPS = 1e-6  # of all norms but the one before the feed-forward
# What the class assumes of keys that are absent; a test compares it with the class.
DEFAULTS: Mapping[str, Any] = MappingProxyType(
    {
        "num_attention_heads": 16,
        "attention_head_dim": 72,
        "in_channels": 4,
        "out_channels": None,
        "num_layers": 28,
        "dropout": 0.0,
        "norm_num_groups": 32,
        "attention_bias": True,
        "sample_size": 32,
        "patch_size": 2,
        "activation_fn": "gelu-approximate",
        "num_embeds_ada_norm": 1000,
        "upcast_attention": False,
        "norm_type": "ada_norm_zero",
        "norm_elementwise_affine": False,
        "norm_eps": 1e-5,
    }
)
# Keys of the older class, with the values that a DiT has.
OLDER: Mapping[str, tuple[object, ...]] = MappingProxyType(
    {
        "cross_attention_dim": (None,),
        "num_vector_embeds": (None,),
        "only_cross_attention": (False,),
        "double_self_attention": (False,),
        "use_linear_projection": (False,),
        "attention_type": ("default",),
        "caption_channels": (None,),
        "interpolation_scale": (None, 1, 1.0),
        "use_additional_conditions": (None, False),
    }
)
ACTIVATIONS = {"gelu-approximate": "gelu_tanh", "gelu": "gelu"}


def config(theirs: ForeignConfig) -> Config:
    theirs.assume(ReferenceDefaults(DEFAULTS))
    theirs.expect("_class_name", CLASS, "Transformer2DModel")
    theirs.ignore("_diffusers_version", "norm_num_groups")  # no norm has groups
    theirs.expect("norm_type", "ada_norm_zero")
    theirs.expect("upcast_attention", False)
    for key, values in OLDER.items():
        theirs.expect(key, *values)
    theirs.divides("patch_size", "sample_size")
    heads, width = theirs.size("num_attention_heads"), theirs.size("attention_head_dim")
    told = theirs.take("activation_fn", str)
    if told not in ACTIVATIONS and "activation_fn" not in theirs.wrong:
        theirs.guess(f"activation_fn = {told[:60]!r} is not supported, expected {', '.join(ACTIVATIONS)}")
    return Config(
        image=theirs.pixels("sample_size"),
        patch=theirs.pixels("patch_size"),
        channels=theirs.size("in_channels"),
        out_channels=theirs.optional_size("out_channels"),
        classes=theirs.size("num_embeds_ada_norm"),
        dim=heads * width,
        depth=theirs.depth("num_layers"),
        heads=heads,
        hidden=4 * heads * width,
        waves=WAVES,
        slowest=1,
        dropout=theirs.share("dropout"),
        eps=EPS,
        ffn_eps=theirs.above_zero("norm_eps"),
        affine=theirs.take("norm_elementwise_affine", bool),
        activation=ACTIVATIONS.get(told, "gelu"),
        qkv_bias=theirs.take("attention_bias", bool),
    )


def export_config(ours: Config) -> dict[str, Any]:
    return {
        "_class_name": CLASS,
        "num_attention_heads": ours.heads,
        "attention_head_dim": ours.dim // ours.heads,
        "in_channels": ours.channels,
        "out_channels": ours.made,
        "num_layers": ours.depth,
        "dropout": ours.dropout,
        "attention_bias": ours.qkv_bias,
        "sample_size": ours.image,
        "patch_size": ours.patch,
        "activation_fn": next((name for name, own in ACTIVATIONS.items() if own == ours.activation), ours.activation),
        "num_embeds_ada_norm": ours.classes,
        "norm_type": "ada_norm_zero",
        "norm_elementwise_affine": ours.affine,
        "norm_eps": ours.eps if ours.ffn_eps is None else ours.ffn_eps,
    }


def rules(ours: Config, names: Collection[str] | None = None) -> list[Entry]:
    layer, block = "transformer_blocks.{i}.", "blocks.{i}."
    table: list[Entry] = [
        Rule("pos_embed.proj.{p}", "patch.projection.{p}"),
        Rule(layer + "norm1.linear.{p}", block + "modulation.{p}"),
        Rule(layer + "attn1.to_q.{p}", block + "mixer.q.{p}"),
        Rule(layer + "attn1.to_k.{p}", block + "mixer.k.{p}"),
        Rule(layer + "attn1.to_v.{p}", block + "mixer.v.{p}"),
        Rule(layer + "attn1.to_out.0.{p}", block + "mixer.out.{p}"),
        Rule(layer + "ff.net.0.proj.{p}", block + "ffn.up.{p}"),
        Rule(layer + "ff.net.2.{p}", block + "ffn.down.{p}"),
        Rule("proj_out_1.{p}", "modulation.{p}"),
        Rule("proj_out_2.{p}", "head.{p}"),
    ]
    if ours.affine:
        table.append(Rule(layer + "norm3.{p}", block + "ffn_norm.{p}"))
    shared = {
        "timestep_embedder.linear_1.{p}": "step.first.{p}",
        "timestep_embedder.linear_2.{p}": "step.last.{p}",
        "class_embedder.embedding_table.{p}": "labels.{p}",
    }
    for theirs, own in shared.items():
        table.append(Rule(f"transformer_blocks.0.norm1.emb.{theirs}", own))
        table += [Tied(f"transformer_blocks.{i}.norm1.emb.{theirs}", own, written=True) for i in range(1, ours.depth)]
    return table
