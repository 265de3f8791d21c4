"""Before any reference is imported."""

from tests.guard import hide_broken_torchvision

hide_broken_torchvision()
