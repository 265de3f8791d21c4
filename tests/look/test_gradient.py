"""Gradient x attention: against changed weights, the sum rule, and what an answer cannot rest on."""

import pytest
import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.look.gradient import Graded, graded
from regard.look.maps import look_at
from regard.models import gpt, transformer, vit
from regard.nn.attention import MultiHeadAttention
from regard.nn.axis import Axis
from regard.nn.tap import listen
from regard.zoo import FAMILIES
from tests.contracts.families import inputs, net


class Readout(nn.Module):
    """One attention, nothing around it, and a linear answer: linear in the weights."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.mixer = MultiHeadAttention(8, 2, biases="")
        self.readout = nn.Linear(8, 3, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(b, n, d) -> (b, n, 3)"""
        return self.readout(self.mixer(x))


TABLE = {"mixer": ("tokens", "tokens")}


def of_readout(model: Readout, x: Tensor, row: int) -> Graded:
    axes = {"tokens": Axis("text", x.shape[1])}
    found = graded(model, "*", lambda: model(x), lambda y: y[:, row, 1], table=TABLE, axes=axes)
    assert list(found) == ["mixer"]
    (one,) = found["mixer"]
    assert one.found.rows == Axis("text", x.shape[1])
    return one


def moved(model: nn.Module, tap: str, where: tuple[int, ...], step: float) -> object:
    """A net one of whose weights is larger by a step."""

    def hear(_: str, x: Tensor) -> Tensor:
        x = x.clone()
        x[where] += step
        return x

    return listen(model, tap, hear)


def test_a_changed_weight_changes_the_answer_by_its_slope() -> None:
    model, x = Readout().double(), torch.randn(2, 5, 8).double()
    one = of_readout(model, x, 3)
    before = model(x)[:, 3, 1].detach()
    for where in [(0, 0, 3, 1), (0, 1, 3, 4), (1, 1, 3, 0), (1, 0, 2, 2)]:
        with moved(model, "mixer.weights", where, 0.25):
            change = (model(x)[:, 3, 1].detach() - before)[where[0]]
        assert float(change) == pytest.approx(0.25 * float(one.slope[where]), abs=1e-12)
        gone = -float(one.found.weights[where])
        with moved(model, "mixer.weights", where, gone):  # without it, the answer lacks the signed product
            change = (before - model(x)[:, 3, 1].detach())[where[0]]
        assert float(change) == pytest.approx(float(one.signed[where]), abs=1e-12)


def test_what_is_linear_is_the_sum_of_its_products() -> None:
    """And rows that the answer does not read have none."""
    model, x = Readout().double(), torch.randn(2, 5, 8).double()
    one = of_readout(model, x, 3)
    assert torch.allclose(one.signed[:, :, 3].sum((1, 2)), model(x)[:, 3, 1])
    others = [0, 1, 2, 4]
    assert float(one.signed[:, :, others].abs().max()) == 0
    assert float(one.relevance[:, others].abs().max()) == 0
    wanted = torch.stack([one.signed[:, h].where(one.signed[:, h] > 0, 0) for h in range(2)]).mean(0)
    assert torch.allclose(one.relevance, wanted)
    assert float(one.signed.min()) < 0 <= float(one.relevance.min())


@pytest.mark.parametrize(
    ("family", "table"), [("gpt", gpt.AXES), ("transformer", transformer.AXES), ("vit", vit.AXES), ("bert", gpt.AXES)]
)
def test_every_layer_of_a_net(family: str, table: dict[str, tuple[str, str]]) -> None:
    """Slopes against central differences, through all later layers; encoder, decoder and cross."""
    model, given = net(family), inputs(family)
    axes = model.axes(*given.values())

    def read(output: object) -> Tensor:
        y = output if isinstance(output, Tensor) else output.words  # type: ignore[attr-defined]
        return y.log_softmax(-1).flatten(1)[:, 3]

    found = graded(model, "*", lambda: model(**given), read, table=table, axes=axes)
    maps = look_at(model, "*", lambda: model(**given), table=table, axes=axes).maps
    assert list(found) == list(maps)
    for name, (one,) in found.items():
        assert torch.allclose(one.found.weights, maps[name].weights)
        assert not one.found.weights.requires_grad
        assert (one.found.rows, one.found.columns) == (maps[name].rows, maps[name].columns)
        for where in [(0, 1, 0, 0), (1, 3, -1, 1)]:
            answers = []
            for step in (1e-5, -1e-5):
                with torch.no_grad(), moved(model, f"{name}.weights", where, step):
                    answers.append(float(read(model(**given))[where[0]]))
            assert (answers[0] - answers[1]) / 2e-5 == pytest.approx(float(one.slope[where]), abs=1e-7, rel=1e-5), name


def test_later_tokens_and_unread_ones_are_worth_nothing() -> None:
    model, ids = net("gpt"), torch.randint(13, (2, 6))
    found = graded(model, "*", lambda: model(ids), lambda y: y[:, 2, 5], table=gpt.AXES, axes=model.axes(ids))
    for (one,) in found.values():
        assert float(one.signed[:, :, 3:].abs().max()) == 0  # rows after the one that is read
        assert float(one.signed[..., 3:].abs().max()) == 0  # columns that nobody of the others may see
    last = found["blocks.1.mixer"][0]
    assert float(last.signed[:, :, :2].abs().max()) == 0 < float(last.signed[:, :, 2].abs().max())


def test_a_recurrent_decoder_has_one_map() -> None:
    model, given = net("rnn"), inputs("rnn")
    axes = model.axes(*list(given.values())[:2])
    read = lambda y: y[:, -1, 2]  # noqa: E731
    (one,) = graded(model, "*", lambda: model(**given), read, table=FAMILIES["rnn"].axes, axes=axes)["decoder.cross"]
    assert one.slope.shape == one.found.weights.shape
    assert one.found.rows.size == list(given.values())[1].shape[1]
    assert float(one.slope.abs().max()) > 0


def test_a_frozen_net_and_inference() -> None:
    model, x = Readout(), torch.randn(1, 4, 8)
    wanted = of_readout(model, x, 1)
    model.requires_grad_(False)
    with torch.no_grad():
        found = of_readout(model, x, 1)
    assert torch.allclose(found.slope, wanted.slope)
    with torch.inference_mode():
        assert torch.allclose(of_readout(model, x, 1).slope, wanted.slope)


def test_what_has_no_slope_is_refused() -> None:
    model, x, axes = Readout(), torch.randn(1, 4, 8), {"tokens": Axis("text", 4)}
    with pytest.raises(InputError, match="does not depend"):
        graded(model, "*", lambda: model(x), lambda _: torch.ones(()), table=TABLE, axes=axes)
    fourier = net("bert", attention="fourier").float()
    ids = torch.randint(13, (1, 5))
    with pytest.raises(InputError, match="needs attention weights"):
        graded(fourier, "*", lambda: fourier(ids), lambda y: y.words[0, 0, 0], table=gpt.AXES, axes=fourier.axes(ids))
    half = net("bert", attention=("fourier", "softmax")).float()
    found = graded(half, "*", lambda: half(ids), lambda y: y.words[0, 0, 0], table=gpt.AXES, axes=half.axes(ids))
    assert list(found) == ["blocks.1.mixer"]
