"""Norms by name. LayerNorm (Ba et al., 2016) and RMSNorm (Zhang and Sennrich, 2019) are PyTorch's own."""

from typing import Literal

from torch import nn

Norm = Literal["layer", "rms"]


def build_norm(kind: Norm, dim: int, eps: float) -> nn.Module:
    """layer: (x - mean) / sqrt(var + eps) * g + b, biased variance.  rms: x / sqrt(mean(x^2) + eps) * g."""
    kinds = {"layer": nn.LayerNorm, "rms": nn.RMSNorm}
    if kind not in kinds:
        raise ValueError(f"unknown norm {kind!r}; valid names are {', '.join(kinds)}")
    return kinds[kind](dim, eps=eps)
