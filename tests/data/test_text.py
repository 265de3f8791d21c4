"""Text into ids: what a tokenizer cannot read is refused by name, and never read as something else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordLevel, WordPiece
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import Whitespace

from regard.errors import InputError
from regard.modalities.text.processor import Text, byte_of_letter, from_bytes
from regard.modalities.text.vocabulary import Vocabulary
from regard.model import Model
from tests.contracts.families import net


def text(model: object, *, lower: bool = False) -> Text:
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = Whitespace()
    if lower:
        tokenizer.normalizer = Lowercase()
    return Text(tokenizer)


WORDS = {"anna": 0, "sings": 1, "[UNK]": 2}


@pytest.mark.parametrize("model", [WordLevel({"anna": 0, "sings": 1}), WordPiece({"anna": 0, "sings": 1})])
def test_unknown_words_are_named(model: object) -> None:
    with pytest.raises(InputError, match="words outside the model's vocabulary") as error:
        text(model, lower=True).encode(["Anna sings", "Boris sings, anna yodels", "boris"])
    assert error.value.got == "'boris', ',', 'yodels'"
    assert "anna, sings" in error.value.expected


def test_without_a_pre_tokenizer() -> None:
    """The whole text is one word then; those of its parts that are unknown are named, if any."""
    with pytest.raises(InputError, match="words outside the model's vocabulary") as error:
        Text(Tokenizer(WordLevel({"anna": 0}))).encode(["anna boris"])
    assert error.value.got == "'boris'"
    with pytest.raises(InputError, match="the tokenizer cannot encode a text"):
        Text(Tokenizer(WordLevel({"anna": 0}))).encode(["anna anna"])


def test_a_long_list_is_cut() -> None:
    words = " ".join(f"w{i}" for i in range(1000))
    with pytest.raises(InputError, match="and 980 more") as error:
        text(WordLevel({f"v{i}": i for i in range(1000)})).encode([words])
    assert "and 950 more" in error.value.expected
    assert len(str(error.value)) < 1500


def test_an_unknown_token_is_seen_in_the_labels() -> None:
    read = text(WordLevel(WORDS, unk_token="[UNK]"))
    ids = read.encode(["anna yodels"]).ids[0].tolist()
    assert read.labels(ids) == ("anna", "[UNK]")


def test_half_a_character() -> None:
    with pytest.raises(InputError, match="surrogate"):
        text(WordLevel(WORDS, unk_token="[UNK]")).encode(["anna", "a\ud800"])


def test_a_text_without_tokens_has_no_embedding() -> None:
    """Alone or beside others: a mean of nothing has no direction."""
    model = Model("bert", net("bert").float(), text(WordLevel(WORDS, unk_token="[UNK]")))
    assert model.embed([]).shape == (0, 16)
    assert model.embed(["anna sings", "anna"]).norm(dim=-1).tolist() == pytest.approx([1.0, 1.0])
    for texts in ([""], ["anna sings", " "]):
        with pytest.raises(InputError, match="0 tokens"):
            model.embed(texts)


def test_labels_say_what_people_read() -> None:
    """A byte-level tokenizer has Ã¼ for ü inside; half a character is not shown as another one."""
    text = Vocabulary("bpe", 600).learn(["Das Tier war müde. Die Straße war breit."] * 20)
    labels = text.labels(text.ids(["müde Straße"])[0])
    assert labels == (" müde", " Straße")
    assert text.labels(text.ids(["ñ"])[0])[-2:] == ("\ufffd", "\ufffd")


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=20))
def test_labels_of_bytes_are_the_text(words: str) -> None:
    letter_of_byte = {byte: letter for letter, byte in byte_of_letter().items()}
    raw = "".join(letter_of_byte[byte] for byte in words.encode("utf-8"))
    assert from_bytes(raw) == words
