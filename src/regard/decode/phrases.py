"""Phrases that must be said, whatever else is: dynamic beam allocation (Post & Vilar, 2018).

https://arxiv.org/abs/1804.06609
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from torch import Tensor

Phrases = tuple[tuple[int, ...], ...]  # of one text, each a sequence of tokens


@dataclass(frozen=True)
class Candidate:
    parent: int
    token: int
    score: float
    met: int  # tokens of phrases that are said with it


@dataclass(frozen=True)
class Progress:
    """What of the phrases a text has said: whole ones, and the beginning of at most one more at its very end."""

    said: frozenset[int]
    open: int | None = None  # the phrase that is being said
    place: int = 0  # how many of its tokens are said

    def met(self, phrases: Phrases) -> int:
        return sum(len(phrases[i]) for i in self.said) + self.place

    def done(self, phrases: Phrases) -> bool:
        return len(self.said) == len(phrases)

    def after(self, token: int, phrases: Phrases) -> "Progress":
        """The longest beginning of a phrase that the text now ends with, the one being said first of all."""
        tail = (token,) if self.open is None else (*phrases[self.open][: self.place], token)
        left = [i for i in range(len(phrases)) if i not in self.said]
        left.sort(key=lambda i: i != self.open)
        for n in range(len(tail), 0, -1):
            for i in left:
                if tail[-n:] == phrases[i][:n]:
                    return Progress(self.said | {i}) if n == len(phrases[i]) else Progress(self.said, i, n)
        return Progress(self.said)

    def wanted(self, phrases: Phrases) -> list[int]:
        """Tokens that would bring it on."""
        if self.open is not None:
            return [phrases[self.open][self.place]]
        return sorted({phrase[0] for i, phrase in enumerate(phrases) if i not in self.said})


def progress(history: Sequence[int], phrases: Phrases) -> Progress:
    found = Progress(frozenset())
    for token in history:
        found = found.after(token, phrases)
    return found


def allotted(
    ranked: Tensor, histories: Sequence[Sequence[int]], phrases: Phrases, end: Collection[int]
) -> tuple[list[Candidate], list[tuple[int, int]]]:
    """(g, v) -> the candidates that go on, as many as there are beams, and (parent, token) of those that end.

    Candidates are the best of all, the best of each beam, and what brings each beam on; the beam is shared equally
    among the numbers of tokens that are met, and what one number cannot use goes to those that have met more.
    """
    width, words = ranked.shape
    states = [progress(history, phrases) for history in histories]
    places = {divmod(place, words) for place in ranked.flatten().topk(min(2 * width, ranked.numel())).indices.tolist()}
    for beam, state in enumerate(states):
        places |= {(beam, token) for token in ranked[beam].topk(min(2, words)).indices.tolist()}
        places |= {(beam, token) for token in (*state.wanted(phrases), *end)}
    going: list[Candidate] = []
    ends: list[Candidate] = []
    for beam, token in sorted(places):
        state, score = states[beam].after(token, phrases), float(ranked[beam, token])
        if score > -math.inf and (token not in end or states[beam].done(phrases)):
            (ends if token in end else going).append(Candidate(beam, token, score, state.met(phrases)))
    going.sort(key=lambda one: -one.score)
    total = sum(map(len, phrases))
    rivals = [one.score for one in (*going, *ends) if one.met == total]  # a text that lacks a phrase is none
    ends = [one for one in ends if sum(score > one.score for score in rivals) < width]
    return shared(going, width, total), [(one.parent, one.token) for one in ends]


def shared(going: Sequence[Candidate], width: int, total: int) -> list[Candidate]:
    """Each number of met tokens gets an equal share; of what is left, those that have met most take first."""
    banks = [[one for one in going if one.met == met] for met in range(total, -1, -1)]
    share = [width // len(banks) + (i < width % len(banks)) for i in range(len(banks))]
    taken = [one for bank, most in zip(banks, share, strict=True) for one in bank[:most]]
    spare = [one for bank, most in zip(banks, share, strict=True) for one in bank[most:]]
    taken += spare[: width - len(taken)]
    never = Candidate(0, 0, -math.inf, 0)
    return sorted(taken, key=lambda one: -one.score) + [never] * (width - len(taken))
