"""Tokenizers made from the training text itself."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from regard.decode.symbols import Symbols
from regard.errors import InputError

from .processor import Text

PAD, UNKNOWN, BEGIN, END = "<pad>", "<unknown>", "<begin>", "<end>"
SPECIAL_TOKENS = [PAD, UNKNOWN, BEGIN, END]
MASKS = ("<mask>", "[MASK]", "<MASK>")  # of ours, and of others
BYTE_VOCABULARY = 256 + len(SPECIAL_TOKENS)  # tokens that bpe has at least

Kind = Literal["bpe", "unigram", "wordpiece", "words", "characters"]


@dataclass(frozen=True)
class Vocabulary:
    """How text is cut into tokens."""

    kind: Kind = "bpe"
    size: int = 8000

    def learn(self, texts: Iterable[str]) -> Text:
        """Learn it from texts. No text is lost: bytes stand for what was never seen, or a token that says so."""
        learners = {
            "bpe": self.pairs,
            "unigram": self.unigram,
            "wordpiece": self.wordpiece,
            "words": self.words,
            "characters": self.characters,
        }
        tokenizer = learners[self.kind](texts)
        tokenizer.add_special_tokens(SPECIAL_TOKENS)
        return Text(tokenizer)

    def pairs(self, texts: Iterable[str]) -> Tokenizer:
        """Sennrich et al. (2016), https://arxiv.org/abs/1508.07909, on bytes: there is no unknown token."""
        tokenizer = Tokenizer(models.BPE())
        tokenizer.normalizer = normalizers.NFC()
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=self.size,
            special_tokens=SPECIAL_TOKENS,
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        )
        tokenizer.train_from_iterator(texts, trainer)
        return tokenizer

    def unigram(self, texts: Iterable[str]) -> Tokenizer:
        """Kudo (2018), https://arxiv.org/abs/1804.10959: the pieces under which the text is likeliest."""
        tokenizer = Tokenizer(models.Unigram())
        tokenizer.normalizer = normalizers.NFC()
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        tokenizer.decoder = decoders.Metaspace()
        trainer = trainers.UnigramTrainer(
            vocab_size=self.size, special_tokens=SPECIAL_TOKENS, unk_token=UNKNOWN, show_progress=False
        )
        tokenizer.train_from_iterator(texts, trainer)
        return settled_ids(tokenizer)

    def wordpiece(self, texts: Iterable[str]) -> Tokenizer:
        """Wu et al. (2016), https://arxiv.org/abs/1609.08144: what goes on within a word is marked.

        The library breaks ties by chance: learned twice, some pieces may differ.
        """
        tokenizer = Tokenizer(models.WordPiece({UNKNOWN: 0}, unk_token=UNKNOWN))
        tokenizer.normalizer = normalizers.NFC()
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()]
        )
        tokenizer.decoder = decoders.WordPiece(cleanup=True)
        trainer = trainers.WordPieceTrainer(vocab_size=self.size, special_tokens=SPECIAL_TOKENS, show_progress=False)
        tokenizer.train_from_iterator(texts, trainer)
        return settled_ids(tokenizer)

    def words(self, texts: Iterable[str]) -> Tokenizer:
        counting = whole_words({})
        counting.train_from_iterator(texts, trainers.WordLevelTrainer(vocab_size=self.size, show_progress=False))
        ids = counting.get_vocab()
        frequent = sorted(ids.keys() - set(SPECIAL_TOKENS), key=lambda word: ids[word])
        return whole_words(
            {name: i for i, name in enumerate([*SPECIAL_TOKENS, *frequent][: max(self.size, len(SPECIAL_TOKENS))])}
        )

    def characters(self, texts: Iterable[str]) -> Tokenizer:
        """Every character by itself, spaces and line ends too."""
        found = {character for text in texts for character in text}
        if len(found) + len(SPECIAL_TOKENS) > self.size:
            raise InputError(
                "the text has more distinct characters than the vocabulary size allows",
                got=f"{len(found)} characters",
                expected=f"at most {self.size - len(SPECIAL_TOKENS)}",
                fix="raise the vocabulary size, or use bpe",
            )
        names = [*SPECIAL_TOKENS, *sorted(found)]
        tokenizer = Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, unk_token=UNKNOWN))
        tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
        tokenizer.decoder = decoders.Fuse()
        return tokenizer


def settled_ids(tokenizer: Tokenizer) -> Tokenizer:
    """The same pieces with ids, and scores, that do not depend on the order in which the library went through them."""
    data = json.loads(tokenizer.to_str())
    model = data["model"]
    if model["type"] == "Unigram":
        pieces = {piece: round(score, 4) for piece, score in model["vocab"] if piece not in SPECIAL_TOKENS}
        learned = sorted(pieces.items(), key=lambda item: (-item[1], item[0]))
        model["vocab"], model["unk_id"] = [[name, 0.0] for name in SPECIAL_TOKENS] + list(map(list, learned)), 1
    else:
        names = [*SPECIAL_TOKENS, *sorted(model["vocab"].keys() - set(SPECIAL_TOKENS))]
        model["vocab"] = {name: i for i, name in enumerate(names)}
    data["added_tokens"] = []
    return Tokenizer.from_str(json.dumps(data))


def whole_words(ids: dict[str, int]) -> Tokenizer:
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token=UNKNOWN))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tokenizer


def tokenizer_symbols(text: Text) -> Symbols:
    """What begins, ends and fills up a text of ours; one that was made elsewhere may have no token to fill up with."""
    return Symbols(text.id_of(BEGIN), (text.id_of(END),), text.tokenizer.token_to_id(PAD))


def framing_tokens(text: Text, symbols: Symbols | None = None) -> tuple[int, int]:
    """What a text begins and ends with: as a model's symbols say, or by the names that are ours."""
    found = tokenizer_symbols(text) if symbols is None else symbols
    if found.begin is None or not found.end:
        raise InputError("this model has no begin token or no end token")
    return found.begin, found.end[0]


def with_frame(text: Text) -> Text:
    """Have a tokenizer of ours frame its texts, <begin> a <end> b <end>; others say by themselves how they do it."""
    if text.tokenizer.post_processor is None:
        ends = [(BEGIN, text.id_of(BEGIN)), (END, text.id_of(END))]
        single, both = f"{BEGIN} $A {END}", f"{BEGIN} $A {END} $B:1 {END}:1"
        text.tokenizer.post_processor = processors.TemplateProcessing(single=single, pair=both, special_tokens=ends)
    return text


def with_mask(text: Text) -> Text:
    """The same with a token that hides another."""
    if not any(text.tokenizer.token_to_id(name) is not None for name in MASKS):
        text.tokenizer.add_special_tokens([MASKS[0]])
    return text


def mask_token(text: Text) -> int:
    for name in MASKS:
        if (found := text.tokenizer.token_to_id(name)) is not None:
            return found
    raise InputError("the tokenizer has no mask token", expected=" or ".join(MASKS))


def sentinel(i: int) -> str:
    """T5's names: <extra_id_0> stands for the first missing span."""
    return f"<extra_id_{i}>"


def with_sentinels(text: Text, count: int) -> Text:
    text.tokenizer.add_special_tokens(
        [sentinel(i) for i in range(count) if text.tokenizer.token_to_id(sentinel(i)) is None]
    )
    return text


def sentinels_of(text: Text) -> list[int]:
    """All that there are, from the first on."""
    found: list[int] = []
    while (one := text.tokenizer.token_to_id(sentinel(len(found)))) is not None:
        found.append(one)
    if not found:
        raise InputError(
            "the tokenizer has no sentinel tokens for missing spans", expected=f"{sentinel(0)}, {sentinel(1)} ..."
        )
    return found
