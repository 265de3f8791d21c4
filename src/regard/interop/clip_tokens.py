"""CLIP's tokenizer, from its vocab.json and merges.txt: pairs of bytes in lower case, each word with an end of its own.

Spaces of all kinds count as one, and none is a token; a text stands between a begin and an end.
"""

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers.processors import RobertaProcessing

from regard.storage.untrusted import refuse_file

from .special_tokens import TokenSettings, add_tokens

KINDS = ("clip", "clip_text_model")
BEGIN, END = "<|startoftext|>", "<|endoftext|>"
SUFFIX = "</w>"
# The ends themselves; contractions; letters; single digits; other marks.
WORDS = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|\p{L}+|\p{N}|[^\s\p{L}\p{N}]+"


def clip_tokenizer(pairs: models.BPE, settings: TokenSettings) -> Tokenizer:
    """Around pairs that are read already."""
    tokenizer = Tokenizer(pairs)
    spaces = normalizers.Replace(Regex(r"\s+"), " ")
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), spaces, normalizers.Lowercase()])
    words = pre_tokenizers.Split(Regex(WORDS), "removed", invert=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([words, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    begin, end = settings.word("bos", BEGIN), settings.word("eos", END)
    add_tokens(tokenizer, settings, {"bos": BEGIN, "eos": END, "unk": END, "pad": END})
    if begin is None or end is None:
        refuse_file(settings.folder / "tokenizer_config.json", "CLIP's tokenizer needs a bos_token and an eos_token")
    last, first = (end, tokenizer.token_to_id(end) or 0), (begin, tokenizer.token_to_id(begin) or 0)
    tokenizer.post_processor = RobertaProcessing(last, first, trim_offsets=False, add_prefix_space=False)
    return tokenizer
