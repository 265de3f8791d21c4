"""A text in a script that a model never read is told of; what it can read is not."""

import warnings
from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

import regard
from regard.cli.app import main
from regard.errors import Notice
from regard.modalities.text.processor import Text
from regard.modalities.text.unread import unknown_remark

LINES = ["the quick brown fox jumps over the lazy dog", "Übung macht den Meister, sagt der große Bär"] * 8
RUSSIAN, CHINESE = "Где мои ключи?", "我的钥匙在哪里?"


def trained(name: str) -> Text:
    """A tokenizer of each kind, which has read English and German."""
    special = ["<unk>", "<s>"]
    if name == "bytes":
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(False), decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(vocab_size=340, special_tokens=special, initial_alphabet=alphabet)
    elif name == "bpe":
        tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        trainer = trainers.BpeTrainer(vocab_size=80, special_tokens=special)
    elif name == "unigram":
        tokenizer = Tokenizer(models.Unigram())
        tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
        trainer = trainers.UnigramTrainer(vocab_size=80, special_tokens=special, unk_token="<unk>")
    elif name == "wordpiece":
        tokenizer = Tokenizer(models.WordPiece(unk_token="<unk>"))
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
        tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
        trainer = trainers.WordPieceTrainer(vocab_size=90, special_tokens=special)
    else:
        tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
        split = pre_tokenizers.Whitespace() if name == "words" else pre_tokenizers.Split("", "isolated")
        tokenizer.pre_tokenizer = split
        trainer = trainers.WordLevelTrainer(vocab_size=90, special_tokens=special)
    tokenizer.train_from_iterator(LINES, trainer)
    return Text(tokenizer)


@pytest.mark.parametrize("kind", ["bytes", "bpe", "unigram", "wordpiece", "words", "characters"])
def test_every_kind_of_tokenizer(kind: str) -> None:
    text = trained(kind)
    for line in LINES[:2]:
        assert unknown_remark(text, [line]) == ""
    for other in (RUSSIAN, CHINESE):
        assert "100% of the letters are unknown to this model" in unknown_remark(text, [other])
    half = unknown_remark(text, ["abcde", "где ты"])
    assert "50% of the letters" in half
    assert "such as где" in half
    assert unknown_remark(text, ["", "12, 3 + 4 = ?"]) == ""


def test_a_name_in_a_long_text_is_not_told() -> None:
    assert unknown_remark(trained("bytes"), [LINES[0] * 3 + " ю"]) == ""


@pytest.mark.parametrize("given", [RUSSIAN, CHINESE])
def test_a_translator_of_english_and_german(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    model = regard.load("tatoeba-en-de")
    with pytest.warns(Notice, match="100% of the letters are unknown to this model"):
        model.translate(given)
    with pytest.warns(Notice, match="100% of the letters"):
        answer = model.look(given).answer
    assert answer is not None
    assert "100% of the letters" in answer.data()["remark"]
    with warnings.catch_warnings():
        warnings.simplefilter("error", Notice)
        answer = model.look("Where are my keys?").answer
    assert answer is not None
    assert "remark" not in answer.data()


def test_the_command_line_tells_it_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", "-m", "tatoeba-en-de", RUSSIAN]) == 0
    assert capsys.readouterr().err.count("100% of the letters are unknown to this model, such as Гдемо") == 1
    assert main(["look", "tatoeba-en-de", RUSSIAN]) == 0
    assert capsys.readouterr().err.count("of the letters are unknown") == 1
    assert main(["translate", "-m", "tatoeba-en-de", "Where are my keys?"]) == 0
    assert "unknown" not in capsys.readouterr().err


@pytest.mark.parametrize("words", ["look recall zzz", "generate recall zzz"])
def test_an_error_stands_alone(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Where a text is refused, nothing is remarked of what would have been answered."""
    assert main(words.split()) == 2
    told = capsys.readouterr().err
    assert told.startswith("regard: the text has words outside the model's vocabulary")
    assert "letters are unknown" not in told
