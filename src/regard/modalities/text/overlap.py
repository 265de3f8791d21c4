"""How alike two answers are, as SQuAD measures it.

SQuAD: 100,000+ Questions for Machine Comprehension of Text (Rajpurkar et al., 2016), https://arxiv.org/abs/1606.05250,
section 6.1: without punctuation and articles, both in small letters, they are the same; or share some words.
"""

import re
import string
from collections import Counter

ARTICLE = re.compile(r"\b(a|an|the)\b")
NO_MARKS = str.maketrans("", "", string.punctuation)


def bare_words(text: str) -> list[str]:
    return ARTICLE.sub(" ", text.lower().translate(NO_MARKS)).split()


def exact(said: str, wanted: str) -> float:
    """1 where nothing but punctuation, articles, space and the size of letters is different."""
    return float(bare_words(said) == bare_words(wanted))


def f1(said: str, wanted: str) -> float:
    """The harmonic mean of precision and recall, in words. Where one has none, it is whether both have none."""
    one, two = bare_words(said), bare_words(wanted)
    if not one or not two:
        return float(one == two)
    return 2 * (Counter(one) & Counter(two)).total() / (len(one) + len(two))
