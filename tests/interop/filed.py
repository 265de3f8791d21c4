"""Files of tensors made for the tests."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import HealthCheck, settings
from torch import Tensor

from regard.errors import CheckpointError


def same(one: dict[str, Tensor], two: dict[str, Tensor]) -> bool:
    alike = one.keys() == two.keys() and all(one[name].dtype == two[name].dtype for name in one)
    return alike and all(torch.equal(one[name].to(torch.complex128), two[name].to(torch.complex128)) for name in one)


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(CheckpointError) as caught:
        call()
    return str(caught.value)


quick = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
