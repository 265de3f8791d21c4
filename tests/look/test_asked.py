"""Analyses of a trace, by one word each: the same numbers as the functions give, about the model's own answer."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import regard
from regard.contracts.reach import model_of
from regard.errors import InputError
from regard.look.analyses import ANALYSES
from regard.look.changes import Head, Token
from regard.look.distance import mean_distance
from regard.look.rollout import rolled_out
from regard.look.trace import Trace
from regard.zoo import FAMILIES
from tests.contracts.families import net

STORY = "Anna sings . Boris paints . Anna"


@pytest.fixture(scope="module")
def story() -> Trace[Any]:
    return regard.load("recall").look(STORY)


@pytest.fixture(scope="module")
def translated() -> Trace[Any]:
    return regard.load("tatoeba-en-de").look("Where are my keys?")


@pytest.fixture(scope="module")
def digit() -> Trace[Any]:
    return regard.load("digits").look(Image.linear_gradient("L"))


@pytest.mark.parametrize("name", ANALYSES)
@pytest.mark.parametrize("which", ["story", "translated", "digit"])
def test_everything_can_be_asked_of_what_ships(name: str, which: str, request: pytest.FixtureRequest) -> None:
    told = json.loads(json.dumps(request.getfixturevalue(which).ask(name), allow_nan=False))
    assert told["name"] == name
    assert told["equation"]
    assert told["limit"].startswith("It does not show")


def test_a_rollout_is_that_of_the_layers_up_to_a_site(story: Trace[Any], translated: Trace[Any]) -> None:
    wanted = rolled_out(story.maps.values()).weights[0, 0]
    assert np.allclose(story.ask("rollout")["map"], wanted)
    first = story.ask("rollout", site="blocks.0.mixer")
    assert first["layers"] == ["blocks.0.mixer"]
    assert np.allclose(first["map"], rolled_out([story.maps["blocks.0.mixer"]]).weights[0, 0])
    assert translated.ask("rollout", site="encoder.3.mixer")["layers"] == [f"encoder.{i}.mixer" for i in range(4)]
    assert translated.ask("rollout")["layers"] == ["decoder.0.mixer", "decoder.1.mixer"]
    with pytest.raises(InputError, match="needs a self-attention layer"):
        translated.ask("rollout", site="decoder.0.cross")


def test_distances_are_those_of_the_maps(story: Trace[Any], translated: Trace[Any], digit: Trace[Any]) -> None:
    told = story.ask("distance")
    assert told["unit"] == "tokens"
    assert told["sites"]["blocks.1.mixer"] == pytest.approx(mean_distance(story.maps["blocks.1.mixer"])[0].tolist())
    assert set(translated.ask("distance")["sites"]) == {x for x in translated.sites if x.endswith("mixer")}
    weights = translated.maps["decoder.0.mixer"].weights[0, 0].numpy()
    by_hand = np.mean([sum(w * abs(i - j) for j, w in enumerate(row)) for i, row in enumerate(weights)])
    assert translated.ask("distance")["sites"]["decoder.0.mixer"][0] == pytest.approx(by_hand, rel=1e-5)
    assert digit.ask("distance")["unit"] == "patches"


def test_a_spectrum_of_one_head_and_of_the_mean(translated: Trace[Any]) -> None:
    weights = translated.maps["decoder.1.cross"].weights[0].numpy()
    for head, one in ((2, weights[2]), (None, weights.mean(0))):
        told = translated.ask("spectrum", site="decoder.1.cross", head=head)
        assert told["singular"] == pytest.approx(np.linalg.svd(one, compute_uv=False).tolist(), abs=1e-5)
        assert told["mass"][-1] == pytest.approx(1)
    with pytest.raises(InputError, match="head index out of range"):
        translated.ask("spectrum", head=4)


def test_leaving_out_the_verb_costs_the_answer_most(story: Trace[Any]) -> None:
    told = story.ask("occlusion")
    assert told["axis"] == "tokens"
    assert len(told["worth"]) == 7
    blind = story.change(Token("tokens", 1))
    answer = story.output[0, -1].argmax()
    lost = story.output[0, -1].log_softmax(-1)[answer] - blind.output[0, -1].log_softmax(-1)[answer]
    assert told["worth"][1] == pytest.approx(float(lost), abs=1e-4)
    assert told["worth"][4] == pytest.approx(0, abs=0.2)  # what Boris does


def test_parts_of_an_image_are_covered(digit: Trace[Any]) -> None:
    told = digit.ask("occlusion", patch=4)
    worth = np.array(told["worth"])
    assert worth.shape == (2, 2)
    assert told["patch"] == 4
    image = digit.example.inputs[0].clone()
    image[..., :4, :4] = image.mean()
    best = digit.output[0].argmax()
    lost = digit.output[0].log_softmax(-1)[best] - digit.net(image).detach()[0].log_softmax(-1)[best]
    assert worth[0, 0] == pytest.approx(float(lost), abs=1e-4)
    assert np.array(digit.ask("occlusion", patch=3)["worth"]).shape == (8, 8)  # squares overlap: a number a pixel


def test_gradient_times_attention_is_a_slope(story: Trace[Any]) -> None:
    told = np.array(story.ask("gradient", site="blocks.1.mixer", head=1)["map"])
    answer, step, weights = int(story.output[0, -1].argmax()), 1e-3, story.maps["blocks.1.mixer"].weights[0, 1]
    row, column = 6, int(np.abs(told[6]).argmax())

    def nudge(_: str, x: torch.Tensor) -> torch.Tensor:
        x = x.clone()
        x[0, 1, row, column] += step
        return x

    with torch.no_grad():
        before = story.net(*story.example.inputs)[0, -1].log_softmax(-1)[answer]
        with regard.listen(story.net, "blocks.1.mixer.weights", nudge):
            after = story.net(*story.example.inputs)[0, -1].log_softmax(-1)[answer]
    assert told[row, column] == pytest.approx(float((after - before) / step * weights[row, column]), rel=0.1, abs=1e-4)
    assert (np.array(story.ask("gradient", site="blocks.1.mixer")["map"]) >= 0).all()


def test_heads_are_silenced_one_by_one(story: Trace[Any]) -> None:
    told = story.ask("importance")["sites"]
    answer = int(story.output[0, -1].argmax())
    sure = [float(x.output[0, -1].log_softmax(-1)[answer]) for x in (story, story.change(Head("blocks.1.mixer", 2)))]
    assert told["blocks.1.mixer"][2] == pytest.approx(sure[0] - sure[1], abs=1e-4)


def test_the_last_layer_of_the_lens_is_the_answer(story: Trace[Any], digit: Trace[Any]) -> None:
    for found in (story, digit):
        word, sure = found.ask("lens")["layers"][-1]["tokens"][-1][0]
        assert (word, sure) == (found.answer.choices[0][0], pytest.approx(found.answer.choices[0][1], rel=1e-4))


def test_changes_hold_for_what_is_asked(story: Trace[Any]) -> None:
    changed = story.change(Head("blocks.1.mixer", 2))
    assert changed.ask("importance")["sites"]["blocks.1.mixer"][2] == pytest.approx(0, abs=1e-5)
    word, sure = changed.ask("lens")["layers"][-1]["tokens"][-1][0]
    assert (word, sure) == (changed.answer.choices[0][0], pytest.approx(changed.answer.choices[0][1], rel=1e-4))


def test_what_cannot_be_asked_is_refused(story: Trace[Any]) -> None:
    with pytest.raises(InputError, match="unknown analysis"):
        story.ask("meaning")
    with pytest.raises(InputError, match="unknown site"):
        story.ask("spectrum", site="blocks.9.mixer")
    from regard.look.trace import record_run

    bert, ids = net("bert", attention="fourier"), torch.randint(13, (1, 6))
    found = record_run(bert, "*", lambda: bert(ids), table=FAMILIES["bert"].axes, axes={})
    with pytest.raises(InputError, match="rollout needs attention weights"):
        found.ask("rollout")
    with pytest.raises(InputError, match="this trace has no example"):
        found.ask("importance")


@pytest.mark.parametrize("name", ["importance", "gradient", "occlusion"])
def test_an_answer_without_a_probability_is_told_by_what_it_is(name: str) -> None:
    forecast = model_of("forecaster").look([1.0, 2.0, 4.0, 3.0] * 4)
    with pytest.raises(
        InputError, match="explains the log-probability of an answer, and this answer has none"
    ) as error:
        forecast.ask(name)
    assert error.value.got == forecast.answer.subject() == "the forecast from 16 on"
    silent = replace(forecast, example=replace(forecast.example, tell=lambda output: None))
    with pytest.raises(InputError, match="the model gives no answer for this input, so there is nothing to explain"):
        silent.ask(name)
