"""References that are installed but cannot be imported must not break those that can."""

from regard.interop.reopening import hide_broken_torchvision, mend_torchvision

__all__ = ["hide_broken_torchvision", "mend_torchvision"]
