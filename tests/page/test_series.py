"""A csv file of several series: the page asks for one, and takes its name."""

from pathlib import Path
from typing import Any

import pytest

import regard
from regard.modalities.series.processor import Series
from regard.model import Model
from regard.serve.limits import Limits
from tests.contracts.families import net

from .conftest import Open, live, until

ROWS = [f"{day},{day % 7 + 1.5},{day % 5 + 0.5}" for day in range(1, 29)]


@pytest.fixture(scope="module")
def served_series(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    runs = tmp_path_factory.mktemp("series")
    (runs / "waves").mkdir()
    (runs / "waves" / "run.toml").write_text("")
    made = Model("forecaster", net("forecaster").float(), Series(window=12), task="forecast")
    regard.save(made, runs / "waves" / "model")
    yield from live(runs, Limits())


def test_one_of_several_series_is_named(open_page: Open, served_series: str, tmp_path: Path) -> None:
    (tmp_path / "two.csv").write_text("\n".join(["time,north,south", *ROWS]))
    page = open_page(f"{served_series}/#model=run:waves", allow="422")
    assert not page.is_visible(".ask-series")
    page.set_input_files("[aria-label='Choose a csv file']", str(tmp_path / "two.csv"))
    until(page, "document.querySelector('.trouble').textContent.includes('several series')")
    page.fill(".ask-series", "south")
    page.keyboard.press("Enter")
    until(page, "document.querySelector('.trouble').hidden")
    until(page, "document.querySelector('.answer').textContent.includes('Forecast')")
