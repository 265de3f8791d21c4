"""IBM's first model: the textbook's example by hand, and what must hold of any."""

import math
from itertools import pairwise

import pytest

from regard_lectures.looking.lexicon import NOTHING, Lexicon, words_of

HOUSE = [(["das", "haus"], ["the", "house"]), (["das", "buch"], ["the", "book"]), (["ein", "buch"], ["a", "book"])]


@pytest.mark.parametrize(
    ("rounds", "expected"),
    [
        (1, {("das", "the"): 1 / 2, ("das", "book"): 1 / 4, ("haus", "the"): 1 / 2, ("ein", "a"): 1 / 2}),
        (2, {("das", "the"): 7 / 11, ("das", "book"): 2 / 11, ("haus", "the"): 3 / 7, ("ein", "a"): 4 / 7}),
    ],
)
def test_by_hand(rounds: int, expected: dict[tuple[str, str], float]) -> None:
    """Counts worked out with pencil and paper."""
    lexicon = Lexicon(HOUSE, rounds=rounds)
    for (before, after), chance in expected.items():
        assert math.isclose(lexicon.chance(before, after), chance), (before, after)


def likelihood(lexicon: Lexicon) -> float:
    return sum(
        math.log(sum(lexicon.chance(before, after) for before in source) / len(source))
        for source, target in HOUSE
        for after in target
    )


def test_no_round_makes_the_data_less_likely() -> None:
    found = [likelihood(Lexicon(HOUSE, rounds=rounds)) for rounds in range(1, 12)]
    assert all(before < after for before, after in pairwise(found))


def test_chances_of_a_word_add_up_to_one() -> None:
    lexicon = Lexicon(HOUSE, rounds=4)
    for before in ("das", "haus", "buch", "ein"):
        assert math.isclose(sum(lexicon.chance(before, after) for after in ("the", "house", "book", "a")), 1)


def test_align() -> None:
    lexicon = Lexicon([([NOTHING, *source], target) for source, target in HOUSE], rounds=20)
    assert lexicon.align(["ein", "haus"], "house") == 1
    assert lexicon.align(["ein", "haus"], "unheard") is None
    assert lexicon.align([], "house") is None
    assert words_of("Das Haus, weiß!") == ["das", "haus", "weiß"]
