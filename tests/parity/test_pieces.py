"""SentencePiece models read by our own reader agree with the library that made them."""

import io
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from regard.errors import CheckpointError
from regard.interop.pieces import read_llama2c, read_pieces, tokenizer_of
from tests.parity.strings import LETTERS, WORDS, strings

sentencepiece = pytest.importorskip(
    "sentencepiece", reason="the reference is not installed: pip install regard[parity]"
)

CASES = {
    "unigram": {"model_type": "unigram"},
    "unigram-bytes": {"model_type": "unigram", "byte_fallback": True, "vocab_size": 600},
    "unigram-nfkc-cf": {"model_type": "unigram", "normalization_rule_name": "nmt_nfkc_cf"},
    "bpe": {"model_type": "bpe"},
    "llama": {
        "model_type": "bpe",
        "byte_fallback": True,
        "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False,
        "vocab_size": 600,
    },
    "no-prefix": {"model_type": "unigram", "add_dummy_prefix": False},
    "given": {"model_type": "bpe", "user_defined_symbols": ["<sep>", "@@"], "control_symbols": ["<ctl>"]},
}


def made(tmp_path: Path, **changes: object) -> Path:
    text = [" ".join(WORDS), *("".join(x) for x in LETTERS.values()), *strings(300, seed=9)]
    lines = [line.replace("\x00", "").replace("\n", " ") for line in text for _ in range(3)]
    model = io.BytesIO()
    settings = {"vocab_size": 400, "character_coverage": 0.98, "hard_vocab_limit": False, **changes}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, minloglevel=2, num_threads=1, **settings
    )
    path = tmp_path / "spiece.model"
    path.write_bytes(model.getvalue())
    return path


def tied(theirs: Any, ours: list[int], wanted: list[int], kind: str) -> bool:
    """Two cuts of one text that a unigram model finds equally likely."""
    scores = [sum(map(theirs.get_score, ids)) for ids in (ours, wanted)]
    return kind == "unigram" and abs(scores[0] - scores[1]) < 1e-4


@pytest.mark.parametrize("case", CASES)
def test_ten_thousand_strings(case: str, tmp_path: Path) -> None:
    """All but ties, and marks that combine with no letter: what stands together is normalised together by the library
    that everyone uses, and one by one by theirs."""
    path = made(tmp_path, **CASES[case])
    theirs, ours = sentencepiece.SentencePieceProcessor(model_file=str(path)), tokenizer_of(read_pieces(path))
    assert [ours.id_to_token(i) for i in range(theirs.get_piece_size())] == [
        theirs.id_to_piece(i) for i in range(theirs.get_piece_size())
    ]
    texts = [text for text in strings(10_000) if not any(name in text for name in ("<s>", "</s>", "<unk>"))]
    found = {text: one.ids for text, one in zip(texts, ours.encode_batch(texts), strict=True)}
    wrong = [text for text in texts if found[text] != theirs.encode(text)]
    wrong = [x for x in wrong if not tied(theirs, found[x], theirs.encode(x), str(CASES[case]["model_type"]))]
    odd = [text for text in wrong if not any(unicodedata.category(x).startswith("M") for x in text)]
    told = [(text, ours.encode(text).tokens, theirs.encode(text, out_type=str)) for text in odd[:5]]
    assert not odd, f"{len(odd)} of {len(texts)}: {told}"
    assert len(wrong) < 0.04 * len(texts)
    known = [x for x in texts if x not in wrong and theirs.unk_id() not in theirs.encode(x)]
    assert len(known) > 0.5 * len(texts)
    assert [x for x in known if ours.decode(theirs.encode(x)) != theirs.decode(theirs.encode(x))] == []


HOSTILE = {
    "empty": b"",
    "noise": bytes(range(256)) * 3,
    "long field": b"\x0a\xff\xff\xff\xff\x0f",
    "no end": b"\xff" * 20,
    "not UTF-8": b"\x0a\x04\x0a\x02\xff\xfe",
    "of words": b"\x0a\x05\x0a\x01a\x15\x00\x00\x00\x00"[:9] + b"\x12\x02\x18\x03",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_model_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x.model"
    path.write_bytes(HOSTILE[name])
    with pytest.raises(CheckpointError, match="SentencePiece"):
        read_pieces(path)
    with pytest.raises(CheckpointError, match="llama2"):
        read_llama2c(path)


def test_a_model_that_is_cut_is_refused_or_shorter(tmp_path: Path) -> None:
    whole = made(tmp_path).read_bytes()
    path = tmp_path / "cut.model"
    for size in range(1, len(whole), len(whole) // 60):
        path.write_bytes(whole[:size])
        try:
            assert len(read_pieces(path).pieces) <= 400
        except CheckpointError:
            continue
