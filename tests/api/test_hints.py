"""What is not as it should be is told in the words that help."""

from dataclasses import dataclass
from typing import Any, Literal

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from regard.data.given_tables import table_of
from regard.errors import InputError
from regard.interop.foreign import SAME
from regard.interop.retired import is_harmless
from regard.modalities.text.processor import Text
from regard.nn.config import parse
from regard.run.settings import settings_of


def test_as_many_labels_as_inputs() -> None:
    with pytest.raises(InputError, match="2 inputs and 1 label"):
        table_of((["a", "b"], ["x"]), "data.train")
    with pytest.warns(UserWarning, match="2 inputs and their 2 labels"):
        assert list(table_of((["a", "b"], ["x", "y"]), "data.train").rows) == [("a", "x"), ("b", "y")]


@dataclass(frozen=True)
class Headed:
    head: Literal["none", "label"] = "none"


def test_a_key_of_another_kind_is_not_meant() -> None:
    """`head` is a word, `heads` would be a number."""
    with pytest.raises(ValueError, match="unknown key 'heads'; valid keys are head"):
        parse(Headed, {"heads": 4})
    with pytest.raises(ValueError, match="did you mean 'head'"):
        parse(Headed, {"heat": "label"})


def test_one_file_stands_for_a_list_of_one() -> None:
    tables: Any = {"task": {"kind": "language"}, "data": {"kind": "text", "train": "t.txt"}}
    found = settings_of(tables | {"model": {"name": "gpt-tiny"}}, "run.toml")
    assert found.data.train == ("t.txt",)


def test_old_keys_of_llama() -> None:
    assert is_harmless("_flash_attn_2_enabled", True)
    assert SAME["max_sequence_length"] == "max_position_embeddings"


@pytest.mark.parametrize("prefix", [False, True])
def test_a_special_token_that_cannot_be_spelled_stays_one(prefix: bool) -> None:
    """Without these letters in the vocabulary, a text that spells it would lose it in silence."""
    tokenizer = Tokenizer(models.BPE({"<|endoftext|>": 0, "a": 1, "Ġ": 2}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    tokenizer.add_special_tokens(["<|endoftext|>"])
    (ids,) = Text(tokenizer).literal().unframed(["<|endoftext|>a"])
    assert ids[0] == 0
