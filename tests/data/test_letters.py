"""Labels of pieces that a letter was cut into."""

from itertools import pairwise

import torch
from hypothesis import given
from hypothesis import strategies as st

import regard
from regard.look.maps import Map
from regard.look.subwords import CUT, groups, merge_subwords
from regard.modalities.text.letters import label_pieces
from regard.modalities.text.processor import unmarked
from regard.nn.axis import Axis


def test_both_parts_of_a_letter_say_which_it_is() -> None:
    assert label_pieces([b" na", b"\xc3", b"\xaf", b"ve"]) == (" na", "ï₁", "ï₂", "ve")
    assert label_pieces([b" \xf0\x9f", b"\x99\x82!"]) == (" 🙂₁", "🙂₂!")
    assert label_pieces([b"\xe6\x97", b"\xa5\xe6", b"\x9c\xac"]) == ("日₁", "日₂本₁", "本₂")
    assert label_pieces([b"\xc3", b"a", b""]) == ("\ufffd", "a", ""), "what is no letter is not made one"


@given(st.text(max_size=12), st.lists(st.integers(0, 40), max_size=6))
def test_nothing_is_lost_wherever_a_text_is_cut(text: str, cuts: list[int]) -> None:
    raw = text.encode("utf-8", "ignore")
    places = sorted({0, len(raw), *(cut for cut in cuts if cut < len(raw))})
    pieces = [raw[a:b] for a, b in pairwise(places)]
    labels = label_pieces(pieces)
    assert len(labels) == len(pieces)
    assert "\ufffd" not in "".join(labels) or "\ufffd" in text
    for piece, label in zip(pieces, labels, strict=True):
        try:
            assert piece.decode() in label
        except UnicodeDecodeError:
            assert any(part in label for part in "₁₂₃₄")


def test_tokens_of_a_text_are_labelled_by_its_letters() -> None:
    text = regard.load("tatoeba-en-de").text()
    labels = text.sequence_labels(text.ids(["naïve 日"])[0])
    assert "\ufffd" not in "".join(labels)
    assert "ï₁" in labels
    assert [label[0] for label in labels[-4:]].count("日") == 3
    assert text.labels(text.ids(["naïve"])[0]).count("\ufffd") == 2, "by itself a byte is no letter"


def test_a_byte_of_another_kind_of_tokenizer_is_one_too() -> None:
    assert label_pieces([unmarked(piece) for piece in ("▁na", "<0xC3>", "<0xAF>", "ve")]) == (" na", "ï₁", "ï₂", "ve")


def test_words_are_put_together_with_their_letters_whole() -> None:
    labels = (" na", "ï₁", "ï₂", "ve", " tea", " 🙂₁", "🙂₂")
    assert groups(labels) == [[0, 1, 2, 3], [4], [5, 6]]
    weights = torch.full((1, 1, 7, 7), 1 / 7)
    axis = Axis("text", 7, labels)
    assert merge_subwords(Map("x", weights, axis, axis)).rows.labels == ("naïve", "tea", "🙂")
    assert CUT.sub(r"\1", "x₁ y") == "x₁ y", "an index that was written stays"
