"""Nets that forecast: the quantile loss is its definition, padding changes nothing, steps come in order."""

import numpy as np
import pytest
import torch
from torch import Tensor

from regard.look.maps import look_at
from regard.nn.series import move_padding_left, not_quantiles, quantile_losses
from regard.zoo import FAMILIES
from tests.contracts.families import config, net
from tests.contracts.tools import close

NETS = ("forecaster", "seriesrnn", "serieslinear")


def test_the_quantile_loss_is_its_definition() -> None:
    said, wanted = torch.randn(5, 4, 3).double(), torch.randn(5, 4).double()
    quantiles = torch.tensor([0.1, 0.5, 0.9]).double()
    found = quantile_losses(said, wanted, quantiles)
    for i in np.ndindex(5, 4, 3):
        q, e = float(quantiles[i[2]]), float(wanted[i[:2]] - said[i])
        assert float(found[i]) == pytest.approx(q * e if e >= 0 else (q - 1) * e)
    close(found[..., 1], (wanted - said[..., 1]).abs() / 2)


def test_it_is_least_at_the_quantile() -> None:
    wanted = torch.arange(1001).double() / 1000
    places = torch.linspace(0, 1, 101).double()
    for q in (0.1, 0.5, 0.9):
        losses = [float(quantile_losses(x.expand(1001, 1), wanted, torch.tensor([q])).mean()) for x in places]
        assert float(places[int(np.argmin(losses))]) == pytest.approx(q, abs=0.011)


@pytest.mark.parametrize("bad", [(), (0.5, 0.1), (0.0, 0.5), (0.5, 1.0), (0.1, 0.9), (0.5, 0.5)])
def test_quantiles_that_are_none(bad: tuple[float, ...]) -> None:
    class Config:
        quantiles = bad

    assert not_quantiles(Config())


def padded(values: Tensor, lengths: list[int], side: str) -> tuple[Tensor, Tensor]:
    """The last values of each row, with garbage beside them."""
    n = values.shape[1]
    places = torch.arange(n)
    keys = torch.stack([places < k if side == "right" else places >= n - k for k in lengths])
    rows = torch.randn_like(values) * 100
    for row, k in enumerate(lengths):
        rows[row, keys[row]] = values[row, -k:]
    rows[~keys] = torch.where(torch.rand_like(rows[~keys]) < 0.3, torch.nan, rows[~keys])
    return rows, keys


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("family", NETS)
def test_padding_never_changes_a_forecast(family: str, side: str) -> None:
    """Whatever stands there, NaN too: a short window beside long ones gets the numbers that it gets alone."""
    model, values, lengths = net(family), torch.randn(3, 9).double(), [9, 4, 1]
    rows, keys = padded(values, lengths, side)
    found = model(rows, keys=keys)
    for row, k in enumerate(lengths):
        close(found[row], model(values[row : row + 1, -k:])[0], 1e-9)


@pytest.mark.parametrize("family", NETS)
def test_keys_of_other_windows_are_refused(family: str) -> None:
    with pytest.raises(ValueError, match=r"shape of the tokens: got \(2, 5\), expected \(2, 6\)"):
        net(family)(torch.randn(2, 6).double(), keys=torch.ones(2, 5, dtype=torch.bool))


def test_known_values_go_to_the_right_in_their_order() -> None:
    values = torch.tensor([[1.0, torch.nan, 3.0, torch.nan]])
    found, keys = move_padding_left(values, ~values.isnan())
    assert found.tolist() == [[0.0, 0.0, 1.0, 3.0]]
    assert keys is not None
    assert keys.tolist() == [[False, False, True, True]]


def test_a_step_ahead_sees_no_later_step() -> None:
    """With a shorter horizon, the same weights tell the same first steps."""
    long, values = net("forecaster"), torch.randn(2, 8).double()
    short = FAMILIES["forecaster"].net(config("forecaster", horizon=2)).double().eval()
    short.load_state_dict(long.state_dict())
    close(short(values), long(values)[:, :2])


def test_maps_over_time() -> None:
    model, values = net("forecaster"), torch.randn(1, 7).double()
    found = look_at(model, "*", lambda: model(values), table=FAMILIES["forecaster"].axes, axes=model.axes(values))
    shapes = {name: tuple(x.weights.shape[-2:]) for name, x in found.maps.items()}
    assert shapes["encoder.0.mixer"] == (7, 7)
    assert shapes["decoder.0.mixer"] == (4, 4)
    assert shapes["decoder.1.cross"] == (4, 7)
    assert float(found.maps["decoder.1.mixer"].weights.triu(1).abs().max()) == 0
    assert {x.rows.kind for x in found.maps.values()} == {"time"}


def test_a_window_that_is_too_long_for_the_map_is_refused() -> None:
    with pytest.raises(ValueError, match="a window of 12 values, got 13"):
        net("serieslinear")(torch.randn(1, 13).double())


def test_the_linear_map_learns_what_least_squares_finds() -> None:
    """On noiseless linear data the median's map becomes the true one, which is that of least squares."""
    torch.manual_seed(0)
    true, values = torch.randn(2, 4) / 2, torch.randn(256, 4)
    wanted = values @ true.T
    squares = torch.linalg.lstsq(values, wanted).solution.T
    model = FAMILIES["serieslinear"].net(config("serieslinear", length=4, horizon=2, quantiles=(0.5,)))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-2)
    for step in range(250):
        optimizer.param_groups[0]["lr"] = 3e-2 * (1 - step / 250)
        loss = quantile_losses(model(values), wanted, torch.tensor([0.5])).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert float((model.map.weight.detach() - squares).abs().max()) < 5e-3
    assert float((squares - true).abs().max()) < 1e-5
