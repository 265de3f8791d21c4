"""The core against the library that people use today, with the same weights: both must first give the same numbers."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

import regard
from regard.model import Model
from regard.nn.attention import Softmax
from regard.nn.mask import CAUSAL
from tests.guard import hide_broken_torchvision

from .measure import Result, race

hide_broken_torchvision()
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedModel  # noqa: E402


def twin(reference: PreTrainedModel) -> Model:
    with tempfile.TemporaryDirectory() as folder:
        reference.save_pretrained(folder)
        return regard.load(Path(folder))


def agree(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3)


def read_gpt(rounds: int, threads: int) -> Result:
    """GPT-2 small reads 256 tokens."""
    reference = GPT2LMHeadModel(GPT2Config()).eval()
    model = twin(reference)
    fast = regard.prepare(model)
    ids = torch.randint(50257, (1, 256))
    with torch.inference_mode():
        agree(fast(ids), reference(ids).logits)
        contenders: dict[str, Callable[[], object]] = {
            "transformers": lambda: reference(ids, use_cache=False).logits,
            "regard": lambda: model(ids),
            "regard, prepared": lambda: fast(ids),
            "regard, one layer looked at": lambda: fast(ids, look="blocks.5.mixer"),
            "regard, all layers looked at": lambda: fast(ids, look="*"),
        }
        return race("GPT-2 124M reads 1 x 256 tokens", contenders, rounds=rounds, threads=threads)


def learn(rounds: int, threads: int) -> Result:
    """A GPT of 6 layers of width 512 makes a training step."""
    reference = GPT2LMHeadModel(GPT2Config(n_layer=6, n_embd=512, n_head=8, resid_pdrop=0, attn_pdrop=0, embd_pdrop=0))
    model = twin(reference).train()
    ids = torch.randint(50257, (4, 257))

    def step(logits: Tensor) -> None:
        F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()).backward()

    contenders: dict[str, Callable[[], object]] = {
        "transformers": lambda: step(reference(ids[:, :-1], use_cache=False).logits),
        "regard": lambda: step(model(ids[:, :-1])),
    }
    return race("GPT 6 x 512, forward and backward, 4 x 256 tokens", contenders, rounds=rounds, threads=threads)


def long(rounds: int, threads: int) -> Result:
    """Dropout in training at 4,096 tokens, where the fused kernel has none and PyTorch forms the matrix."""
    q, k, v = (torch.randn(1, 4, 4096, 64, requires_grad=True) for _ in range(3))
    kernel = Softmax(dropout=0.1).train()

    def plain() -> None:
        F.scaled_dot_product_attention(q, k, v, dropout_p=0.1, is_causal=True).sum().backward()

    def ours() -> None:
        kernel(q, k, v, CAUSAL).sum().backward()

    contenders: dict[str, Callable[[], object]] = {"PyTorch, n x n": plain, "regard, by rows": ours}
    return race("attention with dropout, 4 heads, n = 4096, with gradient", contenders, rounds=rounds, threads=threads)


ALL: dict[str, Callable[[int, int], Result]] = {"read": read_gpt, "learn": learn, "long": long}
