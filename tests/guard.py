"""References that are installed but cannot be imported must not break those that can."""

import sys

import torch

DECLARED: list[torch.library.Library] = []  # while they are kept, what they declare is there


def mend_torchvision() -> None:
    """timm itself needs torchvision, but none of its compiled parts. Where these are missing, the two operators that
    its Python names while it is imported are declared, and never called; if that is not enough, it is hidden."""
    try:
        import torchvision  # noqa: F401
    except (ImportError, RuntimeError, OSError):
        forget()
        library = torch.library.Library("torchvision", "DEF")
        DECLARED.append(library)
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        hide_broken_torchvision()


def hide_broken_torchvision() -> None:
    """timm asks for torchvision, whose published build wants another torch than the CPU one. transformers would import
    it and fail with it; hidden, it is simply not there."""
    try:
        import torchvision  # noqa: F401
    except (ImportError, RuntimeError, OSError):
        forget()
        sys.modules["torchvision"] = None  # type: ignore[assignment]


def forget() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]
