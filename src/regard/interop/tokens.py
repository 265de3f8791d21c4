"""The tokenizer of a foreign folder, whichever files it is kept in, as one ``tokenizer.json``."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers.processors import TemplateProcessing

from regard.storage.documents import read_bytes, read_json
from regard.storage.untrusted import quote_name, refuse_file

from . import clip_tokens
from .pieces import Pieces, around, read_llama2c, read_pieces, tokenizer_of
from .special_tokens import SETTINGS, TokenSettings, add_special, add_tokens, read_token_settings


class UnclearTokenizer(NamedTuple):
    """Why a vocabulary is not read: the file that should say more, what is wrong, and what to do."""

    where: str
    got: str
    fix: str


Reader = Callable[[Path, TokenSettings, str], Tokenizer | UnclearTokenizer]


def foreign_tokenizer(folder: Path, kind: str) -> bytes | UnclearTokenizer | None:
    """Of a folder without tokenizer.json, by what its files are called; None where there is none of them."""
    settings = read_token_settings(folder)
    for names, read in READERS.items():
        if all((folder / name).is_file() for name in names.split()):
            found = read(folder, settings, kind)
            return found if isinstance(found, UnclearTokenizer) else found.to_str(pretty=False).encode("utf-8")
    return None


def wordpiece(folder: Path, settings: TokenSettings, kind: str) -> Tokenizer | UnclearTokenizer:
    """BERT's vocab.txt, a piece a line."""
    path = folder / "vocab.txt"
    try:
        text = read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        refuse_file(path, f"the vocabulary is not UTF-8: {error.reason}")
    lines = text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n")  # no other mark ends a line
    vocabulary = {line: i for i, line in enumerate(lines)}
    roles = {x: settings.word(x, f"[{x.upper()}]") for x in ("unk", "sep", "pad", "cls", "mask")}
    unknown, begin, end = (roles[x] or "" for x in ("unk", "cls", "sep"))
    if missing := [name for name in (unknown, begin, end) if name not in vocabulary]:
        refuse_file(path, f"the vocabulary is missing {', '.join(missing)}")
    if unclear := unclear_wordpiece(folder, settings, kind, set(vocabulary) - {*roles.values()}):
        return unclear
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token=unknown, max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(
        handle_chinese_chars=settings.flag("tokenize_chinese_chars", True),
        strip_accents=settings.data.get("strip_accents"),
        lowercase=settings.flag("do_lower_case", True),
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    add_tokens(tokenizer, settings, {x: word for x, word in roles.items() if word in vocabulary})
    ids = [(x, vocabulary[x]) for x in (begin, end)]
    pair = f"{begin} $A {end} $B:1 {end}:1"
    tokenizer.post_processor = TemplateProcessing(single=f"{begin} $A {end}", pair=pair, special_tokens=ids)
    return tokenizer


WORDPIECE_KINDS = ("bert", "distilbert")


def unclear_wordpiece(folder: Path, settings: TokenSettings, kind: str, pieces: set[str]) -> UnclearTokenizer | None:
    """Whether texts are lower-cased, and that words are cut as BERT cuts them, no vocabulary says. Where no file says
    it either, a vocabulary without capitals is read as the reference reads it, and one with capitals is not."""
    where, told = folder / SETTINGS, settings.data.get("tokenizer_class")
    name = str(told or "").removesuffix("Fast").removesuffix("Tokenizer")
    if (told is None and kind not in WORDPIECE_KINDS) or (told is not None and name not in ("Bert", "DistilBert")):
        got = f"tokenizer_class = {quote_name(told) if told else 'none'}, for a model of the kind {kind}"
        return UnclearTokenizer(str(where), got, "put a tokenizer.json into the folder")
    capitals = sorted(x for x in pieces if x != x.lower() and not (x.startswith("[") and x.endswith("]")))
    if "do_lower_case" not in settings.data and capitals:
        got = f"vocab.txt has capital letters, as in {quote_name(capitals[0])}, and nothing tells do_lower_case"
        line = '{"do_lower_case": false}, or true if the model reads texts in lower case'
        return UnclearTokenizer(str(where), got, f"write into this file: {line}")
    return None


def byte_pairs(folder: Path, settings: TokenSettings, kind: str) -> Tokenizer:
    """vocab.json and merges.txt: pairs of bytes, each written as a letter, in GPT-2 and Qwen2; of letters in GPT-1."""
    vocabulary, path = read_json(folder / "vocab.json"), folder / "merges.txt"
    if not all(type(i) is int and 0 <= i < len(vocabulary) for i in vocabulary.values()):
        refuse_file(folder / "vocab.json", "the token ids are not consecutive integers from 0")
    lines = read_bytes(path).decode("utf-8", "replace").splitlines()
    merges = [tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")]
    unknown = settings.word("unk", clip_tokens.END if kind in clip_tokens.KINDS else "<unk>")
    of_letters: dict[str, Any] = {"unk_token": unknown, "end_of_word_suffix": "</w>"}
    ended = kind == "openai-gpt" or kind in clip_tokens.KINDS
    try:
        model = models.BPE(vocabulary, [(a, b) for a, b in merges], **(of_letters if ended else {}))
    except Exception as error:  # the library raises bare Exceptions
        refuse_file(path, f"the merges do not match the vocabulary: {str(error)[:100]}")
    if kind in clip_tokens.KINDS:
        return clip_tokens.clip_tokenizer(model, settings)
    tokenizer = Tokenizer(model)
    prefix = settings.flag("add_prefix_space", False)
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=prefix), decoders.ByteLevel()
    named: dict[str, str | None] = dict.fromkeys(("bos", "eos", "unk"), "<|endoftext|>")
    if kind == "openai-gpt":
        tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
        tokenizer.decoder, named = decoders.BPEDecoder(suffix="</w>"), {"unk": "<unk>"}
    elif kind == "qwen2":
        words = pre_tokenizers.Split(Regex(QWEN_WORDS), "isolated")
        plain = pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=False)
        tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.NFC(), pre_tokenizers.Sequence([words, plain])
        named = dict.fromkeys(("eos", "unk", "pad"), "<|endoftext|>")
    add_tokens(tokenizer, settings, {key: word for key, word in named.items() if word in vocabulary})
    begin = settings.word("bos", named.get("bos")) if settings.flag("add_bos_token", False) else None
    end = settings.word("eos", named.get("eos")) if settings.flag("add_eos_token", False) else None
    around(tokenizer, begin, end)
    return tokenizer


# Contractions; letters and a mark before them; single digits; other marks; line ends; spaces but the last one.
QWEN_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def sentence_pieces(name: str) -> Reader:
    def read(folder: Path, settings: TokenSettings, kind: str) -> Tokenizer:
        """Llama puts <s> before a text, T5 </s> behind it, ALBERT a text between [CLS] and [SEP]."""
        found = read_pieces(folder / name)
        tokenizer = tokenizer_of(found)
        extra = settings.data.get("extra_ids", 100 if kind in ("t5", "switch_transformers") else 0)
        if type(extra) is int and 0 < extra <= 1000:
            add_special(tokenizer, [f"<extra_id_{i}>" for i in reversed(range(extra))])
        if kind == "albert":
            tokenizer.normalizer = simplified(found, settings)
            add_tokens(tokenizer, settings, {x: f"[{x.upper()}]" for x in ("cls", "sep", "mask")})
            around(tokenizer, settings.word("cls", "[CLS]"), settings.word("sep", "[SEP]"))
            return tokenizer
        add_tokens(tokenizer, settings, {})
        before, behind = AROUND.get(kind, (False, False))
        begin = settings.word("bos", "<s>") if settings.flag("add_bos_token", before) else None
        around(tokenizer, begin, settings.word("eos", "</s>") if settings.flag("add_eos_token", behind) else None)
        return tokenizer

    return read


def simplified(found: Pieces, settings: TokenSettings) -> normalizers.Normalizer:
    """What ALBERT does to a text before it is cut into pieces."""
    steps: list[normalizers.Normalizer] = [normalizers.Replace(x, '"') for x in ("``", "''")]
    if not settings.flag("keep_accents", False):
        steps += [normalizers.NFKD(), normalizers.StripAccents()]
    if settings.flag("do_lower_case", True):
        steps.append(normalizers.Lowercase())
    if found.characters:
        steps.append(normalizers.Precompiled(found.characters))
    return normalizers.Sequence([*steps, normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")])


def scored_bytes(folder: Path, settings: TokenSettings, kind: str) -> Tokenizer:
    return tokenizer_of(read_llama2c(folder / "tokenizer.bin"), begin="<s>")


AROUND = {  # a begin, an end, where the settings say nothing of them
    "llama": (True, False),
    "mistral": (True, False),
    "t5": (False, True),
    "switch_transformers": (False, True),
}
READERS: dict[str, Reader] = {
    "vocab.txt": wordpiece,
    "vocab.json merges.txt": byte_pairs,
    "tokenizer.model": sentence_pieces("tokenizer.model"),
    "spiece.model": sentence_pieces("spiece.model"),
    "tokenizer.bin": scored_bytes,
}
