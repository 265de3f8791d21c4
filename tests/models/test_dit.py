"""What only a DiT claims: it begins as the identity, knows the row for no label, and reads a text beside it."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.errors import ConfigError
from regard.models.dit import FAMILY, Config, DiT, drawn_inputs
from regard.nn.config import parse
from regard.nn.tap import capture
from tests.contracts.tools import stirred

CONFIG: Config = FAMILY.example()
TEXT = replace(CONFIG, classes=0, context=6)


def made(config: Config) -> DiT:
    torch.manual_seed(0)
    return stirred(DiT(config)).eval()


def test_it_begins_with_nothing_to_say() -> None:
    """Gates, the cross-attention's last layer and the head are zero, and still the gates learn at the first step."""
    for config in (CONFIG, TEXT):
        net = DiT(config).double()
        with capture(net, "*.stream") as seen:
            found = net(**drawn_inputs(config, 2))
        assert not found.any()
        first, last = seen["blocks.0.stream"][0], seen["blocks.1.stream"][0]
        assert torch.equal(first, last)
        assert first.any()
    torch.nn.init.normal_(net.head.weight)
    net(**drawn_inputs(TEXT, 2)).square().sum().backward()
    assert net.blocks[0].modulation.weight.grad.any()
    assert net.blocks[0].cross.out.weight.grad.any()


def test_no_label_is_a_row_of_its_own() -> None:
    net = made(CONFIG)
    given = drawn_inputs(CONFIG, 3)
    none = given | {"label": torch.full((3,), CONFIG.classes)}
    assert torch.equal(net(**none), net(given["noisy"], given["time"]))
    assert not torch.allclose(net(**none), net(**given))
    with pytest.raises(ValueError, match="out of range of the vocabulary: got 6"):
        net(**given | {"label": torch.full((3,), CONFIG.classes + 1)})


def test_labels_are_hidden_in_training() -> None:
    """As many as are asked for, and each row for itself."""
    net = made(replace(CONFIG, label_dropout=0.3))
    time, label = torch.zeros(4000, dtype=torch.long), torch.ones(4000, dtype=torch.long)
    told, none = net.condition(time[:1], label[:1]), net.condition(time[:1], None)
    torch.manual_seed(0)
    found = net.train().condition(time, label)
    hidden = torch.isclose(found, none).all(-1)
    assert torch.equal(hidden, ~torch.isclose(found, told).all(-1))
    assert 0.26 < float(hidden.double().mean()) < 0.34


def test_a_text_is_read_up_to_its_end() -> None:
    net = made(TEXT)
    given: dict[str, Any] = drawn_inputs(TEXT, 3)
    context: Tensor = given.pop("context")
    keys = torch.arange(7) < torch.tensor([7, 4, 1])[:, None]
    found = net(**given, context=context.masked_fill(~keys[..., None], torch.nan), keys=keys)
    for i, count in enumerate((7, 4, 1)):
        row = {name: x[i : i + 1] for name, x in given.items()}
        assert torch.allclose(found[i : i + 1], net(**row, context=context[i : i + 1, :count]), atol=1e-10)
    other = torch.cat((context[1:], context[:1]))
    assert not torch.allclose(found, net(**given, context=other, keys=keys))
    with capture(net, "*.cross.weights") as seen:
        net(**given, context=context, keys=keys)
    assert seen["blocks.0.cross.weights"][0].shape == (3, 4, 16, 7)
    axes = net.axes(given["noisy"], given["time"], context=context)
    assert axes["tokens"].size == 7


def test_what_it_cannot_be_told_is_refused() -> None:
    given = drawn_inputs(TEXT, 2)
    with pytest.raises(ValueError, match=r"got none, with config\.context = 6"):
        made(TEXT)(given["noisy"], given["time"])
    with pytest.raises(ValueError, match=r"got one, with config\.context = None"):
        made(CONFIG)(**given)
    with pytest.raises(ValueError, match="no labels"):
        made(TEXT)(**given, label=torch.zeros(2, dtype=torch.long))
    with pytest.raises(ValueError, match="cannot be divided into patches"):
        made(CONFIG)(torch.zeros(1, 4, 7, 8).double(), torch.zeros(1))


@pytest.mark.parametrize(
    "changes",
    [{"dim": 18, "heads": 2}, {"waves": 7}, {"waves": 2}, {"slowest": 2}, {"image": 9}, {"heads": 3}, {"context": 0}],
)
def test_bad_sizes_are_refused(changes: dict[str, int]) -> None:
    with pytest.raises((ValueError, ConfigError), match=next(iter(changes))):
        parse(Config, vars(CONFIG) | changes)


def test_one_row_of_many() -> None:
    net, given = made(CONFIG), drawn_inputs(CONFIG, 3)
    whole = net(**given)
    for i in range(3):
        alone = net(**{name: x[i : i + 1] for name, x in given.items()})
        assert torch.allclose(alone, whole[i : i + 1], atol=1e-12)
