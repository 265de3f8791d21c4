"""Hidden tokens, to be guessed from all that surrounds them.

BERT (Devlin et al., 2019), section 3.1: of all tokens 15 % are chosen; of these 80 % become [MASK], 10 % any token, and
10 % stay, so that a model must know every token that it reads. Which they are is drawn anew at every step.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from regard.data.counter_rng import uniform_samples
from regard.data.rows import IntegerArray, Rows

from .framing import Texts, together
from .processor import Framed, Text, pad_ids
from .vocabulary import mask_token

HIDDEN, OTHER = 0.8, 0.1


@dataclass(frozen=True, eq=False)
class MaskedBatch(Texts):
    """A batch: what is given, which places count, and what stood there."""

    chosen: Tensor  # (b, n)
    wanted: Tensor  # (b, n)
    follows: Tensor | None  # (b,): 0 where the second text follows the first, 1 where it is any other


class Masking:
    def __init__(self, text: Text, longest: int, share: float, others: Rows | None = None) -> None:
        """``others`` are texts to take a second one from that does not follow the first."""
        self.text, self.longest, self.share, self.others = text.literal(), longest, share, others
        self.mask, self.vocab = mask_token(text), text.tokenizer.get_vocab_size()

    def __call__(self, rows: Sequence[tuple[str, ...]], numbers: Sequence[np.random.Philox]) -> MaskedBatch:
        texts, follows = list(rows), None
        if self.others is not None:
            drawn = [uniform_samples(own, 2) for own in numbers]
            follows = torch.tensor([int(own[0] >= 0.5) for own in drawn])
            others = [self.others[int(own[1] * len(self.others))][0] for own in drawn]
            texts = [
                (row[0], row[1] if own[0] < 0.5 else other) for row, own, other in zip(rows, drawn, others, strict=True)
            ]
        framed = self.text.framed(texts, self.longest)
        found = [self.hide(own, chance) for own, chance in zip(framed, numbers, strict=True)]
        given = together([replace(own, ids=ids) for own, (ids, _) in zip(framed, found, strict=True)])
        chosen, wanted = pad_ids([places.tolist() for _, places in found]), pad_ids([own.ids for own in framed])
        return MaskedBatch(given.ids, given.segments, given.keys, chosen.ids.bool(), wanted.ids, follows)

    def hide(self, row: Framed, numbers: np.random.Philox) -> tuple[list[int], IntegerArray]:
        """What is given instead of the tokens of one text, and which of them were chosen."""
        ids, free = np.array(row.ids), np.flatnonzero(row.free)
        count = min(max(round(self.share * len(free)), 1), len(free))
        order, what, other = uniform_samples(numbers, 3 * len(free)).reshape(3, -1)
        picked = np.argsort(order, kind="stable")[:count]
        chosen = np.zeros(len(ids), np.int64)
        chosen[free[picked]] = 1
        kept = what[picked]
        ids[free[picked[kept < HIDDEN]]] = self.mask
        any_ = picked[(kept >= HIDDEN) & (kept < HIDDEN + OTHER)]
        ids[free[any_]] = (other[any_] * self.vocab).astype(np.int64)
        return ids.tolist(), chosen


class Neighbours:
    """Rows of two texts, one line and the next."""

    def __init__(self, rows: Rows) -> None:
        assert rows.lengths is not None
        self.source, self.faults = rows, rows.faults
        self.lengths: IntegerArray = np.concatenate([rows.lengths[:-1], rows.lengths[1:]], 1)

    def __len__(self) -> int:
        return len(self.source) - 1

    def __getitem__(self, i: int) -> tuple[str, str]:
        return self.source[i][0], self.source[i + 1][0]

    def where(self, i: int) -> str:
        return self.source.where(i)
