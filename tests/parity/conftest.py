"""Before any reference is imported."""

from tests.guard import mend_torchvision

mend_torchvision()
