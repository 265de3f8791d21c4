"""Series over the border of the page: values with times, or the text of a csv file."""

from typing import Any

import pytest
from pydantic import ValidationError

from regard.errors import InputError
from regard.look.document import About, document_data
from regard.modalities.page_answers import PAGE_ANSWERS
from regard.modalities.page_input import InputContext
from regard.modalities.page_inputs import PAGE_INPUTS, look_inputs
from regard.modalities.series.page import SeriesInput, series_example
from regard.modalities.series.processor import Series
from regard.model import Model
from tests.contracts.families import net

CSV = "t,a,b\n1,1,5\n2,2,6\n3,4,8\n4,3,7\n"


@pytest.fixture
def model() -> Model:
    return Model("forecaster", net("forecaster").float(), Series(window=12))


def test_what_was_looked_at_can_be_given_again(model: Model) -> None:
    """The input of a document is an input, and its answer is one that the API tells of."""
    (given,) = look_inputs(SeriesInput.model_validate(series_example("", ())), InputContext(model))
    found = model.look(given)
    told = document_data(found, About("", "forecaster", None, 0, "series"))
    again = SeriesInput.model_validate(told["input"])
    assert again.values == pytest.approx(given.values[-12:].tolist())  # type: ignore[union-attr]
    (same,) = look_inputs(again, InputContext(model))
    one, two = (x.answer.data()["quantiles"]["0.5"] for x in (found, model.look(same)))  # type: ignore[union-attr]
    assert one == pytest.approx(two, rel=1e-4)
    PAGE_ANSWERS["forecast"].model_validate(told["answer"])
    assert told["axes"]["past"]["kind"] == told["axes"]["future"]["kind"] == "time"


def test_a_csv_file_and_one_of_its_series(model: Model) -> None:
    with pytest.raises(InputError, match="the file contains several series; select one by name"):
        SeriesInput(kind="series", csv=CSV).given(InputContext(model))
    (only,) = SeriesInput(kind="series", csv="t,a\n1,1\n2,3\n").given(InputContext(model))
    assert only.values.tolist() == [1, 3]  # type: ignore[union-attr]
    for name, values in (("a", [1, 2, 4, 3]), ("b", [5, 6, 8, 7])):
        (found,) = SeriesInput(kind="series", csv=CSV, name=name).given(InputContext(model))
        assert found.values.tolist() == values  # type: ignore[union-attr]
    with pytest.raises(InputError, match="unknown series"):
        SeriesInput(kind="series", csv=CSV, name="c").given(InputContext(model))
    with pytest.raises(InputError, match="the series has a gap"):
        SeriesInput(kind="series", times=["1", "2", "3", "5"], values=[1.0, 2.0, 3.0, 4.0]).given(InputContext(model))


@pytest.mark.parametrize(
    ("given", "got"),
    [
        ({"csv": "t,a\n1,1\n3,2\n2,3\n"}, "line 4: 2.0 after 3.0"),
        ({"times": ["1", "3", "2"], "values": [1.0, 2.0, 3.0]}, "value 3: 2.0 after 3.0"),
        ({"csv": "t,a\n1,1\n2,2\n3,nan\n4,x\n"}, "line 4: nan; line 5: x"),
        ({"csv": 't,a\n1,1\n2,"2\n'}, "line 3: unexpected end of data"),
        ({"times": ["1", '"2'], "values": [1.0, 2.0]}, "value 2: unexpected end of data"),
    ],
)
def test_the_place_of_a_fault_is_told(model: Model, given: dict[str, Any], got: str) -> None:
    """Once, though an answer of the server leaves out where a file is."""
    with pytest.raises(InputError) as error:
        SeriesInput.model_validate({"kind": "series"} | given).given(InputContext(model))
    assert error.value.got == got


@pytest.mark.parametrize("given", [{"csv": "t,a\n1,1\n2,1\n4,1\n"}, {"times": list("124"), "values": [1.0] * 3}])
def test_a_model_is_told_to_be_needed_where_nothing_can_be_set(model: Model, given: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="gap") as error:
        SeriesInput.model_validate({"kind": "series"} | given).given(InputContext(model))
    assert 'use a model trained with data.times = "ordered"' in error.value.fix


@pytest.mark.parametrize(
    "given", [{}, {"csv": CSV, "values": [1.0], "times": ["1"]}, {"values": [1.0]}, {"csv": "x" * (1 << 21)}]
)
def test_what_cannot_be_given(given: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        SeriesInput.model_validate({"kind": "series"} | given)


def test_every_model_of_series_has_its_row() -> None:
    assert SeriesInput in PAGE_INPUTS["series"].accepts
