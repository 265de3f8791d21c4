"""The Transformer made of PyTorch's own layers, with the norm before, after, or as Admin has it.

Admin's own code is no package, so its layers are PyTorch's with omega on the skip: norm(omega * x + f(x)).
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.models.transformer import Config, Transformer
from regard.nn.attention import MultiHeadAttention
from regard.nn.block import Block
from regard.nn.mask import Mask
from tests.parity.ours import Inputs, Run, Tensors, at_real

Pairs = list[tuple[Tensor, ...]]  # theirs, and ours: one, or several that are one matrix there


class AdminEncoderLayer(nn.TransformerEncoderLayer):
    def __init__(self, *sizes: Any, **how: Any) -> None:
        super().__init__(*sizes, **how)
        self.omegas = nn.ParameterList(nn.Parameter(torch.ones(self.linear1.in_features)) for _ in range(2))

    def forward(self, src: Tensor, src_mask: Any = None, src_key_padding_mask: Any = None, **_: Any) -> Tensor:
        x = self.norm1(self.omegas[0] * src + self._sa_block(src, src_mask, src_key_padding_mask))
        return self.norm2(self.omegas[1] * x + self._ff_block(x))


class AdminDecoderLayer(nn.TransformerDecoderLayer):
    def __init__(self, *sizes: Any, **how: Any) -> None:
        super().__init__(*sizes, **how)
        self.omegas = nn.ParameterList(nn.Parameter(torch.ones(self.linear1.in_features)) for _ in range(3))

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        **_: Any,
    ) -> Tensor:
        x = self.norm1(self.omegas[0] * tgt + self._sa_block(tgt, tgt_mask, tgt_key_padding_mask))
        x = self.norm2(self.omegas[1] * x + self._mha_block(x, memory, memory_mask, memory_key_padding_mask))
        return self.norm3(self.omegas[2] * x + self._ff_block(x))


def stock(config: Config) -> nn.Transformer:
    """nn.Transformer ends both stacks with a norm whatever the placement; the paper's post-norm has none there."""
    depth = config.depth if config.decoder_depth is None else config.decoder_depth
    sizes = (config.dim, config.heads, config.hidden, 0.0)
    how: dict[str, Any] = {"activation": F.relu, "batch_first": True, "norm_first": config.norm == "pre"}
    first, second = (
        (AdminEncoderLayer, AdminDecoderLayer)
        if config.norm == "admin"
        else (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)
    )
    norms = [nn.LayerNorm(config.dim, config.eps) if config.norm == "pre" else None for _ in range(2)]
    encoder = nn.TransformerEncoder(first(*sizes, **how), config.depth, norms[0], enable_nested_tensor=False)
    decoder = nn.TransformerDecoder(second(*sizes, **how), depth, norms[1])
    with warnings.catch_warnings(action="ignore"):  # it says which shortcuts it will not take
        return nn.Transformer(config.dim, config.heads, custom_encoder=encoder, custom_decoder=decoder, **how)


def attention_weights(theirs: nn.MultiheadAttention, ours: MultiHeadAttention) -> Pairs:
    """q, k and v are one matrix there."""
    pairs = [
        (theirs.in_proj_bias, ours.q.bias, ours.k.bias, ours.v.bias),
        (theirs.out_proj.weight, ours.out.weight),
        (theirs.out_proj.bias, ours.out.bias),
    ]
    if theirs.in_proj_weight is not None:
        return [(theirs.in_proj_weight, ours.q.weight, ours.k.weight, ours.v.weight), *pairs]
    apart = [(theirs.q_proj_weight, ours.q.weight), (theirs.k_proj_weight, ours.k.weight)]
    return [*apart, (theirs.v_proj_weight, ours.v.weight), *pairs]


def layer_weights(theirs: nn.Module, ours: Block) -> Pairs:
    pairs = attention_weights(theirs.self_attn, ours.mixer)
    residuals = [ours.mixer_residual, ours.ffn_residual]
    if ours.cross is not None:
        pairs += attention_weights(theirs.multihead_attn, ours.cross)
        residuals.insert(1, ours.cross_residual)
    modules = [(theirs.linear1, ours.ffn.up), (theirs.linear2, ours.ffn.down)]
    modules += [(getattr(theirs, f"norm{i}"), residual.norm) for i, residual in enumerate(residuals, 1)]
    if hasattr(theirs, "omegas"):
        pairs += [(omega, residual.omega) for omega, residual in zip(theirs.omegas, residuals, strict=True)]
    return pairs + [(getattr(one, p), getattr(two, p)) for one, two in modules for p in ("weight", "bias")]


def all_weights(theirs: nn.Transformer, ours: Transformer) -> Pairs:
    """Of the stacks; what is before and after them is ours in both."""
    pairs = []
    for stack, blocks in ((theirs.encoder, ours.encoder), (theirs.decoder, ours.decoder)):
        for layer, block in zip(stack.layers, blocks, strict=True):
            pairs += layer_weights(layer, block)
    ends = ((theirs.encoder.norm, ours.encoder_norm), (theirs.decoder.norm, ours.decoder_norm))
    return pairs + [(getattr(one, p), getattr(two, p)) for one, two in ends if one for p in ("weight", "bias")]


@torch.no_grad()
def copy_to_ours(pairs: Pairs) -> None:
    for their, *our in pairs:
        for part, chunk in zip(our, their.chunk(len(our)), strict=True):
            part.copy_(chunk)


def run_stock(theirs: nn.Transformer, ours: Transformer, inputs: Inputs) -> Run:
    """Words in and out by our embedding, all between by theirs.

    Where a query may look at nothing, as before the first word after padding on the left, their maps are NaN.
    """
    source_keys, keys = inputs.get("source_keys"), inputs.get("keys")
    blocked = {} if source_keys is None else {"src_key_padding_mask": ~source_keys}
    blocked |= {} if source_keys is None else {"memory_key_padding_mask": ~source_keys}
    blocked |= {} if keys is None else {"tgt_key_padding_mask": ~keys}
    n, device = inputs["target"].shape[1], inputs["target"].device
    future = ~torch.ones(n, n, dtype=torch.bool, device=device).tril()
    entered = [ours.tokens(inputs["source"], Mask(keys=source_keys)), ours.tokens(inputs["target"], Mask(keys=keys))]
    y = theirs(*entered, tgt_mask=future, **blocked)
    with watched(theirs) as maps, torch.no_grad():
        theirs(*entered, tgt_mask=future, **blocked)
    return Run(at_real({"logits": F.linear(y, ours.embed.weight)}, inputs), at_real(maps, inputs, rows=-2), entered)


@contextmanager
def watched(theirs: nn.Transformer) -> Iterator[Tensors]:
    """The maps of all their layers, under our names."""
    maps: Tensors = {}
    handles = []

    def ask(module: nn.Module, args: Any, named: Any) -> Any:
        return args, named | {"need_weights": True, "average_attn_weights": False}

    def place(name: str) -> Any:
        return lambda module, args, out: maps.__setitem__(name, out[1].detach())

    for name, module in theirs.named_modules():
        if isinstance(module, nn.MultiheadAttention):
            stack, _, i, kind = name.split(".")
            own = f"{stack}.{i}.{'mixer' if kind == 'self_attn' else 'cross'}"
            handles.append(module.register_forward_pre_hook(ask, with_kwargs=True))
            handles.append(module.register_forward_hook(place(own)))
    try:
        yield maps
    finally:
        for handle in handles:
            handle.remove()
