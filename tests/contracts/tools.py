"""What the contracts share: every row of the table of mechanisms in small, and every kind of mask, spelled out."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from regard.contracts.samples import (  # noqa: F401 (what tests/contracts and `regard contract` share)
    DIM,
    HEADS,
    MASKS,
    WIDTH,
    gradients,
    numbers,
    ragged,
    some_pairs,
    spelled,
    stirred,
)
from regard.contracts.samples import asked_by as asked  # noqa: F401
from regard.nn.attention import Kernel, Mixer, MultiHeadAttention
from regard.nn.batchnorm import ChannelNorm
from regard.nn.mask import Bias, Mask, TensorBias
from regard.nn.mechanisms import FREE, MECHANISMS, Choice, Traits, build_mixer
from regard.nn.positions import ALiBi, Buckets
from regard.nn.site import Site

Net = TypeVar("Net", bound=nn.Module)

# Every row as it is, and those whose settings only matter at larger sizes once more.
CHOICES: dict[str, Choice] = {name: name for name in MECHANISMS} | {
    "softmax-scale": {"kind": "softmax", "scale": 1.7},
    "local-window": {"kind": "local", "window": 2},
    "strided-split": {"kind": "strided", "stride": 2},
    "strided-merged": {"kind": "strided", "stride": 3, "looks": "merged"},
    "fixed-split": {"kind": "fixed", "block": 2},
    "fixed-merged": {"kind": "fixed", "block": 3, "looks": "merged"},
    "linformer-heads": {"kind": "linformer", "rank": 3, "length": 128, "shared": "none"},
    "linformer-windows": {"kind": "linformer", "rank": 32, "length": 128, "shared": "values", "sums": "convolution"},
    "synthesizer-factorised": {
        "kind": "synthesizer",
        "parts": ["factorised-dense", "factorised-random", "vanilla"],
        "length": 128,
    },
    "synthesizer-dense-length": {"kind": "synthesizer-dense", "length": 128},
    "local-p-window": {"kind": "local-p", "window": 2},
    "top-k-keep": {"kind": "top-k", "keep": 2},
    "performer-waves": {"kind": "performer", "form": "trigonometric", "features": 64},
    "random-features-gate": {"kind": "random-features", "gate": True, "features": 12},
    "token-mlp-hidden": {"kind": "token-mlp", "hidden": 3},
    "workspace-keep": {"kind": "workspace", "slots": 3, "keep": 2},
    "chunked-chunk": {"kind": "chunked", "chunk": 2},
    "lsh-buckets": {"kind": "lsh", "chunk": 2, "buckets": 4, "rounds": 2},
    "lsh-planes": {"kind": "lsh", "chunk": 3, "buckets": 2, "rounds": 2, "hashed": "planes", "alike": True},
    "lsh-often": {"kind": "lsh", "chunk": 2, "buckets": 4, "rounds": 3, "once": False, "seed": 1},
}

# What a row cannot honour and so refuses, in a word of its error: "causal", "context", "bias", "pairs" (of a mask),
# "dropout" (of weights that are never there), "length" (that it be unknown). All else is honoured by all: the contracts
# run over it.
REFUSES: dict[str, set[str]] = {
    "local": {"context"},
    "strided": {"context"},
    "fixed": {"context"},
    "local-p": {"causal"},
    "performer": {"pairs", "bias", "dropout"},
    "random-features": {"pairs", "bias", "dropout"},
    "fourier": {"causal", "context", "bias", "pairs", "dropout"},
    "token-mlp": {"causal", "context", "bias", "pairs", "dropout", "length"},
    "workspace": {"causal", "context", "bias", "pairs"},
    "synthesizer": {"context", "length"},
    "synthesizer-dense": {"context", "length"},
    "synthesizer-random": {"context", "length"},
    "linformer": {"causal", "bias", "pairs", "dropout", "length"},
    "chunked": {"context", "bias", "pairs"},
    "lsh": {"context", "bias", "pairs"},
}


def refuses(name: str, *what: str) -> bool:
    """Whether a row of CHOICES refuses one of these."""
    choice = CHOICES[name]
    words = REFUSES.get(choice if isinstance(choice, str) else choice["kind"], set())
    return not (words - {"length"} if "length" in choice else words).isdisjoint(what)


def traits(name: str) -> Traits:
    """Of a row of CHOICES: sines and cosines may be negative."""
    choice = CHOICES[name]
    kind = choice if isinstance(choice, str) else choice["kind"]
    return FREE if name == "performer-waves" else MECHANISMS[kind].traits


def later(cases: Sequence[tuple[str, ...]]) -> list[Any]:
    """(mechanism, ...): those of variants are for the slow tests."""
    return [case if case[0] in MECHANISMS else pytest.param(*case, marks=pytest.mark.slow) for case in cases]


def variants_later(names: Iterable[str]) -> list[Any]:
    """Mechanisms: variants of one are for the slow tests."""
    return [name if name in MECHANISMS else pytest.param(name, marks=pytest.mark.slow) for name in names]


def mixer(choice: Choice, *, causal: bool = False, groups: int | None = None, dropout: float = 0.0) -> Mixer:
    site = Site(dim=DIM, heads=HEADS, length=128, causal=causal, groups=groups, dropout=dropout)
    return stirred(build_mixer(choice, site))


def kernel(choice: Choice, *, dropout: float = 0.0) -> Kernel:
    found = mixer(choice, dropout=dropout)
    assert isinstance(found, MultiHeadAttention)
    return found.kernel


def lived(net: Net) -> Net:
    """As after some training: norms of channels remember something."""
    stirred(net)
    for module in net.modules():
        if isinstance(module, ChannelNorm):
            module.mean.normal_()
            module.variance.uniform_(0.5, 2.0)
    return net.eval()


KERNELS = [name for name, choice in CHOICES.items() if isinstance(mixer(choice), MultiHeadAttention)]
DECODERS = [name for name in CHOICES if not refuses(name, "causal")]
CROSSING = [name for name in CHOICES if not refuses(name, "context")]
BIASED = [name for name in CHOICES if not refuses(name, "bias")]
DROPPING = [name for name in CHOICES if not refuses(name, "dropout")]


BIASES: dict[str, Callable[[Mask, int, int], Bias | None]] = {
    "no-bias": lambda mask, q, k: None,
    "given": lambda mask, q, k: TensorBias(torch.randn(HEADS, q, k).double()),
    "alibi": lambda mask, q, k: ALiBi(HEADS, mask),
    "buckets": lambda mask, q, k: stirred(Buckets(HEADS, 8, 6))(mask),
}


def close(a: Tensor, b: Tensor, error: float = 1e-10) -> None:
    torch.testing.assert_close(a, b, rtol=error, atol=error)


class Largest(TorchDispatchMode):
    """Within, remembers the most numbers that any one new piece of memory held."""

    def __init__(self) -> None:
        super().__init__()
        self.numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for x in tree_leaves(out):
            if isinstance(x, Tensor):
                self.numel = max(self.numel, x.untyped_storage().nbytes() // x.element_size())
        return out
