"""Recurrent translators: their papers' equations, their extreme cases, their states in a beam search."""

from typing import Any

import pytest
import torch
from torch import Tensor

from regard.decode.beam import Beam, Search
from regard.decode.incremental import IncrementalDecoder, Seq2SeqDecoder
from regard.model import Model
from regard.models.rnn import PAPERS, PRESETS, Config, RNNTranslator
from regard.nn.tap import capture
from regard.zoo import catalog
from tests.contracts.tools import close, stirred
from tests.parity.unrolled import KINDS, Unrolled

SIZES: dict[str, Any] = {"vocab": 11, "dim": 6, "hidden": 8, "align": 7, "maxout": 5}


def made(**changes: Any) -> RNNTranslator:
    return stirred(RNNTranslator(Config(**SIZES | changes))).eval()


def words(seed: int = 0) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return torch.randint(11, (3, 5), generator=draw), torch.randint(11, (3, 4), generator=draw)


@pytest.mark.parametrize("kind", KINDS)
def test_by_the_equations(kind: str) -> None:
    net, (source, target) = made(**KINDS[kind]), words()
    unrolled = Unrolled(net)
    wanted = unrolled.run(source, target)
    found = Model("rnn", net)(source, target, look="decoder.cross") if wanted.maps else None
    logits = net(source, target)
    close(logits, wanted.outputs["logits"])
    if found is not None:
        close(found.maps["decoder.cross"].weights, wanted.maps["decoder.cross"])
        close(found.output, logits)
    cotangent = torch.randn_like(logits)
    theirs, ours = zip(*unrolled.weights(), strict=True)
    for one, two in zip(
        torch.autograd.grad(wanted.outputs["logits"], theirs, cotangent),
        torch.autograd.grad(logits, ours, cotangent),
        strict=True,
    ):
        close(one, two, 1e-9)


def test_a_blind_attention_sees_the_mean() -> None:
    net, (source, target) = made(), words()
    net.decoder.cross.kernel.score.data.zero_()
    with capture(net, "decoder.cross.mixed") as seen:
        net(source, target)
    mean = net.encode(source).states.mean(1)
    for context in seen["decoder.cross.mixed"]:
        close(context[:, 0, 0], mean)


def test_one_word_is_all_there_is() -> None:
    """Of a source of one word, the look at all words and the last state tell the same."""
    net, target = made(), words()[1]
    source = torch.tensor([[3], [4], [5]])
    memory = net.encode(source)
    close(memory.states[:, 0], memory.last["h"][:, -1])
    with capture(net, "decoder.cross.mixed") as seen:
        net(source, target)
    for context in seen["decoder.cross.mixed"]:
        close(context[:, 0, 0], memory.states[:, 0])


@pytest.mark.parametrize("decoder", ["sutskever", "luong"])
def test_backwards(decoder: str) -> None:
    """As if the words stood in the other order, padding where it was; and a look still finds each at its place."""
    how = {"decoder": decoder, "attention": "general", "cell": "lstm", "bidirectional": False, "depth": 2}
    (source, target), net = words(), made(**how, backwards=True)
    ahead = made(**how)
    ahead.load_state_dict(net.state_dict())
    close(net(source, target), ahead(source.flip(1), target))
    keys = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 0, 0, 0, 0]], dtype=torch.bool)
    found = net(source, target, source_keys=keys)
    close(found[1:2], ahead(source[1:2, :3].flip(1), target[1:2]))
    if decoder == "luong":
        one, two = (
            Model("rnn", x)(y, target, look="*").maps["decoder.cross"]
            for x, y in ((net, source), (ahead, source.flip(1)))
        )
        close(one.weights, two.weights.flip(-1))


def test_what_is_made_of_the_source_is_made_once() -> None:
    net, (source, target) = made(), words()
    calls = []
    net.decoder.cross.k.register_forward_hook(lambda *_: calls.append(1))
    net(source, target)
    assert calls == [1]


@pytest.mark.parametrize("decoder", ["sutskever", "cho", "bahdanau", "luong"])
@torch.inference_mode()
def test_beams_keep_their_own_states(decoder: str) -> None:
    """What a beam search finds has the probability that the whole text has without any cache."""
    attention = "general" if decoder == "luong" else "additive"
    net, (source, _) = made(decoder=decoder, attention=attention, cell="lstm", bidirectional=False), words(3)
    keys = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 0, 0, 0, 0]], dtype=torch.bool)
    writer = IncrementalDecoder(Seq2SeqDecoder(net, source, keys), torch.full((3, 1), 2))
    for i, texts in enumerate(Search(writer, Beam(beams=3), [1], longest=8).run()):
        assert len(texts) > 0
        for text in texts:
            wanted = [*text.ids, 1] if text.ended else text.ids
            given = torch.tensor([[2, *wanted[:-1]]])
            scores = net(source[i : i + 1, keys[i]], given)[0].log_softmax(-1)
            assert text.logp == pytest.approx(float(scores[torch.arange(len(wanted)), wanted].sum()))


def test_each_preset_names_its_paper() -> None:
    rows = catalog("rnn-*")
    assert len({row.link for row in rows}) == len(rows) == len(PRESETS)
    assert set(PAPERS) < set(PRESETS)
