"""What every net that reads a source and writes a target has, whatever it is made of.

Shapes: b batch, m source words, n target words, d width, v vocabulary.
"""

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from .axis import Axis
from .cache import Cache
from .loss import CrossEntropy, cross_entropy


class EncoderDecoder(nn.Module):
    """Base class of encoder-decoder models, which define ``encode``, ``read`` and the output matrix."""

    def encode(self, source: Tensor, keys: Tensor | None = None) -> Any:
        """(b, m) -> the encoder states that the decoder attends to; keys is False at padding"""
        raise NotImplementedError

    def read(
        self,
        target: Tensor,
        memory: Any,
        *,
        source_keys: Tensor | None = None,
        keys: Tensor | None = None,
        cache: Cache | None = None,
    ) -> Any:
        """(b, n) -> the hidden states of the decoder, before the output matrix"""
        raise NotImplementedError

    def spoken(self, states: Any) -> Tensor:
        """-> (b, n, d): the hidden states as the input of the output matrix"""
        found: Tensor = states
        return found

    def words(self) -> tuple[Tensor, Tensor | None]:
        """-> (v, d), (v,)"""
        raise NotImplementedError

    def logits(self, states: Any) -> Tensor:
        """-> (b, n, v)"""
        return F.linear(self.spoken(states), *self.words())

    def decode(
        self,
        target: Tensor,
        memory: Any,
        *,
        source_keys: Tensor | None = None,
        keys: Tensor | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        """(b, n) -> logits (b, n, v); with a cache, the target contains only the new tokens"""
        return self.logits(self.read(target, memory, source_keys=source_keys, keys=keys, cache=cache))

    def score(self, states: Any, wanted: Tensor, *, real: Tensor | None = None, smoothing: float = 0.0) -> CrossEntropy:
        """hidden states and targets (b, n): the cross-entropy of the targets, without forming all logits"""
        weight, bias = self.words()
        return cross_entropy(self.spoken(states), weight, wanted, bias=bias, real=real, smoothing=smoothing)

    def forward(
        self, source: Tensor, target: Tensor, *, source_keys: Tensor | None = None, keys: Tensor | None = None
    ) -> Any:
        """(b, m), (b, n) -> logits (b, n, v): the target is shifted right by a start token"""
        return self.decode(target, self.encode(source, source_keys), source_keys=source_keys, keys=keys)

    def axes(self, source: Tensor, target: Tensor) -> dict[str, Axis]:
        return {"source": Axis("text", source.shape[1]), "target": Axis("text", target.shape[1])}
