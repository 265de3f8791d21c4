"""Tokens that were added later, maps of special tokens and switches, of folders without a tokenizer.json: read as the
reference's own AutoTokenizer reads them. And a vocabulary that does not say enough is told, not guessed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer

import regard
from regard.errors import CheckpointError, InputError
from regard.interop.tokens import UnclearTokenizer, foreign_tokenizer
from tests.parity.references import bert_config
from tests.parity.strings import strings
from tests.parity.test_pieces import CASES, made
from tests.parity.theirs import transformers
from tests.parity.twins import saved

TEXTS = [*strings(200), "Hello World, it's Über-naïve! ``quoted'' A  B", "a <new> b [MASK] c<new>d", "<extra_id_0> the"]
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,!?'<>_[]"


def wordpiece(folder: Path) -> None:
    """Pieces of a lower-cased vocabulary, one of them with a mark that ends a line elsewhere."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused]", "new", "the", "a\u2028b", *LETTERS]
    (folder / "vocab.txt").write_text("\n".join([*words, *(f"##{x}" for x in LETTERS)]) + "\n", "utf-8", newline="\n")


def bytes_of(vocabulary: dict[str, int], merges: list[tuple[str, str]], folder: Path) -> None:
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    lines = ["#version: 0.2", *(" ".join(pair) for pair in merges)]
    (folder / "merges.txt").write_text("\n".join(lines) + "\n", "utf-8", newline="\n")


def byte_pairs(folder: Path) -> None:
    model = transformers.GPT2Tokenizer()  # has no pieces: only its letters for bytes are wanted
    letters = sorted(model._tokenizer.pre_tokenizer.alphabet())
    merges = [("t", "h"), ("th", "e"), ("Ġ", "the"), ("i", "n"), ("l", "l")]
    words = ["<|endoftext|>", *letters, *(a + b for a, b in merges)]
    bytes_of({word: i for i, word in enumerate(words)}, merges, folder)


def letter_pairs(folder: Path) -> None:
    merges = [("t", "h"), ("th", "e</w>"), ("a", "n"), ("an", "d</w>")]
    words = ["<unk>", *LETTERS, *(f"{x}</w>" for x in LETTERS), *(a + b for a, b in merges)]
    bytes_of({word: i for i, word in enumerate(words)}, merges, folder)


def albert(folder: Path) -> None:
    ids = {"pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1}
    made(folder, **CASES["unigram"], **ids, control_symbols=["[CLS]", "[SEP]"], user_defined_symbols=["[MASK]"])


def new(i: int, **flags: bool) -> dict[str, Any]:
    plain = {"content": "<new>", "lstrip": False, "normalized": False, "rstrip": False, "single_word": False}
    return {"added_tokens_decoder": {str(i): plain | {"special": True} | flags}}


SETTINGS, MAP, ADDED = "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"
MASK = {"content": "[MASK]", "lstrip": True, "rstrip": False, "normalized": False, "single_word": False}
PIECES = 9 + 2 * len(LETTERS)
BESIDE: dict[str, tuple[str, Callable[[Path], None], dict[str, Any]]] = {
    "bert": ("bert", wordpiece, {}),
    "bert, cased": ("bert", wordpiece, {SETTINGS: {"do_lower_case": False}}),
    "bert, added in its settings": ("bert", wordpiece, {SETTINGS: new(PIECES)}),
    "bert, added with flags": ("bert", wordpiece, {SETTINGS: new(PIECES, lstrip=True, normalized=True, special=False)}),
    "bert, added in an older file": ("bert", wordpiece, {ADDED: {"<new>": PIECES}}),
    "bert, a map": ("bert", wordpiece, {MAP: {"additional_special_tokens": ["<new>"], "mask_token": "[unused]"}}),
    "bert, a map with flags": ("bert", wordpiece, {MAP: {"mask_token": MASK}}),
    "bert, a map beside settings": ("bert", wordpiece, {MAP: {"sep_token": "the"}, SETTINGS: {"sep_token": "[SEP]"}}),
    "gpt2": ("gpt2", byte_pairs, {}),
    "gpt2, a begin": ("gpt2", byte_pairs, {SETTINGS: {"add_bos_token": True}}),
    "gpt2, an end": ("gpt2", byte_pairs, {SETTINGS: {"add_eos_token": True}}),
    "gpt2, a begin of its own": (
        "gpt2",
        byte_pairs,
        {MAP: {"pad_token": "<pad>", "bos_token": "<bos>"}, SETTINGS: {"add_bos_token": True}},
    ),
    "gpt2, a space before": ("gpt2", byte_pairs, {SETTINGS: {"add_prefix_space": True}}),
    "qwen2": ("qwen2", byte_pairs, {}),
    "gpt": ("openai-gpt", letter_pairs, {}),
    "albert": ("albert", albert, {}),
    "albert, cased": ("albert", albert, {SETTINGS: {"do_lower_case": False, "keep_accents": True}}),
}


@pytest.mark.parametrize("name", BESIDE)
def test_the_files_beside_a_vocabulary(name: str, tmp_path: Path) -> None:
    kind, make, files = BESIDE[name]
    if kind == "albert":
        pytest.importorskip("sentencepiece", reason="the reference is not installed: pip install regard[parity]")
    make(tmp_path)
    for file, content in {"config.json": {"model_type": kind}, **files}.items():
        (tmp_path / file).write_text(json.dumps(content))
    theirs, ours = transformers.AutoTokenizer.from_pretrained(tmp_path), foreign_tokenizer(tmp_path, kind)
    assert isinstance(ours, bytes)
    found = [x.ids for x in Tokenizer.from_str(ours.decode("utf-8")).encode_batch(TEXTS)]
    assert found == theirs(TEXTS)["input_ids"]


def test_an_added_token_of_another_id(tmp_path: Path) -> None:
    wordpiece(tmp_path)
    (tmp_path / ADDED).write_text(json.dumps({"<new>": 999}))
    with pytest.raises(CheckpointError, match="'<new>' with the id 999, where the vocabulary gives it"):
        foreign_tokenizer(tmp_path, "bert")


@pytest.mark.parametrize("content", [{"<new>": "x"}, {"<new>": -1}, {"<new>": True}, {"<new>": 1.5}])
def test_ids_that_are_none(content: dict[str, Any], tmp_path: Path) -> None:
    wordpiece(tmp_path)
    (tmp_path / ADDED).write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match="not the id of an added token"):
        foreign_tokenizer(tmp_path, "bert")


def test_a_vocabulary_with_capitals_does_not_say_whether_texts_have_them(tmp_path: Path) -> None:
    model = transformers.BertModel(bert_config(vocab_size=200))
    folder = saved(model, tmp_path)
    wordpiece(folder)
    with (folder / "vocab.txt").open("a", encoding="utf-8") as file:
        file.write("Berlin\n")
    loaded = regard.load(folder)
    assert loaded.processor is None
    with pytest.raises(InputError, match="this model has no tokenizer") as caught:
        loaded.text()
    assert "capital letters, as in 'Berlin'" in caught.value.got
    assert caught.value.where == str(folder / SETTINGS)
    (folder / SETTINGS).write_text('{"do_lower_case": false}')
    loaded = regard.load(folder)
    assert loaded.text().decode(loaded.text().ids(["Berlin"])[0]) == "Berlin"
    assert torch.isfinite(loaded.embed("Berlin")).all()


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("bert", {"tokenizer_class": "BertJapaneseTokenizer"}),
        ("reformer", {}),
        ("t5", {"tokenizer_class": "EsmTokenizer"}),
    ],
)
def test_a_vocabulary_of_another_kind(kind: str, settings: dict[str, Any], tmp_path: Path) -> None:
    wordpiece(tmp_path)
    (tmp_path / SETTINGS).write_text(json.dumps(settings))
    found = foreign_tokenizer(tmp_path, kind)
    assert isinstance(found, UnclearTokenizer)
    assert "tokenizer_class" in found.got
