"""The same random numbers in every run."""

import pytest
import torch


@pytest.fixture
def draw() -> torch.Generator:
    return torch.Generator().manual_seed(7)
