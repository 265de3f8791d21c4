"""Spectrum: how many independent ways of looking there are in a map.

The effective rank: A measure of effective dimensionality (Roy and Vetterli, 2007),
https://infoscience.epfl.ch/record/110188
    A = U diag(s) V^T,    p_i = s_i / (s_1 + s_2 + ...),    rank = exp(-(p_1 log p_1 + p_2 log p_2 + ...))
Of n equal singular values it is n, of a single one 1. How much of their sum the largest hold, their mass, is what
Linformer (Wang et al., 2020), https://arxiv.org/abs/2006.04768, figure 1, shows of attention.

Singular values serve any map, of weights or of influence, square or not, and do not change when rows or columns change
places. Eigenvalues are those of a square map, from which positions go on to themselves: their moduli tell what is left
when it is applied again and again. With rows that sum to 1 the largest is 1; of a causal map they are its diagonal.

It does not tell what is low in rank for a reason: nearly even maps are, before anything is learned, so a trained net is
to be held against an untrained one.

Shapes: b batch, h heads, q rows, k columns, m the smaller of both. A map of windows has a spectrum for each window.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.errors import InputError

from .maps import Map

EQUATION = "A = U diag(s) Vᵀ, p = s / Σs, rank = exp(−Σ p log p)"
LIMIT = "It does not show which positions matter, nor whether low rank was learned: near-uniform maps always have it."


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Spectrum of each head's attention map."""

    singular: Tensor  # (b, h, m), the largest first
    mass: Tensor  # (b, h, m): the share of their sum that the largest 1, 2, ... hold
    rank: Tensor  # (b, h), from 1 to m; 0 of a map in which nobody looks at anything
    moduli: Tensor | None  # (b, h, q): absolute eigenvalues of a square map, the largest first


def spectrum_of(found: Map) -> Spectrum:
    """Singular values, effective rank and eigenvalues of the maps, (b, h, q, k)."""
    weights = found.weights
    if 0 in weights.shape:
        raise InputError("the spectrum of an empty map is not defined", where=found.name, got=f"{tuple(weights.shape)}")
    singular = singular_values(weights)
    square = weights.shape[-2] == weights.shape[-1]
    return Spectrum(singular, cumulative_share(singular), effective_rank(singular), moduli(weights) if square else None)


def singular_values(weights: Tensor) -> Tensor:
    """Singular values in descending order.  (..., q, k) -> (..., m)"""
    return torch.linalg.svdvals(wide(weights))


def cumulative_share(singular: Tensor) -> Tensor:
    """Cumulative share of the singular values, the largest first.  (..., m) -> (..., m)"""
    return shares(singular).cumsum(-1)


def effective_rank(singular: Tensor) -> Tensor:
    """Effective rank: the exponential of the entropy of the normalised singular values.  (..., m) -> (...)"""
    return torch.special.entr(shares(singular)).sum(-1).exp() * (singular.sum(-1) > 0)


def moduli(weights: Tensor) -> Tensor:
    """Moduli of the eigenvalues in descending order.  (..., n, n) -> (..., n)"""
    return torch.linalg.eigvals(wide(weights)).abs().sort(-1, descending=True).values


def shares(singular: Tensor) -> Tensor:
    total = singular.sum(-1, keepdim=True)
    return singular / total.where(total > 0, 1)


def wide(weights: Tensor) -> Tensor:
    """Single precision at least: there are no decompositions in half."""
    return weights.float() if weights.dtype in (torch.float16, torch.bfloat16) else weights
