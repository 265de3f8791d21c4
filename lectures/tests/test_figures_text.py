"""The figures of T5, Switch and GPT-3: every check can fail, and their toys and measures are what they say."""

import math
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from lectures.tests.test_figures import every_check_fails, module
from regard.errors import InputError
from regard.models.t5 import T5
from regard.nn.encdec import EncoderDecoder
from regard.nn.mask import ALL
from regard.nn.positions import Buckets
from regard_lectures.figure import seeded
from regard_lectures.table import FIGURES
from regard_lectures.text import experts, in_context, languages, longer, prefixes, speed_up, staircase

STAIRS = [min(abs(offset) // 2, 15) for offset in range(-300, 301)]
UNTAUGHT = {"right": [0.04] * 9, "told": 0.04, "untold": 0.04, "tested": 2400, "repeated": 0, "before": "", "after": ""}
SPOILED: dict[str, list[tuple[str, Any]]] = {
    "4.3": [
        ("prompts.zero-shot", "Translate English to German:\ncheese =>"),
        ("prompts.few-shot", "Translate English to French:\nsea otter => loutre de mer\ncheese => fromage"),
        ("prompts.zero-shot", "Translate English to French:\na => b\ncheese =>"),
        ("prompts.one-shot", "Translate English to French:\ncheese =>"),
        ("prompts.one-shot", "Translate English to French:\npeppermint => menthe poivrée\ncheese =>"),
        ("digests.2", "0" * 64),
        ("parameters", 170_000_000_000),
    ],
    "4.3b": [
        ("runs.1.repeated", 3),
        ("runs.0.after", "0"),
        ("runs.1.after", "0"),
        ("runs.2.after", "0"),
        ("runs.0.right.0", 0.1),
        ("runs.1.right.8", 0.4),
        ("runs", [UNTAUGHT] * 3),
        ("runs.0.told", 0.9),
        ("runs.1.untold", 0.1),
        ("best", [1.0] * 9),
    ],
    "4.3c": [
        *((f"rows.{i}.parameters", 1) for i in range(8)),
        ("rows.3.heads", 24),
        ("xl as printed.parameters", 1_310_000_000),
    ],
    "4.4": [(f"answers.{i}", "dnetta" if i == 1 else "T5") for i in range(6)],
    "4.4b": [
        ("encoder.differ", 1),
        ("decoder.differ", 2),
        ("encoder.buckets", STAIRS),
        ("decoder.buckets", STAIRS),
        ("encoder.buckets.0", 14),
        ("decoder.buckets.0", 30),
        ("decoder.buckets.299", 2),
        ("decoder.buckets.310", 3),
        ("decoder.buckets.100", 7),
    ],
    "4.4c": [
        (f"curves.{task}.{place}", value)
        for task in ("reverse:", "upper:", "translate-digits:")
        for place, value in ((-1, 0.94), (0, 0.2))
    ],
    "4.4d": [
        ("distances.letters.0.1", 0.9),
        ("sinusoids.letters.1.2", 0.9),
        ("sinusoids.letters", [[1.0] * 9] * 3),
        ("sinusoids.rows", [[1.0] * 9] * 3),
        ("sinusoids.weights", 200_000),
    ],
    "4.5": [
        ("differs", 0.1),
        ("dropped", 2),
        ("dropped", 0),
        ("output of dropped", 0.1),
        ("least of kept", 0.0),
        ("kept", [1, 2, 1, 3, 1, 2]),
        ("load by hand", 1.0),
        ("likely.1", [0.9, 0.9, 0.1]),
    ],
    "4.5b": [
        *((f"{experts}.losses", [[3.0] * 31] * 3) for experts in (2, 4, 8)),
        ("4.operations", 200_000),
        ("8.weights", 60_000),
    ],
    "4.5c": [("steps.2", 1400.0), ("steps.4", 1400.0), ("steps.8", 1400.0), ("steps.1", 1500.0)],
    "4.5d": [
        ("with.evenness", [[[0.85, 0.95]] * 5] * 3),
        ("without.evenness.0.1", [0.5, 0.8]),
        ("without.evenness.1.-1", [0.95, 0.5]),
        ("without.shares", [[[0.125] * 8] * 2] * 3),
    ],
    "4.5e": [("8", [[3.4] * 4] * 3), ("8.1", [1.0] * 4), ("1.0", [3.4] * 4)],
}


def test_all_of_these_sections_are_spoiled_above() -> None:
    assert [name for name in FIGURES if name.startswith(("4.3", "4.4", "4.5"))] == list(SPOILED)


@pytest.mark.parametrize("name", list(SPOILED))
def test_every_check_can_fail(name: str) -> None:
    every_check_fails(name, SPOILED[name])


@pytest.mark.parametrize("name", ["4.5b", "4.5c", "4.5d"])
def test_missing_data_is_one_clear_error(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    experts.letters.cache_clear()
    experts.trained.cache_clear()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REGARD_DATA", raising=False)
    with pytest.raises(InputError, match=r"set REGARD_DATA to the folder of your data \(it is not set\)"):
        module(name).compute()


# 4.3 ----------------------------------------------------------------------------------------------


def test_who_remembers_all_examples_is_right_as_often_as_said() -> None:
    with seeded(1):
        tables = in_context.maps(4000)
        rows = in_context.prompts(tables)
    hits = torch.zeros(in_context.SHOTS + 1)
    for table, row, told in zip(tables, rows, in_context.known(rows), strict=True):
        memory: dict[int, int] = {}
        for shot, (asked, answer) in enumerate(row.view(-1, 2).tolist()):
            assert answer == in_context.ASKED + table[asked]
            assert bool(told[shot]) == (asked in memory)
            hits[shot] += memory.get(asked, in_context.ASKED) == answer  # a guess, where nothing is remembered
            memory[asked] = answer
    wanted = torch.tensor([in_context.best(shots) for shots in range(in_context.SHOTS + 1)])
    torch.testing.assert_close(hits / len(rows), wanted, atol=0.03, rtol=0)


def test_maps_differ_if_their_numbers_do() -> None:
    tables = in_context.maps(500).unique(dim=0)
    assert len(in_context.signature(tables).unique()) == len(tables)


# 4.4 ----------------------------------------------------------------------------------------------


def test_other_buckets_are_noticed() -> None:
    places = range(-staircase.REACH, staircase.REACH + 1)
    wanted = [staircase.formula(offset, both=True) for offset in places]
    assert staircase.stairs(Buckets(1, 32, 128), ALL) == wanted
    assert staircase.stairs(Buckets(1, 32, 120), ALL) != wanted
    assert staircase.stairs(Buckets(1, 32, 128, both=False), ALL) != wanted


def test_an_answer_is_right_if_it_would_be_written() -> None:
    with seeded(0):
        net = T5(prefixes.SIZES).eval()
    with torch.no_grad():
        net.embed.weight[: prefixes.END + 1] = 0  # neither start nor end is ever the likeliest
    pairs = [prefixes.drawn(task, Random(task)) for task in prefixes.TASKS]
    answers = [prefixes.written(net, one.source, longest=5) for one in pairs]
    wanted = torch.nn.utils.rnn.pad_sequence([prefixes.numbered(said)[:-1] for said in answers], batch_first=True)
    source = prefixes.batched(pairs).source
    batch = prefixes.Batch(source, F.pad(wanted, (1, -1), value=prefixes.START), wanted)
    assert prefixes.right(net, batch) == 1.0
    wanted[1, 2] = (wanted[1, 2] - 2 + 1) % len(prefixes.PIECES) + 2
    assert prefixes.right(net, batch) == pytest.approx(2 / 3)


def test_tasks_do_what_their_names_say() -> None:
    assert prefixes.pair("reverse:", "abc").target == "cba"
    assert prefixes.pair("upper:", "abc").target == "ABC"
    assert prefixes.pair("translate-digits:", "407").target == ["four", "zero", "seven"]
    batch = prefixes.batched([prefixes.pair("upper:", "ab"), prefixes.pair("reverse:", "xyz")])
    assert batch.given[:, 1:].equal(batch.wanted[:, :-1])
    assert batch.real.sum(1).tolist() == [3, 4]
    assert batch.keys.sum(1).tolist() == [4, 5]


class Forgetful(EncoderDecoder):
    """Copies all letters, but every other row it begins with the end."""

    def forward(self, source: Tensor, target: Tensor, *, source_keys: Any = None, keys: Any = None) -> Tensor:
        said = source[:, 1:].clone()
        said[::2, 0] = longer.END
        assert target[:, 1:].equal(source[:, 1:-1])
        return F.one_hot(said, longer.FIRST + longer.LETTERS).float()


def test_letters_copied_are_counted() -> None:
    assert longer.right(Forgetful(), 4) == longer.Copied(letters=0.875, rows=0.5)
    assert longer.right(Forgetful(), 20) == longer.Copied(letters=0.975, rows=0.5)
    rows = longer.rows(50, 24)
    assert all(len(set(row)) == 24 for row in rows.tolist())
    assert (int(rows.min()), int(rows.max())) == (longer.FIRST, longer.FIRST + longer.LETTERS - 1)


# 4.5 ----------------------------------------------------------------------------------------------


def test_the_rate_comes_up_and_falls_with_the_root() -> None:
    way = experts.Way(warm=100)
    assert [way.part(step) for step in (0, 49, 99, 100, 400)] == pytest.approx([0.01, 0.5, 1.0, 1.0, 0.5])


def test_evenness_of_shares() -> None:
    likely = torch.eye(4)[[0, 0, 1, 3]]
    assert experts.shares(likely) == [0.5, 0.25, 0.0, 0.25]
    assert experts.even([0.5, 0.25, 0.0, 0.25]) == pytest.approx(1.5 * math.log(2) / math.log(4))
    assert experts.even([0.25] * 4) == pytest.approx(1.0)
    assert experts.even([0.0, 1.0]) == 0.0


def test_where_a_curve_is_at_its_goal() -> None:
    every = experts.EVERY
    assert speed_up.reached([4.0, 3.0, 2.0, 2.5, 1.0], 2.25) == pytest.approx(1.75 * every)
    assert speed_up.reached([4.0, 3.0], 1.0) == experts.STEPS


def test_the_entropy_of_a_language_is_that_of_its_letters() -> None:
    found = languages.texts()
    for i, entropy in enumerate(found.entropy):
        text = found.train[i] - i * languages.LETTERS  # each has letters of its own
        counts = torch.zeros(languages.LETTERS, languages.LETTERS, dtype=torch.float64)
        counts.index_put_((text[:, :-1].flatten(), text[:, 1:].flatten()), torch.tensor(1.0).double(), accumulate=True)
        likely = counts / counts.sum(1, keepdim=True).clamp(min=1)
        counted = (torch.special.entr(likely).sum(1) * counts.sum(1)).sum() / counts.sum()
        assert float(counted) == pytest.approx(entropy, abs=0.05)
