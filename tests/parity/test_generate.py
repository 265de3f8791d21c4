"""Decoding, token by token the same as transformers' ``generate``, from one random twin in float64."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from regard.decode.beam import Beam, Search
from regard.decode.incremental import CausalDecoder, IncrementalDecoder, Seq2SeqDecoder
from regard.decode.rules import Rule, ban_tokens, min_tokens, no_repeat_ngrams
from regard.decode.sampling import greedy_tokens
from regard.decode.steps import GeneratedTokens, collect_tokens, stream_tokens
from tests.parity.references import gpt, marian, redraw
from tests.parity.twins import Pair, saved

TEXTS, LONGEST, END, BEGIN, PAD = 12, 28, 1, 5, 0

RULES: dict[str, tuple[dict[str, int], list[Rule]]] = {
    "plain": ({}, []),
    "shortest": ({"min_new_tokens": 6}, [min_tokens(6, [END])]),
    "no-repeat": ({"no_repeat_ngram_size": 2}, [no_repeat_ngrams(2)]),
}
CASES = [("transformer", name) for name in RULES] + [("gpt", name) for name in ("plain", "shortest")]
# Of a text that goes on from a prompt, generate repeats nothing that the prompt has said either; here it may.


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Pair]:
    twins = {"transformer": marian(max_position_embeddings=40, scale_embedding=False), "gpt": gpt(n_positions=40)}
    redraw(twins["transformer"], seed=3, size=1.0)
    without_biases(twins["transformer"])
    redraw(twins["gpt"], seed=0, size=0.5)
    ours = {case: regard.load(saved(net.eval(), tmp_path_factory.mktemp(case))).net for case, net in twins.items()}
    return {case: Pair(case, net, ours[case]).double() for case, net in twins.items()}


@torch.no_grad()
def without_biases(net: Any) -> None:
    """They would drown what was read, and all texts would be one. Ends are made likelier: some come early."""
    for name, x in net.named_parameters():
        if x.ndim == 1 and name.endswith("bias"):
            x.zero_()
    net.final_logits_bias.zero_()
    net.final_logits_bias[0, END] = 9.0


def given(vocab: int, left: bool) -> tuple[Tensor, Tensor]:
    """Ragged texts without symbols."""
    draw = torch.Generator().manual_seed(4)
    words = torch.tensor([i for i in range(vocab) if i not in (PAD, END, BEGIN)])
    ids = words[torch.randint(len(words), (TEXTS, 7), generator=draw)]
    keys = torch.arange(7) < torch.randint(2, 8, (TEXTS, 1), generator=draw)
    keys = keys.flip(1) if left else keys
    return ids.masked_fill(~keys, PAD), keys


def theirs(net: Any, ids: Tensor, keys: Tensor, beams: int, asked: dict[str, int]) -> list[GeneratedTokens]:
    """All beams of each text, without what was given and the end."""
    net.generation_config.forced_eos_token_id = None
    found = net.generate(
        input_ids=ids, attention_mask=keys.long(), num_beams=beams, num_return_sequences=beams, length_penalty=0.0,
        do_sample=False, max_new_tokens=LONGEST, eos_token_id=END, pad_token_id=PAD, suppress_tokens=[PAD, BEGIN],
        return_dict_in_generate=True, output_scores=True, **asked,
    )  # fmt: skip
    skipped = 1 if net.config.is_encoder_decoder else ids.shape[1]
    rows = found.sequences[:, skipped:].tolist()
    scores = [0.0] * len(rows) if beams == 1 else found.sequences_scores.tolist()
    return [
        GeneratedTokens(row[: row.index(END)] if END in row else row, ended=END in row, score=score)
        for row, score in zip(rows, scores, strict=True)
    ]


@torch.inference_mode()
def ours(writer: Callable[[], IncrementalDecoder], beams: int, rules: list[Rule]) -> list[GeneratedTokens]:
    if beams == 1:
        return collect_tokens(stream_tokens(writer(), greedy_tokens, [END], longest=LONGEST, rules=rules), TEXTS, [END])
    found = Search(writer(), Beam(beams=beams, penalty=0.0), [END], longest=LONGEST, rules=rules).run()
    return [one for texts in found for one in texts]


@pytest.mark.parametrize("beams", [1, 4])
@pytest.mark.parametrize(("case", "name"), CASES)
def test_the_same_texts(pairs: dict[str, Pair], case: str, name: str, beams: int) -> None:
    """Greedy, and all four beams with their scores. Texts that are cut off stand among the finished ones there, behind
    them here: of the finished, theirs are the first of ours."""
    pair, (asked, rules) = pairs[case], RULES[name]
    ids, keys = given(pair.theirs.config.vocab_size, left=case == "gpt")

    def writer() -> IncrementalDecoder:
        if case == "gpt":
            return IncrementalDecoder(CausalDecoder(pair.ours), ids, keys)
        return IncrementalDecoder(Seq2SeqDecoder(pair.ours, ids, keys), torch.full((TEXTS, 1), BEGIN))

    wanted, found = (
        theirs(pair.theirs, ids, keys, beams, asked),
        ours(writer, beams, [ban_tokens([PAD, BEGIN]), *rules]),
    )
    assert len(found) == len(wanted)
    for i in range(0, len(wanted), beams):
        some, own = wanted[i : i + beams], found[i : i + beams]
        ended = [x for x in some if x.ended]
        assert [x.ids for x in own if x.ended][: len(ended)] == [x.ids for x in ended]
        if not any(x.ended for x in own):
            assert [x.ids for x in own] == [x.ids for x in some]
        if beams > 1:  # theirs are added up in float32
            assert [x.score for x in own][: len(ended)] == pytest.approx([x.score for x in ended], abs=1e-4)
    assert len({tuple(x.ids) for x in wanted}) >= 5  # they are not all alike
    assert beams == 1 or any(x.ended for x in wanted)
