"""Tokens and patches into vectors."""

import math

from torch import Tensor, nn


class Lookup(nn.Embedding):
    """Embedding of token ids. An id out of range raises a ValueError, except on a GPU, where PyTorch reports it
    later."""

    def forward(self, ids: Tensor) -> Tensor:
        """(b, n) -> (b, n, d)"""
        try:
            return super().forward(ids)
        except IndexError:
            low, high = int(ids.min()), int(ids.max())
            raise ValueError(
                f"token id out of range of the vocabulary: got {low if low < 0 else high}, "
                f"expected from 0 to {self.num_embeddings - 1}"
            ) from None


class Patches(nn.Module):
    """Patch embedding: one convolution whose stride is its kernel size."""

    def __init__(self, size: int, channels: int, dim: int, *, biases: bool = True) -> None:
        super().__init__()
        self.size = size
        self.projection = nn.Conv2d(channels, dim, size, stride=size, bias=biases)

    def forward(self, images: Tensor) -> Tensor:
        """(b, channels, height, width) -> (b, rows, columns, d)"""
        height, width = images.shape[-2:]
        if height % self.size or width % self.size or not height or not width:
            raise ValueError(
                f"an image of {height} x {width} cannot be divided into patches of {self.size} x {self.size}"
            )
        return self.projection(images).movedim(1, -1)


def check_image_shape(images: Tensor, channels: int, side: int) -> Tensor:
    """Check that images have the size of the weights, and return them."""
    if images.shape[1:] != (channels, side, side):
        got = " x ".join(map(str, images.shape[1:]))
        raise ValueError(f"the weights are for images of {channels} x {side} x {side}, got an image of {got}")
    return images


def scaled_embedding(embedding: nn.Embedding, ids: Tensor) -> Tensor:
    """Embeddings times sqrt(d), as Vaswani et al. (2017), section 3.4.  (b, n) -> (b, n, d)"""
    return embedding(ids) * math.sqrt(embedding.embedding_dim)
