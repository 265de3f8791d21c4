"""Gradient x attention of windows, and of looks word by word, against autograd through weights formed by hand."""

import copy
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.look.answers import Labels, label_choices
from regard.look.examples import Example, answer_log_probability
from regard.look.gradient import graded, joined_gradient
from regard.look.trace import Trace, record_run
from regard.models import rnn, swin, swinv2
from regard.nn.attention import Kernel, MultiHeadAttention
from regard.nn.mask import Bias, Mask
from tests.contracts.tools import stirred

SIZES = {
    "image": 18, "patch": 2, "channels": 2, "classes": 4, "dim": 8, "depth": (2, 1), "heads": (2, 2), "hidden": 12,
    "window": 4,
}  # fmt: skip
NETS = {
    "swin": lambda: swin.Swin(swin.Config(**SIZES)),
    "swinv2": lambda: swinv2.SwinV2(swinv2.Config(**SIZES)),
}


class Kept(Kernel):
    """Another kernel by its definition, whose weights stay, and so do their slopes."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self.kernel, self.seen = kernel, []

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Bias | None) -> Tensor:
        weights = self.kernel.weights(q, k, mask, bias)
        weights.retain_grad()
        self.seen.append(weights)
        return weights @ v


def by_hand(net: nn.Module, images: Tensor, label: int) -> dict[str, Tensor]:
    """A * dy/dA of every attention, y the log-probability of a label.  -> (b*w, h, n, n) each"""
    twin = copy.deepcopy(net)
    sites = {name: module for name, module in twin.named_modules() if isinstance(module, MultiHeadAttention)}
    for module in sites.values():
        module.kernel = Kept(module.kernel)
    twin(images).log_softmax(-1)[:, label].sum().backward()
    found = {name: module.kernel.seen[0] for name, module in sites.items()}
    return {name: (weights * weights.grad).detach() for name, weights in found.items()}


def spread_out(signed: Tensor, places: list[list[tuple[int, int] | None]], columns: int) -> Tensor:
    """Each weight where its two positions are in the image.  (w, h, n, n) -> (h, m, m)"""
    size = len({place for window in places for place in window if place is not None})
    found = torch.zeros(signed.shape[1], size, size, dtype=signed.dtype)
    for window, inside in zip(signed, places, strict=True):
        for i, row in enumerate(inside):
            for j, column in enumerate(inside):
                if row is not None and column is not None:
                    found[:, row[0] * columns + row[1], column[0] * columns + column[1]] = window[:, i, j]
    return found


def looked(net: Any, table: dict[str, tuple[str, str]], *given: Tensor, tell: Any, sure: Any) -> Trace[Any]:
    with torch.no_grad():
        found = record_run(net, "*", lambda: net(*given), table=table, axes=net.axes(*given))
    return replace(found, example=Example(given, tell, ("image",), dict, sure=sure), answer=tell(found.output))


def label_of(logits: Tensor) -> Labels:
    return label_choices(logits[0], ())


@pytest.mark.parametrize("name", NETS)
def test_windows_are_graded_as_autograd_says(name: str) -> None:
    """With borders that are shifted, and a grid that does not come out even; window by window, and as one map."""
    torch.manual_seed(0)
    net = stirred(NETS[name]()).eval()
    images = torch.randn(2, 2, 18, 18, dtype=torch.float64)
    wanted = by_hand(net, images, 3)
    axes = net.axes(images)
    told = graded(net, "*", lambda: net(images), lambda y: y.log_softmax(-1)[:, 3], table=swin.AXES, axes=axes)
    assert list(told) == list(wanted)
    for site, (one,) in told.items():
        assert torch.allclose(one.signed, wanted[site], atol=1e-10)
        assert float(one.signed.abs().max()) > 1e-6
        cut, both = one.found.rows.cut, joined_gradient(one)
        assert len(one.signed) == 2 * cut.count
        for i in range(2):
            mine = wanted[site][i * cut.count : (i + 1) * cut.count]
            assert torch.allclose(both.signed[i], spread_out(mine, cut.places(), cut.grid[1]), atol=1e-10)


@pytest.mark.parametrize("name", NETS)
def test_windows_can_be_asked(name: str) -> None:
    torch.manual_seed(1)
    net = stirred(NETS[name]()).eval()
    images = torch.randn(1, 2, 18, 18, dtype=torch.float64)
    found = looked(net, swin.AXES, images, tell=label_of, sure=answer_log_probability)
    wanted = by_hand(net, images, int(found.output[0].argmax()))
    assert {site.rows.cut.shift for site in found.sites.values()} > {(0, 0)}
    for site, one in found.sites.items():
        cut = one.rows.cut
        signed = spread_out(wanted[site], cut.places(), cut.grid[1])
        head = torch.tensor(found.ask("gradient", site=site, head=1)["map"], dtype=torch.float64)
        mean = torch.tensor(found.ask("gradient", site=site)["map"], dtype=torch.float64)
        assert torch.allclose(head, signed[1], atol=1e-10)
        assert torch.allclose(mean, signed.clamp(min=0).mean(0), atol=1e-10)


def test_a_look_for_each_word_is_one_map() -> None:
    """Of a recurrent decoder, which looks again for every word: as many rows as words."""
    torch.manual_seed(2)
    config = rnn.Config(vocab=9, dim=8, hidden=8, align=8, maxout=4)
    net = stirred(rnn.RNNTranslator(config)).eval()
    source, target = torch.randint(9, (1, 5)), torch.randint(9, (1, 4))

    def sure(output: Tensor, first: Tensor) -> Tensor:
        return output.log_softmax(-1)[..., 2].sum(-1)

    found = looked(net, rnn.AXES, source, target, tell=lambda y: label_of(y[:, -1]), sure=sure)
    told = torch.tensor(found.ask("gradient", site="decoder.cross", head=0)["map"], dtype=torch.float64)
    twin = copy.deepcopy(net)
    twin.decoder.cross.kernel = kernel = Kept(net.decoder.cross.kernel)
    sure(twin(source, target), source).sum().backward()
    wanted = torch.cat([(weights * weights.grad)[0, 0].detach() for weights in kernel.seen])
    assert wanted.shape == (4, 5)
    assert torch.allclose(told, wanted, atol=1e-10)
