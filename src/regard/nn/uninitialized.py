"""Nets without memory, of which nothing is to be filled."""

from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode


class SkipInitialization(TorchFunctionMode):
    """Context manager: skip the random initialisation of meta tensors, for which PyTorch would load its compiler."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in RANDOM:
            tensor = args[0] if args else kwargs["tensor"]
            if tensor.is_meta:
                return tensor
        return func(*args, **(kwargs or {}))


RANDOM = {nn.init.normal_, nn.init.uniform_, nn.init.kaiming_uniform_, nn.init.trunc_normal_}
RANDOM |= {torch.Tensor.normal_, torch.Tensor.uniform_}
