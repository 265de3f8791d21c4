"""The figures of section 3: every check can fail, and diagrams show the module tree that ran, not a remembered one."""

from typing import Any

import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.text import Text

from lectures.tests.test_figures import NAMES, every_check_fails, recorded
from regard import style
from regard.models.transformer import Config
from regard_lectures import table
from regard_lectures.transformer import copying, dependency, river, scores
from regard_lectures.transformer.anatomy import dissect
from regard_lectures.transformer.diagram import Look, label, transformer

PARTS = [{"kind": "attention", "norm": "after", "causal": False, "cross": False}]
SPOILED: dict[str, list[tuple[str, Any]]] = {
    "3.2": [("anchors", 1e-3), ("law", 1e-3), ("rotation", 1e-3), ("norm", 1e-3), ("peak", 1.0)],
    "3.2b": [
        ("without.accuracy", [0.13] * 3),
        ("without.loss", [2.1] * 3),
        ("with.accuracy", [0.8] * 3),
        ("without.equivariance", 0.1),
        ("with.equivariance", 1e-6),
    ],
    "3.3": [("anatomy.residuals", 29), ("pre.branches", 11), ("pre.difference", 1e-7), ("post.difference", 0.1)],
    "3.3b": [
        ("without", [[2.0] * 25] * 3),
        ("with", [[1.0] * 25] * 3),
        ("shallow", [2.7] * 25),
        ("identity.0", 0.999),
        ("identity.1", 1.001),
        ("distinct.without.-1", 0.1),
        ("distinct.with.-1", 0.01),
    ],
    "3.4": [
        ("lit.layer.1.0.0", 1),
        ("lit.batch.1.0.5", 0),
        ("others.layer", 1e-9),
        ("others.batch", 0.0),
        ("mean", 1e-3),
        ("variance", 0.2),
        ("batch_mean", 1e-3),
        ("scaled", 1e-3),
        ("root", 1e-3),
    ],
    "3.4b": [
        ("layer 1.curves", [[1.386] * 30] * 3),
        ("layer 1.right", [0.25] * 3),
        ("batch 1.curves", [[0.5] * 30] * 3),
        ("batch 1.right", [0.9] * 3),
        ("batch 32.curves", [[1.386] * 30] * 3),
        ("refused", False),
    ],
    "3.4c": [
        ("post.norms", 32),
        ("pre.norms", 30),
        ("post.encoder.parts.0.norm", "before"),
        ("pre.decoder.parts.2.norm", "after"),
    ],
    "3.5": [
        ("post.parts.1.norm", "before"),
        ("pre.parts.0.norm", "after"),
        ("post.final", True),
        ("pre.final", False),
        ("difference.post", 0.1),
        ("difference.pre", 0.1),
    ],
    "3.5b": [("post.2.-1", 0.3), ("pre.2.-1", 0.3), ("post.2.-1", 0.1), ("post.2.0", 0.7), ("pre.2.0", 0.9)],
    "3.5c": [
        ("cold.post", [[0.2] * 24] * 3),
        ("cold.pre", [[0.9] * 24] * 3),
        ("warm.post", [[0.9] * 80] * 3),
    ],
    "3.6": [("post.decoder", [0.5] * 54), ("pre.decoder.0", 0.001)],
    "3.6b": [
        ("alone.post.-1", 8e-6),
        ("encoder.post.-1", 3e-6),
        ("alone.pre", [1e-6, 2e-6, 4e-6, 8e-6, 16e-6]),
        ("alone.admin", [1e-6, 2e-6, 4e-6, 8e-6, 16e-6]),
        ("encoder.pre", [1e-6, 2e-6, 4e-6, 8e-6, 16e-6]),
        ("encoder.admin", [1e-6, 2e-6, 4e-6, 8e-6, 16e-6]),
    ],
    "3.6c": [
        ("fresh", 1e-7),
        ("post.error", 0.1),
        ("pre.error", 0.1),
        ("admin.error", 0.1),
        ("post.shares", [1 / (i + 1) for i in range(64)]),
        ("pre.shares", [0.3] * 64),
        ("admin.shares", [0.3] * 64),
    ],
    "3.6d": [("post", [[0.2] * 16] * 3), ("pre", [[0.9] * 16] * 3), ("admin", [[0.9] * 16] * 3)],
    "3.7": [
        ("anatomy.encoder.parts", PARTS),
        ("anatomy.decoder.parts", PARTS),
        ("anatomy.decoder.parts.0.norm", "before"),
        ("anatomy.memory", 1),
        ("anatomy.residuals", 29),
        ("anatomy.norms", 32),
        ("future", 1e-3),
        ("weights.base", 80_000_000),
        ("weights.big", 300_000_000),
    ],
    "3.7b": [],  # quoted
    "3.7c": [("rnn.3", 6), ("transformer.3", 32), ("rows", 0.1)],
    "3.7d": [
        ("anatomy.encoder.depth", 5),
        ("anatomy.decoder.depth", 5),
        ("anatomy.memory", 1),
        ("anatomy.decoder.parts", PARTS),
    ],
    "3.7e": [
        ("rivals.RNN with attention.minutes", 1.0),
        ("rivals.RNN with attention.weights", 1),
        ("rivals.RNN with attention.bleu", 1.0),
        ("rivals.Transformer.bleu", 1.0),
    ],
    "3.8": [
        ("steps.-1.encoder", 5),
        ("encoder_words", [5, 5]),
        ("decoder_words.2", 3),
        ("steps.2.kept", 1),
        ("difference", 1e-3),
        ("said", "am Seeufer entlang gehen"),
        ("steps.2.offered.0", "gehen"),
    ],
    "3.8b": [
        ("difference", 1e-3),
        ("cached.even.2", 1),
        ("cached.even", [7, 7, 7, 7, 7]),
        ("anew.even.2", 1),
        ("anew.even", [1, 2, 3, 4, 5]),
        ("anew.operations.-1", 10**12),
        ("cached.operations.-1", 10**9),
    ],
}


def test_all_of_section_3_is_spoiled_above():
    assert [name for name in NAMES if ".transformer." in table.FIGURES[name]] == list(SPOILED)


@pytest.mark.parametrize("name", list(SPOILED))
def test_every_check_can_fail(name):
    every_check_fails(name, SPOILED[name])


def test_quoted_costs_are_time_times_cards_times_capacity():
    """And the number of English-French is that of the paper's final version."""
    found = recorded("3.7b")["numbers"]
    quoted = {row["name"]: row for row in found["quoted"] if row["group"] == scores.OURS}
    assert quoted["big"]["bleu"][1] == 41.8
    for name in scores.DAYS:
        assert found["capacity"][name] == pytest.approx(quoted[name]["cost"][0], rel=0.05)
        assert 0.1 < found["counted"][name] / quoted[name]["cost"][0] < 1


# The diagrams follow the modules ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("norm", "place", "extra"), [("post", "after", 0), ("pre", "before", 2), ("admin", "after", 0)]
)
def test_anatomy_reads_the_tree(norm, place, extra):
    found = dissect(Config(vocab=50, dim=16, depth=3, decoder_depth=2, heads=2, hidden=32, norm=norm))
    assert [label(part) for part in found["encoder"]["parts"]] == ["self-attention", "feed-forward"]
    wrote = ["masked self-attention", "cross-attention", "feed-forward"]
    assert [label(part) for part in found["decoder"]["parts"]] == wrote
    assert {part["norm"] for name in ("encoder", "decoder") for part in found[name]["parts"]} == {place}
    assert (found["encoder"]["depth"], found["decoder"]["depth"], found["memory"]) == (3, 2, 2)
    assert found["residuals"] == 3 * 2 + 2 * 3
    assert found["norms"] == found["residuals"] + extra


def drawn(found: dict[str, Any]) -> list[str]:
    with style.font_family():
        picture = Figure((10, 9))
        transformer(style.stage(picture), 1, 0, found, Look(), ("in", "late", "out"))
        return [text.get_text() for text in picture.findobj(Text)]


def test_the_diagram_shows_what_was_found():
    config = Config(vocab=50, dim=16, depth=3, decoder_depth=2, heads=2, hidden=32)
    said = drawn(dissect(config))
    assert said.count("norm") == 5
    assert (said.count("3 ×"), said.count("2 ×"), said.count("cross-attention")) == (1, 1, 1)
    found = dissect(Config(vocab=50, dim=16, depth=3, heads=2, hidden=32, norm="pre"))
    assert drawn(found).count("norm") == 7


# The toys -----------------------------------------------------------------------------------------


def test_the_rate_rises_along_a_line_and_falls_to_nothing():
    rates = [copying.share(step, 100, 20) for step in range(100)]
    assert rates[:2] == [0.05, 0.1]
    assert max(rates) == rates[19] == rates[20] == 1.0
    assert rates[-1] < 0.001
    assert copying.share(0, 100, 0) == 1.0


def test_the_decoder_is_given_each_word_late():
    assert copying.late(torch.tensor([[3, 1, 2]])).tolist() == [[copying.START, 3, 1]]


def test_the_phrase_that_is_shown_is_not_trained_on():
    known = river.phrases()
    assert known.count(river.SHOWN) == 1
    assert len(set(known)) == len(known) == 66
    translator = river.train(0, steps=1)
    ids = translator.ids(["walking to the river bank", "am Bahnhof sitzen"])
    assert [translator.words[i] for i in ids[1]][-2:] == [river.PADDING] * 2


def test_parts_of_a_norm_add_up_to_the_norm():
    parts = [torch.randn(4, 8, dtype=torch.float64) for _ in range(3)]
    whole = torch.nn.functional.layer_norm(sum(parts), (8,))
    torch.testing.assert_close(sum(dependency.normed(parts)), whole)
