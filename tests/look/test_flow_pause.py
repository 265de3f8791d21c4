"""A flow asks between its positions whether anybody still waits for it."""

import pytest
import torch

from regard.look.flow import attention_flow
from regard.look.maps import Map
from regard.nn.axis import Axis


class GoneError(Exception):
    pass


def test_a_flow_that_nobody_waits_for_ends_at_the_next_position() -> None:
    weights = torch.rand(1, 2, 6, 6).softmax(-1)
    layers = [Map("x", weights, Axis("text", 6), Axis("text", 6))] * 2
    asked = []

    def pause() -> None:
        asked.append(1)
        if len(asked) == 3:
            raise GoneError

    with pytest.raises(GoneError):
        attention_flow(layers, 2, pause)
    assert len(asked) == 3
    torch.testing.assert_close(attention_flow(layers, 2, lambda: None).weights, attention_flow(layers, 2).weights)
