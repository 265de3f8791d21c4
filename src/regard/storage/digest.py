"""Which weights these are: one number for all of them."""

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor


def weights_digest(state: Mapping[str, Tensor]) -> str:
    """SHA-256 of names, kinds, shapes and bytes, in the order of the names."""
    found = hashlib.sha256()
    for name in sorted(state):
        x = state[name].detach().cpu().contiguous()
        found.update(f"{name}\0{x.dtype}\0{tuple(x.shape)}\0".encode())
        found.update(x.flatten().view(torch.uint8).numpy().tobytes())
    return found.hexdigest()
