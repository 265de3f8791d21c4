"""The letters of a vocabulary."""

from tokenizers import Tokenizer

PART = 1 << 16  # pieces that are decoded at once


def letters_of_vocabulary(tokenizer: Tokenizer) -> frozenset[str]:
    """Every letter that some piece contains whole: a byte is only a part of most letters."""
    size = tokenizer.get_vocab_size()
    found: set[str] = set()
    for start in range(0, size, PART):
        for piece in tokenizer.decode_batch([[i] for i in range(start, min(start + PART, size))]):
            found |= set(piece)
    return frozenset(filter(str.isalpha, found))
