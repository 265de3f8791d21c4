"""One token after the other, for many texts at once; each is told as soon as it is chosen."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from .incremental import IncrementalDecoder
from .rules import Rule

Choice = Callable[[Tensor, Sequence[int]], Tensor]  # (r, v) log-probabilities, which text each row is -> (r,)


@dataclass(frozen=True)
class GeneratedToken:
    """A token of one text, and how likely it was."""

    text: int
    id: int
    logp: float


@dataclass
class GeneratedTokens:
    """A text in tokens, without the one that ended it."""

    ids: list[int] = field(default_factory=list)
    logp: float = 0.0  # of the whole text, its end included
    ended: bool = False  # by itself; else it was cut
    score: float = 0.0  # what a search ranks it by


def limits(longest: int | Sequence[int], texts: int) -> list[int]:
    """How many tokens each text may have: one number for all, or one for each."""
    return [longest] * texts if isinstance(longest, int) else list(longest)


def stream_tokens(
    writer: IncrementalDecoder,
    choose: Choice,
    end: Sequence[int],
    *,
    longest: int | Sequence[int],
    rules: Sequence[Rule] = (),
) -> Iterator[list[GeneratedToken]]:
    """The new token of every text that still goes on, step by step; a text's last one may be its end."""
    alive = list(range(len(writer.first)))
    most = torch.tensor(limits(longest, len(alive)), device=writer.first.device)
    written = torch.empty(len(alive), 0, dtype=torch.long, device=writer.first.device)
    logits = writer.first
    stops = torch.tensor(sorted(end), device=logits.device)
    for step in range(int(most.max()) if alive else 0):
        scores = logits.log_softmax(-1)
        for rule in rules:
            scores = rule(scores, written)
        tokens = choose(scores, alive)
        found = scores.gather(1, tokens[:, None])[:, 0].tolist()
        yield [GeneratedToken(text, i, logp) for text, i, logp in zip(alive, tokens.tolist(), found, strict=True)]
        written = torch.cat((written, tokens[:, None]), 1)
        going = (~torch.isin(tokens, stops) & (step + 1 < most)).nonzero()[:, 0]
        if not len(going):
            return
        if len(going) < len(alive):
            alive = [alive[i] for i in going.tolist()]
            written, tokens, most = written[going], tokens[going], most[going]
            writer.keep(going, going)
        logits = writer.next(tokens)


def collect_tokens(tokens: Iterator[list[GeneratedToken]], texts: int, end: Sequence[int]) -> list[GeneratedTokens]:
    """All of a stream."""
    found = [GeneratedTokens() for _ in range(texts)]
    for step in tokens:
        for token in step:
            one = found[token.text]
            one.logp += token.logp
            if token.id in end:
                one.ended = True
            else:
                one.ids.append(token.id)
    for one in found:
        one.score = one.logp
    return found
