"""A tokenizer for another library, which knows only what its files say.

What a model does here around a text, to begin it, to end it, to take the space before its first word away, is written
into ``tokenizer.json``; the names of the special tokens and their use into ``tokenizer_config.json``.
"""

from typing import Any

from tokenizers import Tokenizer, decoders, normalizers
from tokenizers.processors import TemplateProcessing

from regard.decode.settings import FOUR
from regard.decode.symbols import Symbols
from regard.modalities.processor import ForeignFolder
from regard.storage.documents import json_bytes

from . import generator, translator
from .processor import Text
from .vocabulary import MASKS, SPECIAL_TOKENS

SPACES = 64  # more than stand before or behind any text that a model writes


def exported_tokenizer(text: Text, folder: ForeignFolder) -> dict[str, bytes]:
    """The files of a tokenizer."""
    own = Text.from_bytes(text.to_bytes(), "this tokenizer")
    if translates(folder):
        ended(own.tokenizer, folder.symbols)
        stripped(own.tokenizer)
    elif continues(folder):
        begun(own.tokenizer, folder.symbols)
    return {
        "tokenizer.json": own.to_bytes(),
        "tokenizer_config.json": json_bytes(settings(own.tokenizer, folder)),
    }


def usual_decoding(folder: ForeignFolder) -> dict[str, Any]:
    """How long a text becomes and how it is searched for by default, as far as it can be said there."""
    if translates(folder):
        most = 2 * translator.LONGEST + 16
        return {"max_new_tokens": most, "num_beams": FOUR.beams, "length_penalty": FOUR.penalty}
    return {"max_new_tokens": generator.TOKENS, "do_sample": False} if continues(folder) else {}


def translates(folder: ForeignFolder) -> bool:
    return folder.family.takes == ("text", "text")


def continues(folder: ForeignFolder) -> bool:
    return "language" in folder.family.tasks


def is_ours(tokenizer: Tokenizer) -> bool:
    """Whether a vocabulary was learned here."""
    return [tokenizer.token_to_id(name) for name in SPECIAL_TOKENS] == list(range(len(SPECIAL_TOKENS)))


def fills_masks(folder: ForeignFolder) -> bool:
    """Whether it has a head for hidden words, by the class that its config names."""
    return any(name.endswith(("ForMaskedLM", "ForPreTraining")) for name in folder.config.get("architectures", ()))


def ended(tokenizer: Tokenizer, symbols: Symbols) -> None:
    """The end behind a text, unless the tokenizer writes it by itself."""
    if symbols.end and tokenizer.encode("").ids[-1:] != [symbols.end[0]]:
        around(tokenizer, (), symbols.end[:1])


def stripped(tokenizer: Tokenizer) -> None:
    """A translator reads and gives a text without the spaces around it."""
    given = [tokenizer.normalizer] if tokenizer.normalizer is not None else []
    tokenizer.normalizer = normalizers.Sequence([normalizers.Strip(), *given])
    if tokenizer.decoder is not None:  # without one, words are joined by spaces
        ends = [decoders.Fuse(), decoders.Strip(" ", SPACES, SPACES)]
        tokenizer.decoder = decoders.Sequence([tokenizer.decoder, *ends])


def begun(tokenizer: Tokenizer, symbols: Symbols) -> None:
    """The begin before a text, unless the tokenizer writes it by itself, or the same token ends texts."""
    begin = symbols.begin
    if begin is not None and begin not in symbols.end and tokenizer.encode("").ids[:1] != [begin]:
        around(tokenizer, (begin,), ())


def around(tokenizer: Tokenizer, before: tuple[int, ...], behind: tuple[int, ...]) -> None:
    names = {i: tokenizer.id_to_token(i) or "" for i in (*before, *behind)}
    single = " ".join([*(names[i] for i in before), "$A", *(names[i] for i in behind)])
    pair = " ".join([*(names[i] for i in before), "$A", "$B:1", *(f"{names[i]}:1" for i in behind)])
    tokens = [(name, i) for i, name in names.items()]
    tokenizer.post_processor = TemplateProcessing(single=single, pair=pair, special_tokens=tokens)


def settings(tokenizer: Tokenizer, folder: ForeignFolder) -> dict[str, Any]:
    """``tokenizer_config.json``. A text that spells a special token means its letters, as here, if the vocabulary is
    ours: another library's leaves as it came. A model that fills masks has to be given them."""
    length = folder.config.get("max_position_embeddings") or folder.config.get("n_positions")
    told: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_input_names": input_names(folder),
        "padding_side": "left" if continues(folder) else "right",
        "clean_up_tokenization_spaces": False,
        **({"split_special_tokens": True} if is_ours(tokenizer) and not fills_masks(folder) else {}),
        **special_tokens(tokenizer, folder),
    }
    return told | ({"model_max_length": length} if length else {})


def input_names(folder: ForeignFolder) -> list[str]:
    segments = ["token_type_ids"] if folder.config.get("type_vocab_size", 0) > 1 else []
    return ["input_ids", *segments, "attention_mask"]


def special_tokens(tokenizer: Tokenizer, folder: ForeignFolder) -> dict[str, str]:
    """Their names for what each is used for."""
    symbols, framed = folder.symbols, tokenizer.encode("").ids
    reads = not translates(folder) and not continues(folder)
    first, last = (framed[0], framed[-1]) if reads and framed else (None, None)
    unknown = getattr(tokenizer.model, "unk_token", None)
    mask = next((name for name in MASKS if tokenizer.token_to_id(name) is not None), None)
    ids = {
        "bos_token": symbols.begin,
        "eos_token": symbols.end[0] if symbols.end else None,
        "pad_token": symbols.pad,
        "cls_token": first,
        "sep_token": last,
    }
    names = {key: None if i is None else tokenizer.id_to_token(i) for key, i in ids.items()}
    names |= {"unk_token": unknown if isinstance(unknown, str) else None, "mask_token": mask}
    return {key: name for key, name in names.items() if name is not None}
