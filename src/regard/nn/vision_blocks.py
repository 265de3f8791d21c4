"""The blocks of nets that see images as patches: what several papers have in common. Configs call one idea by one word,
so they are read as they are."""

from collections.abc import Callable, Sequence
from typing import Any

from torch import nn

from .block import Block
from .feedforward import FeedForward, activation
from .mechanisms import Choice, build_mixer, layer_choices
from .mixers.windows import WindowAttention
from .residual import Branch, PreNorm, ResPost
from .site import Site


def patch_blocks(
    config: Any, length: int, drop_paths: Sequence[float], *, dropout: float = 0.0, scale: float | None = None
) -> nn.ModuleList:
    """Pre-norm blocks with any attention among ``length`` tokens, each with a chance of its own to be left out: those
    of ViT, DeiT, CaiT and VOLO."""
    common: dict[str, nn.Module] = {}

    def block(choice: Choice, drop_path: float) -> Block:
        site = Site(
            dim=config.dim,
            heads=config.heads,
            length=length,
            dropout=config.attention_dropout,
            biases="qkvo" if config.qkv_bias else "o",
            common=common,
        )
        return Block(
            build_mixer(choice, site),
            FeedForward(config.dim, config.hidden, activation(config.activation), dropout=dropout),
            lambda: PreNorm(
                nn.LayerNorm(config.dim, config.eps),
                Branch(config.dim, dropout=dropout, drop_path=drop_path, scale=scale),
            ),
        )

    return nn.ModuleList(map(block, layer_choices(config.attention, config.depth), drop_paths))


def drop_path_rates(last: float, depth: int, before: int = 0) -> list[float]:
    """Chances that grow evenly from 0 in the first block of a net to that of the last; ``before`` came other blocks."""
    return [last * (before + i) / max(before + depth - 1, 1) for i in range(depth)]


def window_block(
    config: Any,
    stage: int,
    i: int,
    *,
    window: int,
    offsets: Callable[[], nn.Module],
    biases: str,
    residual: type[PreNorm] | type[ResPost],
) -> Block:
    """Block ``i`` of a stage of Swin, and of Swin v2: any attention within windows, which every other block shifts.
    Each stage is twice as wide as the one before."""
    wider, before, all_blocks = 2**stage, sum(config.depth[:stage]) + i, sum(config.depth)
    site = Site(
        dim=config.dim * wider,
        heads=config.heads[stage],
        length=window**2,
        biased=True,
        dropout=config.attention_dropout,
        biases=biases,
    )
    attention = build_mixer(layer_choices(config.attention, all_blocks)[before], site)
    return Block(
        WindowAttention(attention, offsets(), window, window // 2 if i % 2 else 0),
        FeedForward(site.dim, config.hidden * wider, activation(config.activation), dropout=config.dropout),
        lambda: residual(
            nn.LayerNorm(site.dim, config.eps),
            Branch(site.dim, dropout=config.dropout, drop_path=drop_path_rates(config.drop_path, all_blocks)[before]),
        ),
    )
