"""Letters that a model has never read: those that stand whole in no piece of its vocabulary.

A tokenizer of bytes can take any text, and one of words or pieces has a token for what it does not know; so whether a
letter was ever learned is seen in the vocabulary alone. Digits, signs and spaces are not letters.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from regard.errors import notify

from .processor import Text

MOST = 0.1  # of the letters may be unknown before it is told
SHOWN = 5


def letters_of_texts(text: Text, given: Sequence[str]) -> Iterator[str]:
    """As the tokenizer normalizes them, such as in lower case."""
    normalizer = text.tokenizer.normalizer
    for one in given:
        yield from filter(str.isalpha, one if normalizer is None else normalizer.normalize_str(one))


def unknown_remark(text: Text, given: Sequence[str]) -> str:
    """What is told of texts of which a good part cannot be read; empty if there is nothing to tell."""
    letters = Counter(letters_of_texts(text, given))
    unknown = [letter for letter in letters if letter not in text.alphabet]
    share = sum(letters[letter] for letter in unknown) / max(letters.total(), 1)
    if share < MOST:
        return ""
    shown = "".join(unknown[:SHOWN])
    return (
        f"{share:.0%} of the letters are unknown to this model, such as {shown}: it has not learned this language or "
        "script, and its answer means little"
    )


def tell_unknown(text: Text, given: Sequence[str]) -> None:
    """A text that the tokenizer cannot encode at all is refused instead."""
    if remark := unknown_remark(text, given):
        text.encode(list(given))
        notify(remark)
