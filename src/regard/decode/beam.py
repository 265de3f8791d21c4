"""Beam search: the best texts that a few hypotheses at a time can find.

Length penalty: Wu et al. (2016), https://arxiv.org/abs/1609.08144, section 7: a text of n tokens, its end included, is
ranked by log p / ((5 + n) / 6)^alpha.
Diverse: Vijayakumar et al. (2018), https://arxiv.org/abs/1610.02424: groups of beams take turns, and a token costs as
much as the groups before have chosen it.
Phrases that must be in the text: Post & Vilar (2018), https://arxiv.org/abs/1804.06609: the beam is shared among
hypotheses that have said different numbers of their tokens.

Shapes: s sentences, k beams of each, g of them in a group, r = s k rows, c candidates, v vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.nn.arguments import explain_methods
from regard.nn.config import not_at_least, not_finite, not_positive, refuse

from .incremental import IncrementalDecoder
from .phrases import Phrases, allotted, progress
from .rules import Rule
from .steps import GeneratedTokens, limits

MOST = 256  # beams: beyond, a search takes minutes and finds nothing better


@explain_methods
@dataclass(frozen=True, kw_only=True)
class Beam:
    """Beam search."""

    beams: int = 4  # number of beams
    penalty: float = 1.0  # length penalty alpha; 0 ranks by probability alone, which favours short texts
    groups: int = 1  # number of beam groups, for diverse beam search
    diversity: float = 0.5  # penalty of a token for each group that has already chosen it, in nats

    def __post_init__(self) -> None:
        wrong = not_positive(self, "beams", "groups") + not_at_least(0, self, "penalty", "diversity")
        wrong += not_finite(self, "penalty", "diversity")
        wrong += [f"beams = {self.beams} is greater than {MOST}"] if (self.beams or 0) > MOST else []
        if self.beams and self.groups and self.beams % self.groups:
            wrong += [f"beams = {self.beams} is not a multiple of groups = {self.groups}"]
        refuse(wrong)


class Search:
    """The state of a beam search over some sentences; ``run`` gives the finished texts of each, the best first."""

    def __init__(
        self,
        writer: IncrementalDecoder,
        settings: Beam,
        end: Sequence[int],
        *,
        longest: int | Sequence[int],
        rules: Sequence[Rule] = (),
        phrases: Sequence[Phrases] | None = None,
    ) -> None:
        self.writer, self.settings, self.rules, self.phrases = writer, settings, rules, phrases
        self.limits, self.end = limits(longest, len(writer.first)), frozenset(end)
        device = writer.first.device
        self.stops = torch.tensor(sorted(end), device=device)
        self.sentences = list(range(len(writer.first)))  # those that go on
        self.finished: list[list[GeneratedTokens]] = [[] for _ in self.sentences]
        self.written = torch.empty(len(self.sentences), settings.beams, 0, dtype=torch.long, device=device)
        self.scores = torch.full((len(self.sentences), settings.beams), -torch.inf, device=device)
        self.scores[:, :: settings.beams // settings.groups] = 0.0  # at first all of a group would say the same

    def run(self) -> list[list[GeneratedTokens]]:
        logits = self.writer.first.repeat_interleave(self.settings.beams, 0)
        self.writer.spread(self.settings.beams)
        for step in range(max(self.limits, default=0)):
            tokens, rows = self.advance(self.allowed(logits))
            self.cut_off(step + 1)
            going = self.going(step + 1)
            if not len(going):
                break
            if len(going) < len(self.sentences):
                tokens, rows = self.drop(going, tokens, rows)
                self.writer.keep(rows, going)
            else:
                self.writer.keep(rows)
            logits = self.writer.next(tokens)
        return self.finished

    def allowed(self, logits: Tensor) -> Tensor:
        """(r, v) -> (s, k, v): log-probabilities, minus infinity at what may not be said"""
        scores, written = logits.log_softmax(-1), self.written.flatten(0, 1)
        for rule in self.rules:
            scores = rule(scores, written)
        return scores.unflatten(0, self.scores.shape)

    def advance(self, found: Tensor) -> tuple[Tensor, Tensor]:
        """One token more for each beam -> the tokens (r,), and the rows that they go on from (r,)"""
        width = self.settings.beams // self.settings.groups
        tokens, parents, scores = [], [], []
        counts = torch.zeros_like(found[:, 0])  # (s, v): how many groups have chosen a token at this step
        for group in range(self.settings.groups):
            own = slice(group * width, (group + 1) * width)
            true = self.scores[:, own, None] + found[:, own]
            ranked = true - self.settings.diversity * counts[:, None] if group else true
            token, parent, score = self.chosen(ranked, true, own)
            counts.scatter_add_(1, token, torch.ones_like(score))
            tokens.append(token)
            parents.append(parent + own.start)
            scores.append(score)
        token, parent = torch.cat(tokens, 1), torch.cat(parents, 1)
        self.scores = torch.cat(scores, 1)
        kept = self.written.gather(1, parent[..., None].expand(-1, -1, self.written.shape[2]))
        self.written = torch.cat((kept, token[..., None]), 2)
        first = torch.arange(len(parent), device=parent.device)[:, None] * self.settings.beams
        return token.flatten(), (first + parent).flatten()

    def chosen(self, ranked: Tensor, true: Tensor, own: slice) -> tuple[Tensor, Tensor, Tensor]:
        """(s, g, v) -> tokens, parents and scores (s, g). What ends among the best is finished; the rest goes on."""
        if self.phrases is not None:
            return self.fulfilling(ranked, true, own)
        width, words = ranked.shape[1:]
        place = ranked.flatten(1).topk(min(2 * width, width * words), 1).indices
        token, parent, score = place % words, place // words, true.flatten(1).gather(1, place)
        ended = torch.isin(token, self.stops)
        for s, c in (ended[:, :width] & (score[:, :width] > -torch.inf)).nonzero().tolist():
            self.finish(s, own.start + int(parent[s, c]), float(score[s, c]))
        picked = ended.int().argsort(dim=1, stable=True)[:, :width]  # in order of their scores, what ended last
        score = score.masked_fill(ended, -torch.inf)
        return token.gather(1, picked), parent.gather(1, picked), score.gather(1, picked)

    def fulfilling(self, ranked: Tensor, true: Tensor, own: slice) -> tuple[Tensor, Tensor, Tensor]:
        """The same where phrases must be said: no end before all of them are."""
        assert self.phrases is not None
        rows = []
        for s, sentence in enumerate(self.sentences):
            histories = self.written[s, own].tolist()
            taken, ends = allotted(ranked[s], histories, self.phrases[sentence], self.end)
            for parent, token in ends:
                self.finish(s, own.start + parent, float(true[s, parent, token]))
            rows.append(taken)
        place = torch.tensor([[one.parent * ranked.shape[2] + one.token for one in row] for row in rows])
        lost = torch.tensor([[one.score == -torch.inf for one in row] for row in rows])
        place, lost = place.to(ranked.device), lost.to(ranked.device)
        score = true.flatten(1).gather(1, place).masked_fill(lost, -torch.inf)
        return place % ranked.shape[2], place // ranked.shape[2], score

    def finish(self, s: int, beam: int, logp: float, ended: bool = True) -> None:
        """A hypothesis into the pool of its sentence, as many as there are beams; what was cut stands last. Another
        group of beams may have found the same."""
        ids = self.written[s, beam].tolist()
        score = logp / self.norm(len(ids) + ended)
        pool = self.finished[self.sentences[s]]
        if any(text.ids == ids and text.ended == ended for text in pool):
            return
        pool.append(GeneratedTokens(ids, logp, ended, score))
        pool.sort(key=lambda text: (not text.ended, -text.score))
        del pool[self.settings.beams :]

    def norm(self, n: int) -> float:
        return float(((5 + n) / 6) ** self.settings.penalty)

    def going(self, length: int) -> Tensor:
        """(sentences,): those that may be longer, and whose best hypothesis could enter the pool if it ended now."""
        best = self.scores.amax(1).tolist()
        ends = self.norm(length + 1)
        open_ = [
            s
            for s, sentence in enumerate(self.sentences)
            if best[s] > -torch.inf
            and length < self.limits[sentence]
            and (
                len(pool := self.finished[sentence]) < self.settings.beams
                or best[s] / ends > min(text.score for text in pool)
            )
        ]
        return torch.tensor(open_, dtype=torch.long, device=self.scores.device)

    def drop(self, going: Tensor, tokens: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Leave out the sentences that are finished."""
        beams = self.settings.beams
        self.sentences = [self.sentences[s] for s in going.tolist()]
        self.scores, self.written = self.scores[going], self.written[going]
        return tokens.view(-1, beams)[going].flatten(), rows.view(-1, beams)[going].flatten()

    def cut_off(self, length: int) -> None:
        """Hypotheses that are as long as they may be, where too few ended by themselves; only what said it all."""
        for s, sentence in enumerate(self.sentences):
            if length < self.limits[sentence]:
                continue
            found = [(beam, score) for beam, score in enumerate(self.scores[s].tolist()) if score > -torch.inf]
            if self.phrases is not None:
                own, texts = self.phrases[sentence], self.written[s].tolist()
                found = [one for one in found if progress(texts[one[0]], own).done(own)]
            for beam, score in found:
                self.finish(s, beam, score, ended=False)
