"""Switch Transformers <-> Hugging Face (model_type switch_transformers).

There an expert has a fixed number of places for each text, padding included; here padding takes none.
"""

from collections.abc import Collection
from typing import Any

from regard.models.switch import Config

from .defaults import kind_defaults
from .foreign import THEIR_ACTIVATIONS, ForeignConfig
from .rules import Entry, Rule
from .t5 import around, export_shared, shared
from .tensor_ops import Chain, Fuse, Reshape


def config(theirs: ForeignConfig) -> Config:
    theirs.assume(kind_defaults("switch_transformers"))
    tied = theirs.take("tie_word_embeddings", bool)
    act = theirs.activation("dense_act_fn")
    theirs.expect("feed_forward_proj", theirs.data["dense_act_fn"])
    theirs.expect("is_gated_act", False)
    theirs.expect("router_bias", False)
    theirs.expect("router_dtype", "float32")
    theirs.expect("router_type", "tokens_masked")
    theirs.expect("batch_prioritized_routing", False)
    theirs.expect("num_selected_experts", 1)
    theirs.ignore("router_z_loss_coef", "router_aux_loss_coef", "add_router_probs", "output_router_logits")
    theirs.ignore("router_ignore_padding_tokens")  # which nothing there reads
    sizes = shared(theirs)
    return Config(
        **sizes,
        activation=act,
        tied=tied,
        experts=experts(theirs),
        every=every(theirs, "encoder", sizes["depth"]),
        decoder_every=every(theirs, "decoder", sizes["decoder_depth"]),
        room=theirs.size("expert_capacity"),
        jitter=theirs.share("router_jitter_noise"),
    )


def experts(theirs: ForeignConfig) -> int:
    """Each is a tensor there. To name more than the file can hold would take for ever."""
    value = theirs.size("num_experts")
    if theirs.tensors is not None and value > theirs.tensors:
        theirs.guess(f"num_experts = {value} is more experts than the checkpoint has tensors, {theirs.tensors}")
    return value


def every(theirs: ForeignConfig, side: str, depth: int) -> int:
    """The interval of switch layers, which their config gives as the number of switch layers."""
    key = f"num_sparse_{side}_layers"
    count = theirs.size(key, least=0)
    if count > depth:
        theirs.guess(f"{key} = {count} is more than the number of layers, {depth}")
    step = max(depth // count if count else depth, 1)
    theirs.expect(f"{side}_sparse_step", step)
    return step


def export_config(ours: Config) -> dict[str, Any]:
    depth = ours.decoder_depth or ours.depth
    return {
        "architectures": ["SwitchTransformersForConditionalGeneration"],
        "model_type": "switch_transformers",
        **export_shared(ours),
        "dense_act_fn": THEIR_ACTIVATIONS[ours.activation],
        "num_experts": ours.experts,
        "num_sparse_encoder_layers": ours.depth // ours.every,
        "num_sparse_decoder_layers": depth // (ours.decoder_every or ours.every),
        "expert_capacity": ours.room or 64,
        "router_jitter_noise": ours.jitter,
    }


def rules(ours: Config, names: Collection[str] | None = None) -> list[Entry]:
    """Their experts are separate modules, ours are stacked."""
    inner = {"wi": ("up", (ours.hidden, ours.dim)), "wo": ("down", (ours.dim, ours.hidden))}

    def feed_forward(layer: str, ffn: str) -> list[Entry]:
        found: list[Entry] = [Rule(f"{layer}.mlp.router.classifier.weight", f"{ffn}.router.weight")]
        for theirs, (mine, (out, dim)) in inner.items():
            every = tuple(f"{layer}.mlp.experts.expert_{i}.{theirs}.weight" for i in range(ours.experts))
            stacked = Chain(Fuse(ours.experts), Reshape((ours.experts * out, dim), (ours.experts, out, dim)))
            found.append(Rule(f"{layer}.mlp.{theirs}.weight", f"{ffn}.{mine}.weight"))
            found.append(Rule(every, f"{ffn}.experts.{mine}.weight", stacked))
        return found

    return around(ours, feed_forward, copies=not ours.tied)
