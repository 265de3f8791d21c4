"""Residual connections as objects: where the norm stands, and how much a branch may say.

Shapes: x and what f returns are (b, ..., d).
"""

import math
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from .dropout import Dropout
from .tap import Tap, listen

Sublayer = Callable[[Tensor], Tensor]


class Branch(nn.Module):
    """What is applied to a residual branch before it is added: LayerScale, dropout, stochastic depth.

    LayerScale (Touvron et al., 2021), https://arxiv.org/abs/2103.17239: a learned factor per feature, small at first.
    Stochastic depth (Huang et al., 2016), https://arxiv.org/abs/1603.09382: skip the branch for some examples.
    """

    def __init__(self, dim: int, *, dropout: float = 0.0, drop_path: float = 0.0, scale: float | None = None) -> None:
        super().__init__()
        self.scale = None if scale is None else nn.Parameter(torch.full((dim,), scale))
        self.dropout, self.drop_path = Dropout(dropout), drop_path
        self.said = Tap()

    def forward(self, y: Tensor) -> Tensor:
        y = self.dropout(y if self.scale is None else self.scale * y)
        if self.training and self.drop_path:
            keep = y.new_empty(len(y), *[1] * (y.ndim - 1)).bernoulli_(1 - self.drop_path)
            y = y * keep / (1 - self.drop_path)
        return self.said(y)


class PreNorm(nn.Module):
    """x + f(norm(x)): Xiong et al. (2020), https://arxiv.org/abs/2002.04745. The stack ends with one more norm."""

    def __init__(self, norm: nn.Module, branch: Branch) -> None:
        super().__init__()
        self.norm, self.branch = norm, branch

    def forward(self, x: Tensor, f: Sublayer) -> Tensor:
        return x + self.branch(f(self.norm(x)))


class PostNorm(nn.Module):
    """norm(x + f(x)), as Vaswani et al. (2017)."""

    def __init__(self, norm: nn.Module, branch: Branch) -> None:
        super().__init__()
        self.norm, self.branch = norm, branch

    def forward(self, x: Tensor, f: Sublayer) -> Tensor:
        return self.norm(x + self.branch(f(x)))


class ResPost(nn.Module):
    """x + norm(f(x)): Swin v2 (Liu et al., 2022), https://arxiv.org/abs/2111.09883."""

    def __init__(self, norm: nn.Module, branch: Branch) -> None:
        super().__init__()
        self.norm, self.branch = norm, branch

    def forward(self, x: Tensor, f: Sublayer) -> Tensor:
        return x + self.branch(self.norm(f(x)))


class Admin(nn.Module):
    """norm(omega * x + f(x)): Liu et al. (2020), https://arxiv.org/abs/2004.08249.

    omega, one factor per feature, weakens the branch against the skip so that no layer dominates at the start. It is
    1, and this is PostNorm to the bit, until ``profile`` has seen a batch.
    """

    def __init__(self, norm: nn.Module, branch: Branch, dim: int) -> None:
        super().__init__()
        self.norm, self.branch = norm, branch
        self.omega = nn.Parameter(torch.ones(dim))
        self.skip = Tap()

    def forward(self, x: Tensor, f: Sublayer) -> Tensor:
        y = self.branch(f(x))
        return self.norm(self.omega * self.skip(x) + y)


Residual = PreNorm | PostNorm | ResPost | Admin
Placement = Literal["pre", "post", "admin", "res-post"]


def build_residual(placement: Placement, norm: nn.Module, branch: Branch, dim: int) -> Residual:
    """Build the residual connection with this norm placement."""
    if placement == "admin":
        return Admin(norm, branch, dim)
    if placement == "pre":
        return PreNorm(norm, branch)
    if placement == "post":
        return PostNorm(norm, branch)
    if placement == "res-post":
        return ResPost(norm, branch)
    raise ValueError(f"unknown norm placement {placement!r}; valid values are {', '.join(get_args(Placement))}")


@torch.no_grad()
def profile(stacks: Iterable[nn.Module], run: Callable[[], object]) -> None:
    """Profiling phase of Admin: run one batch in training mode and set every omega, in the order of the layers.

    omega_1 = 1, omega_(i+1)^2 = Var[omega_i x_(i-1)] + Var[f_i]; each stack (encoder, decoder) accumulates by itself.
    """
    with ExitStack() as listening:
        for stack in stacks:
            accumulate(stack, listening)
        run()


def accumulate(stack: nn.Module, listening: ExitStack) -> None:
    """Set the omegas of one stack as its layers are reached."""
    variance, branch = 1.0, 0.0  # omega^2 of the next layer; Var[f] of the layer being run

    def speak(_: str, y: Tensor) -> None:
        nonlocal branch
        branch = float(y.var(unbiased=False))

    def skip(name: str, x: Tensor) -> None:
        nonlocal variance
        admin = stack.get_submodule(name.removesuffix(".skip"))
        assert isinstance(admin, Admin)
        admin.omega.fill_(math.sqrt(variance))
        variance = variance * float(x.var(unbiased=False)) + branch

    listening.enter_context(listen(stack, "*.branch.said", speak))
    listening.enter_context(listen(stack, "*.skip", skip))
    training = stack.training
    listening.callback(stack.train, training)
    stack.train()
