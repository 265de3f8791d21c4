"""References that are installed but cannot be imported must not break those that can."""

import sys


def hide_broken_torchvision() -> None:
    """timm asks for torchvision, whose published build wants another torch than the CPU one. transformers would import
    it and fail with it; hidden, it is simply not there."""
    try:
        import torchvision  # noqa: F401
    except (ImportError, RuntimeError, OSError):
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        sys.modules["torchvision"] = None  # type: ignore[assignment]
