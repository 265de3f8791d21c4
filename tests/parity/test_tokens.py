"""Tokenizers read from a folder's own files agree with the reference on ten thousand awkward strings."""

import gzip
import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer

import regard
from regard.errors import CheckpointError
from regard.interop.tokens import foreign_tokenizer
from tests.parity.strings import strings
from tests.parity.test_pieces import CASES, made
from tests.parity.theirs import transformers

sentencepiece = pytest.importorskip(
    "sentencepiece", reason="the reference is not installed: pip install regard[parity]"
)


@cache
def awkward() -> list[str]:
    return strings(10_000)


def agree(ours: bytes | None, theirs: Any, given: list[str] | None = None) -> None:
    texts = awkward() if given is None else given
    assert ours is not None
    found = Tokenizer.from_str(ours.decode("utf-8")).encode_batch(texts)
    wanted = theirs(texts)["input_ids"]
    wrong = [i for i in range(len(texts)) if found[i].ids != wanted[i]]
    told = [(texts[i], found[i].tokens, theirs.convert_ids_to_tokens(wanted[i])) for i in wrong[:3]]
    assert not wrong, f"{len(wrong)}: {told}"


@pytest.fixture(scope="module")
def vocabularies(shared_data: Path) -> Path:
    found = shared_data / "vocab_files"
    if not found.is_dir():
        pytest.skip(f"needs the published vocabularies, and there is no folder {found} (docs/data.md)")
    return found


def unpacked(source: Path, target: Path) -> None:
    with gzip.open(source) as packed, open(target, "wb") as plain:
        shutil.copyfileobj(packed, plain)


@pytest.mark.parametrize("lower", [True, False])
def test_wordpiece(lower: bool, vocabularies: Path, tmp_path: Path) -> None:
    unpacked(vocabularies / "bert_uncased_vocab.txt.gz", tmp_path / "vocab.txt")
    (tmp_path / "tokenizer_config.json").write_text(f'{{"do_lower_case": {str(lower).lower()}}}')
    theirs = transformers.BertTokenizer(str(tmp_path / "vocab.txt"), do_lower_case=lower)
    agree(foreign_tokenizer(tmp_path, "bert"), theirs)


def test_byte_pairs(vocabularies: Path, tmp_path: Path) -> None:
    unpacked(vocabularies / "gpt2_encoder.json.gz", tmp_path / "vocab.json")
    unpacked(vocabularies / "gpt2_vocab.bpe.gz", tmp_path / "merges.txt")
    theirs = transformers.GPT2Tokenizer(str(tmp_path / "vocab.json"), str(tmp_path / "merges.txt"))
    agree(foreign_tokenizer(tmp_path, "gpt2"), theirs)


@pytest.mark.parametrize("case", ["unigram"])
def test_t5(case: str, tmp_path: Path) -> None:
    made(tmp_path, **CASES[case], pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    theirs = transformers.T5Tokenizer.from_pretrained(tmp_path)
    agree(foreign_tokenizer(tmp_path, "t5"), theirs)


def test_llama(tmp_path: Path) -> None:
    """Against the library that Llama itself was trained with: the other one reads this file in ways of its own."""
    path = made(tmp_path, **CASES["llama"]).rename(tmp_path / "tokenizer.model")
    theirs, ours = sentencepiece.SentencePieceProcessor(model_file=str(path)), foreign_tokenizer(tmp_path, "llama")
    assert ours is not None
    texts = [text for text in awkward() if "s>" not in text]
    found = [one.ids for one in Tokenizer.from_str(ours.decode("utf-8")).encode_batch(texts)]
    assert found == [[theirs.bos_id(), *theirs.encode(text)] for text in texts]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("vocab.txt", b"\xff\xfe", "not UTF-8"),
        ("vocab.txt", b"a\nb\n", "is missing"),
        ("tokenizer.model", b"\x00", "SentencePiece"),
        ("tokenizer.bin", b"\x00" * 30, "llama2"),
    ],
)
def test_bad_files_are_refused(name: str, content: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CheckpointError, match=words):
        foreign_tokenizer(tmp_path, "llama")


def test_stories(shared_data: Path) -> None:
    """A published model of the llama2.c kind writes its published story, token by token."""
    folder = shared_data / "weights_stories15M"
    if not folder.is_dir():
        pytest.skip(f"needs the published weights of stories15M, and there is no folder {folder} (docs/data.md)")
    golden, model = json.loads((folder / "golden_greedy.json").read_text()), regard.load(folder)
    ids = golden["greedy_ids_from_bos"]
    assert model.text().ids([golden["text"].strip()])[0] == ids
    assert model.text().decode(ids) == golden["text"].strip()
    with torch.inference_mode():
        logits = model.net(torch.tensor([ids]))[0]
    assert logits[:-1].argmax(-1).tolist() == ids[1:]
    for i, value in golden["first_logits_pos0_top5"]:
        assert abs(float(logits[0, i]) - value) < 0.03  # the file is in float16
