"""The tokenizer of a foreign folder, whichever files it is kept in, as one ``tokenizer.json``."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers.processors import TemplateProcessing

from regard.storage.documents import read_bytes, read_json
from regard.storage.untrusted import refuse_file

from .pieces import around, read_llama2c, read_pieces, tokenizer_of

SETTINGS = "tokenizer_config.json"


def foreign_tokenizer(folder: Path, kind: str) -> bytes | None:
    """Of a folder without tokenizer.json, by what its files are called; None where there is none of them."""
    settings = read_json(folder / SETTINGS) if (folder / SETTINGS).is_file() else {}
    for names, read in READERS.items():
        if all((folder / name).is_file() for name in names.split()):
            return read(folder, settings, kind).to_str(pretty=False).encode("utf-8")
    return None


def word(settings: Mapping[str, Any], key: str, default: str) -> str:
    """A special token, which is a text or a table with its content."""
    value = settings.get(key, default)
    value = value.get("content", default) if isinstance(value, dict) else value
    return value if isinstance(value, str) else default


def wordpiece(folder: Path, settings: Mapping[str, Any], kind: str) -> Tokenizer:
    """BERT's vocab.txt, a piece a line."""
    path = folder / "vocab.txt"
    try:
        lines = read_bytes(path).decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        refuse_file(path, f"the vocabulary is not UTF-8: {error.reason}")
    unknown, begin, end = (word(settings, f"{x}_token", f"[{x.upper()}]") for x in ("unk", "cls", "sep"))
    vocabulary = {line: i for i, line in enumerate(lines)}
    if missing := [name for name in (unknown, begin, end) if name not in vocabulary]:
        refuse_file(path, f"the vocabulary is missing {', '.join(missing)}")
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token=unknown, max_input_chars_per_word=100))
    lower = bool(settings.get("do_lower_case", True))
    tokenizer.normalizer = normalizers.BertNormalizer(
        handle_chinese_chars=bool(settings.get("tokenize_chinese_chars", True)),
        strip_accents=settings.get("strip_accents"),
        lowercase=lower,
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    others = [word(settings, f"{x}_token", f"[{x.upper()}]") for x in ("pad", "mask")]
    tokenizer.add_special_tokens([x for x in (unknown, begin, end, *others) if x in vocabulary])
    ids = [(x, vocabulary[x]) for x in (begin, end)]
    pair = f"{begin} $A {end} $B:1 {end}:1"
    tokenizer.post_processor = TemplateProcessing(single=f"{begin} $A {end}", pair=pair, special_tokens=ids)
    return tokenizer


def byte_pairs(folder: Path, settings: Mapping[str, Any], kind: str) -> Tokenizer:
    """GPT-2's vocab.json and merges.txt: pairs of bytes, each written as a letter."""
    vocabulary, path = read_json(folder / "vocab.json"), folder / "merges.txt"
    if not all(type(i) is int and 0 <= i < len(vocabulary) for i in vocabulary.values()):
        refuse_file(folder / "vocab.json", "the token ids are not consecutive integers from 0")
    lines = read_bytes(path).decode("utf-8", "replace").splitlines()
    merges = [tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")]
    try:
        model = models.BPE(vocabulary, [(a, b) for a, b in merges])
    except Exception as error:  # the library raises bare Exceptions
        refuse_file(path, f"the merges do not match the vocabulary: {str(error)[:100]}")
    tokenizer = Tokenizer(model)
    prefix = bool(settings.get("add_prefix_space", False))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    tokenizer.decoder = decoders.ByteLevel()
    special = {word(settings, f"{x}_token", "<|endoftext|>") for x in ("bos", "eos", "unk")}
    tokenizer.add_special_tokens([AddedToken(x, normalized=False) for x in sorted(special) if x in vocabulary])
    return tokenizer


def sentence_pieces(name: str) -> "Callable[[Path, Mapping[str, Any], str], Tokenizer]":
    def read(folder: Path, settings: Mapping[str, Any], kind: str) -> Tokenizer:
        """Llama puts <s> before a text, T5 </s> behind it, ALBERT a text between [CLS] and [SEP]."""
        found = read_pieces(folder / name)
        begin, end = AROUND.get(kind, (None, None))
        begin = begin if settings.get("add_bos_token", True) else None
        end = end if settings.get("add_eos_token", True) else None
        tokenizer = tokenizer_of(found)
        extra = settings.get("extra_ids", 100 if kind in ("t5", "switch_transformers") else 0)
        if isinstance(extra, int) and 0 < extra <= 1000:
            names = [f"<extra_id_{i}>" for i in reversed(range(extra))]
            tokenizer.add_special_tokens([AddedToken(x, normalized=False) for x in names])
        around(tokenizer, begin, end)
        return tokenizer

    return read


def scored_bytes(folder: Path, settings: Mapping[str, Any], kind: str) -> Tokenizer:
    return tokenizer_of(read_llama2c(folder / "tokenizer.bin"), begin="<s>")


AROUND = {
    "llama": ("<s>", None),
    "mistral": ("<s>", None),
    "t5": (None, "</s>"),
    "switch_transformers": (None, "</s>"),
    "albert": ("[CLS]", "[SEP]"),
}
READERS: dict[str, Callable[[Path, Mapping[str, Any], str], Tokenizer]] = {
    "vocab.txt": wordpiece,
    "vocab.json merges.txt": byte_pairs,
    "tokenizer.model": sentence_pieces("tokenizer.model"),
    "spiece.model": sentence_pieces("spiece.model"),
    "tokenizer.bin": scored_bytes,
}
