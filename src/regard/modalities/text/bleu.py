"""How good translations are, by the field's own tool: BLEU and chrF of sacrebleu, with their signatures.

BLEU: Papineni et al. (2002), https://aclanthology.org/P02-1040; chrF: Popović (2015), https://aclanthology.org/W15-3049;
sacreBLEU: Post (2018), https://aclanthology.org/W18-6319
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest


@dataclass(frozen=True)
class Quality:
    bleu: float
    chrf: float
    signatures: dict[str, str]  # how each was computed, in sacrebleu's words
    sentences: int


def bleu_and_chrf(hypotheses: Sequence[str], references: Sequence[str]) -> Quality:
    """Of detokenised texts, cased."""
    return bleu_of_several(hypotheses, [[one] for one in references])


def bleu_of_several(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Quality:
    """The same where each text may be said in several ways, at least one."""
    from sacrebleu.metrics.bleu import BLEU  # here, not above: loading it takes as long as a short translation
    from sacrebleu.metrics.chrf import CHRF

    bleu, chrf = BLEU(), CHRF()
    columns = [list(column) for column in zip_longest(*references)]  # sacrebleu's way: None where there is no more
    scores = [metric.corpus_score(list(hypotheses), columns).score for metric in (bleu, chrf)]
    signatures = {"bleu": str(bleu.get_signature()), "chrf": str(chrf.get_signature())}
    return Quality(scores[0], scores[1], signatures, len(references))


def bleu_by_length(
    sources: Sequence[str], hypotheses: Sequence[str], references: Sequence[str], edges: Sequence[int]
) -> dict[str, Quality]:
    """The same for sources of like length, in words: up to the first edge, up to the second, and beyond the last."""
    buckets: dict[str, list[int]] = {}
    names = [f"{low + 1}-{high}" for low, high in zip((0, *edges), edges, strict=False)] + [f"{edges[-1] + 1}-"]
    for i, source in enumerate(sources):
        n = len(source.split())
        buckets.setdefault(names[sum(n > edge for edge in edges)], []).append(i)
    return {
        name: bleu_and_chrf([hypotheses[i] for i in buckets[name]], [references[i] for i in buckets[name]])
        for name in names
        if name in buckets
    }
