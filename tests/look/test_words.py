"""Pieces joined into words: what is joined, and that a map keeps its sums."""

import pytest
import torch

from regard.look.maps import Map
from regard.look.subwords import groups, merge_subwords
from regard.nn.axis import Axis


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ((" The", " an", "im", "al", ".", "<end>"), [[0], [1, 2, 3], [4], [5]]),
        ((" don", "'", "t"), [[0], [1], [2]]),
        (("play", "##ing", "is", "##n", "fun"), [[0, 1], [2, 3], [4]]),
        (("Anna", "sings", "."), [[0], [1], [2]]),
        (("##odd",), [[0]]),
        ((), []),
    ],
)
def test_which_pieces_are_a_word(labels: tuple[str, ...], words: list[list[int]]) -> None:
    assert groups(labels) == words


def test_a_word_is_looked_at_as_much_as_its_pieces() -> None:
    weights = torch.tensor([[[[0.1, 0.2, 0.3, 0.4], [0.5, 0.1, 0.1, 0.3], [0.0, 0.0, 1.0, 0.0]]]])
    found = merge_subwords(
        Map("x", weights, Axis("text", 3, (" a", " b", "c")), Axis("text", 4, (" an", "im", "al", ".")))
    )
    assert found.rows.labels == ("a", "bc")
    assert found.columns.labels == ("animal", ".")
    torch.testing.assert_close(found.weights, torch.tensor([[[[0.6, 0.4], [0.85, 0.15]]]]))


def test_an_axis_without_words_stays() -> None:
    weights = torch.rand(1, 2, 3, 4).softmax(-1)
    found = merge_subwords(Map("x", weights, Axis("image", 3), Axis("text", 4, (" a", "b", " c", "d"))))
    assert found.rows == Axis("image", 3)
    torch.testing.assert_close(found.weights.sum(-1), torch.ones(1, 2, 3))
