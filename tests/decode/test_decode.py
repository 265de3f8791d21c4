"""Writing texts: what is found is what is best, whoever else is in the batch, and rules are kept."""

import itertools
import math
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import regard
from regard.decode.beam import Beam, Search
from regard.decode.incremental import CausalDecoder, IncrementalDecoder, Seq2SeqDecoder
from regard.decode.phrases import Phrases, progress
from regard.decode.rules import Rule, ban_tokens, forced_prefix, min_tokens, no_repeat_ngrams
from regard.decode.sampling import Sampling, TokenSampler, cut, greedy_tokens
from regard.decode.steps import GeneratedTokens, collect_tokens, stream_tokens
from regard.nn.cache import Cache
from tests.contracts.tools import ragged

END, BEGIN, WORDS = 1, 2, 9


def translator(seed: int = 0) -> torch.nn.Module:
    """Random weights, stirred enough that its choices differ from input to input."""
    torch.manual_seed(seed)
    sizes = {"vocab": WORDS, "dim": 16, "depth": 2, "heads": 2, "hidden": 24, "norm": "pre", "scaled": False}
    net = regard.build("transformer-small", output_bias=True, **sizes).eval().net.double()
    for name, x in net.named_parameters():
        if x.ndim > 1:
            torch.nn.init.normal_(x, std=0.3 if "embed" in name else 1.0)
    net.output_bias.data[END] = 1.0
    return net


def sources(count: int, length: int = 6, seed: int = 0) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    sizes = torch.randint(1, length + 1, (count, 1), generator=draw)
    return torch.randint(3, WORDS, (count, length), generator=draw), torch.arange(length) < sizes


def writer(net: torch.nn.Module, source: Tensor, keys: Tensor | None) -> IncrementalDecoder:
    with torch.inference_mode():
        return IncrementalDecoder(Seq2SeqDecoder(net, source, keys), torch.full((len(source), 1), BEGIN))


@torch.inference_mode()
def searched(
    net: torch.nn.Module,
    source: Tensor,
    keys: Tensor | None,
    beam: Beam,
    longest: int = 12,
    rules: Sequence[Rule] = (),
    phrases: Sequence[Phrases] | None = None,
) -> list[list[GeneratedTokens]]:
    return Search(writer(net, source, keys), beam, [END], longest=longest, rules=rules, phrases=phrases).run()


@torch.inference_mode()
def streamed(
    net: torch.nn.Module, source: Tensor, keys: Tensor | None, choose=greedy_tokens, longest: int = 12
) -> list:
    return collect_tokens(stream_tokens(writer(net, source, keys), choose, [END], longest=longest), len(source), [END])


@torch.inference_mode()
def log_probability(net: torch.nn.Module, source: Tensor, ids: Sequence[int], ended: bool) -> float:
    """Of a whole text, without any cache."""
    wanted = [*ids, END] if ended else list(ids)
    given = torch.tensor([[BEGIN, *wanted[:-1]]])
    found = net(source[None], given).log_softmax(-1)[0]
    return float(found[torch.arange(len(wanted)), torch.tensor(wanted)].sum())


# -------------------------------------------------------------------------------------------------- greedy and batches


def uncached(net: torch.nn.Module, source: Tensor, longest: int) -> list[int]:
    """The likeliest token again and again, everything computed anew at each."""
    ids: list[int] = []
    while len(ids) < longest:
        best = int(net(source[None], torch.tensor([[BEGIN, *ids]]))[0, -1].argmax())
        if best == END:
            break
        ids.append(best)
    return ids


@torch.inference_mode()
def test_greedy_is_what_no_cache_finds() -> None:
    net, (source, keys) = translator(), sources(40)
    found = streamed(net, source, keys)
    assert [text.ids for text in found] == [uncached(net, x[k], 12) for x, k in zip(source, keys, strict=True)]
    assert len({tuple(text.ids) for text in found}) > 10
    assert {text.ended for text in found} == {True, False}


class Forgetful(IncrementalDecoder):
    """Reads all that was written anew for each token: no cache is used twice."""

    def __init__(self, net: torch.nn.Module, source: Tensor, keys: Tensor) -> None:
        self.net, self.source, self.keys = net, source, keys
        self.ids = torch.full((len(source), 1), BEGIN)
        self.first = self.said()

    def said(self) -> Tensor:
        memory = self.net.encode(self.source, self.keys)
        logits: Tensor = self.net.decode(self.ids, memory, source_keys=self.keys)
        return logits[:, -1]

    def spread(self, beams: int) -> None:
        self.source, self.keys, self.ids = (x.repeat_interleave(beams, 0) for x in (self.source, self.keys, self.ids))

    def next(self, tokens: Tensor) -> Tensor:
        self.ids = torch.cat((self.ids, tokens[:, None]), 1)
        return self.said()

    def keep(self, rows: Tensor, sentences: Tensor | None = None) -> None:
        self.source, self.keys, self.ids = self.source[rows], self.keys[rows], self.ids[rows]


@pytest.mark.parametrize("beams", [1, 4])
@torch.inference_mode()
def test_a_thousand_texts_with_and_without_a_cache(beams: int) -> None:
    net, (source, keys) = translator(), sources(1000, length=8)
    found = []
    for start in (writer(net, source, keys), Forgetful(net, source, keys)):
        if beams == 1:
            texts = [
                [x] for x in collect_tokens(stream_tokens(start, greedy_tokens, [END], longest=10), len(source), [END])
            ]
        else:
            texts = Search(start, Beam(beams=beams), [END], longest=10).run()
        found.append([[(one.ids, one.ended) for one in own] for own in texts])
    assert found[0] == found[1]
    assert len({str(own) for own in found[0]}) > 20


@pytest.mark.parametrize("beams", [1, 4])
def test_a_batch_is_its_texts(beams: int) -> None:
    """Ragged sentences that end at different steps, together and one by one."""
    net, (source, keys) = translator(), sources(64)
    together = searched(net, source, keys, Beam(beams=beams))
    for i, (x, k) in enumerate(zip(source, keys, strict=True)):
        (alone,) = searched(net, x[k][None], None, Beam(beams=beams))
        assert [text.ids for text in alone] == [text.ids for text in together[i]]
        assert [text.logp for text in alone] == pytest.approx([text.logp for text in together[i]])


def test_one_beam_is_greedy() -> None:
    net, (source, keys) = translator(1), sources(30, seed=1)
    for found, wanted in zip(searched(net, source, keys, Beam(beams=1)), streamed(net, source, keys), strict=True):
        assert found[0].ids == wanted.ids
        assert found[0].ended == wanted.ended
        assert found[0].logp == pytest.approx(wanted.logp)


def test_the_score_is_that_of_the_model() -> None:
    net, (source, keys) = translator(2), sources(12, seed=2)
    for beam in (Beam(beams=3), Beam(beams=4, groups=2, diversity=2.0)):
        for i, texts in enumerate(searched(net, source, keys, beam)):
            assert texts
            for text in texts:
                wanted = log_probability(net, source[i][keys[i]], text.ids, text.ended)
                assert text.logp == pytest.approx(wanted, abs=1e-8)
                assert text.score == pytest.approx(wanted / ((5 + len(text.ids) + text.ended) / 6) ** beam.penalty)
            assert texts == sorted(texts, key=lambda text: (not text.ended, -text.score))  # what was cut comes last


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0, 2.0])
def test_a_beam_as_wide_as_everything_finds_the_best(penalty: float) -> None:
    net, (source, _) = translator(3), sources(4, seed=3)
    words = [i for i in range(WORDS) if i != END]
    longest = 3
    for x in source:
        every = []
        for n in range(longest):
            for ids in itertools.product(words, repeat=n):
                score = log_probability(net, x, ids, True) / ((5 + n + 1) / 6) ** penalty
                every.append((score, list(ids)))
        best = max(every)
        (found,) = searched(net, x[None], None, Beam(beams=100, penalty=penalty), longest=longest)
        assert found[0].ids == best[1]
        assert found[0].score == pytest.approx(best[0])


def test_wider_is_better_on_the_whole() -> None:
    net, (source, keys) = translator(4), sources(60, seed=4)
    means = [
        sum(texts[0].logp for texts in searched(net, source, keys, Beam(beams=beams, penalty=0.0))) / 60
        for beams in (1, 2, 4, 8)
    ]
    assert means == sorted(means)


def test_where_nothing_ends_it_is_cut() -> None:
    net, (source, keys) = translator(), sources(5)
    for texts in searched(net, source, keys, Beam(beams=2), longest=7, rules=[ban_tokens([END])]):
        assert {len(text.ids) for text in texts} == {7}
        assert not any(text.ended for text in texts)


# --------------------------------------------------------------------------------------------------------------- rules


def pieces(ids: Sequence[int], size: int) -> list[tuple[int, ...]]:
    return [tuple(ids[i : i + size]) for i in range(len(ids) - size + 1)]


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_piece_twice(size: int, beams: int) -> None:
    net, (source, keys) = translator(), sources(20)
    free = searched(net, source, keys, Beam(beams=beams), longest=20)
    assert any(len(set(pieces(x[0].ids, size))) < len(pieces(x[0].ids, size)) for x in free)
    for texts in searched(net, source, keys, Beam(beams=beams), longest=20, rules=[no_repeat_ngrams(size)]):
        for text in texts:
            assert len(set(pieces(text.ids, size))) == len(pieces(text.ids, size))


def test_shortest_prefix_and_never() -> None:
    net, (source, keys) = translator(), sources(20)
    rules = [min_tokens(5, [END]), forced_prefix([4, 4, 7]), ban_tokens([0, BEGIN])]
    for texts in searched(net, source, keys, Beam(beams=3), rules=rules):
        for text in texts:
            assert text.ids[:3] == [4, 4, 7]
            assert len(text.ids) >= 5
            assert not {0, BEGIN} & set(text.ids)


# ------------------------------------------------------------------------------------------------------------- phrases


def contains(ids: Sequence[int], phrase: Sequence[int]) -> bool:
    return tuple(phrase) in pieces(ids, len(phrase))


@pytest.mark.parametrize("beams", [1, 2, 4, 8])
def test_phrases_are_said(beams: int) -> None:
    net, (source, keys) = translator(), sources(16)
    phrases: list[Phrases] = [((5, 8), (3,)) if i % 2 else ((7, 7, 4),) for i in range(16)]
    found = searched(net, source, keys, Beam(beams=beams), longest=24, phrases=phrases)
    for texts, wanted in zip(found, phrases, strict=True):
        assert all(contains(texts[0].ids, phrase) for phrase in wanted)
    assert sum(texts[0].ended for texts in found) >= 8
    free = searched(net, source, keys, Beam(beams=beams), longest=24)
    assert not all(contains(texts[0].ids, phrases[i][0]) for i, texts in enumerate(free))


def test_no_phrases_change_nothing() -> None:
    net, (source, keys) = translator(), sources(8)
    free, bound = (searched(net, source, keys, Beam(beams=3), phrases=x) for x in (None, [()] * 8))
    assert [[text.ids for text in texts] for texts in free] == [[text.ids for text in texts] for texts in bound]


@given(
    st.lists(st.integers(0, 2), max_size=12), st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=3), max_size=1)
)
@settings(max_examples=200, deadline=None)
def test_a_phrase_is_noticed(history: list[int], wanted: list[list[int]]) -> None:
    phrases = tuple(map(tuple, wanted))
    assert progress(history, phrases).done(phrases) == all(contains(history, phrase) for phrase in phrases)


# ------------------------------------------------------------------------------------------------------------ diversity


def test_groups_differ() -> None:
    net, (source, keys) = translator(5), sources(30, seed=5)
    firsts = []
    for diversity in (0.0, 5.0):
        found = searched(net, source, keys, Beam(beams=4, groups=4, diversity=diversity))
        firsts.append(sum(len({text.ids[0] if text.ids else END for text in texts}) for texts in found))
    assert firsts[0] < firsts[1]


def test_groups_without_diversity_are_narrow_beams() -> None:
    net, (source, keys) = translator(5), sources(10, seed=5)
    apart = searched(net, source, keys, Beam(beams=4, groups=2, diversity=0.0))
    narrow = searched(net, source, keys, Beam(beams=2))
    for one, two in zip(apart, narrow, strict=True):
        assert one[0].ids == two[0].ids


# ------------------------------------------------------------------------------------------------------------- sampling


def test_draws_follow_the_distribution() -> None:
    scores = torch.tensor([[0.5, 0.3, 0.2]]).log().expand(6000, 3)
    drawn = TokenSampler(Sampling(seed=3))(scores, range(6000))
    shares = torch.bincount(drawn, minlength=3) / 6000
    torch.testing.assert_close(shares, torch.tensor([0.5, 0.3, 0.2]), atol=0.03, rtol=0)
    hot = TokenSampler(Sampling(temperature=0.25, seed=3))(scores, range(6000))
    sharp = torch.tensor([0.5, 0.3, 0.2]) ** 4
    torch.testing.assert_close(torch.bincount(hot, minlength=3) / 6000, sharp / sharp.sum(), atol=0.03, rtol=0)


def test_what_is_cut_is_never_drawn() -> None:
    scores = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()

    def left(**how: float) -> list[int]:
        return (cut(scores, Sampling(**how))[0] > -math.inf).nonzero()[:, 0].tolist()  # type: ignore[arg-type]

    assert left() == [0, 1, 2, 3]
    assert left(top_k=2) == [0, 1]
    assert left(top_p=0.5) == [0]
    assert left(top_p=0.51) == [0, 1]
    assert left(top_p=1e-9) == [0]
    # The entropy is 1.14; the surprises are 0.69, 1.20, 1.90, 3.00.
    assert left(typical=0.2) == [1]
    assert left(typical=0.75) == [0, 1]
    assert left(top_k=3, typical=0.2) == [1]


def test_a_seed_is_a_text_whatever_stands_beside_it() -> None:
    net, (source, keys) = translator(), sources(12)
    together = streamed(net, source, keys, TokenSampler(Sampling(seed=7)))
    again = streamed(net, source, keys, TokenSampler(Sampling(seed=7)))
    other = streamed(net, source, keys, TokenSampler(Sampling(seed=8)))
    assert [x.ids for x in together] == [x.ids for x in again]
    assert [x.ids for x in together] != [x.ids for x in other]
    (alone,) = streamed(net, source[:1], keys[:1], TokenSampler(Sampling(seed=7)))
    assert alone.ids == together[0].ids
    cold = streamed(net, source, keys, TokenSampler(Sampling(top_k=1)))
    assert [x.ids for x in cold] == [x.ids for x in streamed(net, source, keys)]


@pytest.mark.parametrize(
    "wrong", [{"temperature": 0.0}, {"top_p": 0.0}, {"top_p": 1.5}, {"top_k": -1}, {"typical": 2.0}]
)
def test_impossible_settings(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Sampling(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [{"beams": 0}, {"groups": 3}, {"penalty": -1.0}, {"diversity": -0.1}])
def test_impossible_beams(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Beam(**wrong)  # type: ignore[arg-type]


# -------------------------------------------------------------------------------------------------------------- prompts


@pytest.mark.parametrize("side", ["left", "right"])
@torch.inference_mode()
def test_prompts_of_many_lengths(side: str) -> None:
    torch.manual_seed(0)
    net = regard.build("gpt-tiny", vocab=WORDS, length=32, dim=16, depth=2, heads=2).eval().net.double()
    for x in net.parameters():
        torch.nn.init.normal_(x, std=0.4)
    ids, keys = torch.randint(3, WORDS, (3, 5)), ragged(3, 5, side)
    texts = collect_tokens(
        stream_tokens(IncrementalDecoder(CausalDecoder(net), ids, keys), greedy_tokens, [END], longest=9), 3, [END]
    )
    for text, row, real in zip(texts, ids, keys, strict=True):
        cache = Cache()
        prompt = row[real][None]
        alone = collect_tokens(
            stream_tokens(IncrementalDecoder(CausalDecoder(net), prompt), greedy_tokens, [END], longest=9), 1, [END]
        )
        assert alone[0].ids == text.ids
        assert net(prompt, cache=cache)[0, -1].argmax() == (text.ids or [END])[0]
