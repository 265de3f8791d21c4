"""The figures of recurrent networks: every check can fail, diagrams show the wires of the net that ran, toys are what
they say. The oracles of the spec sheet that no other file has stand at the end."""

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.patches import FancyArrowPatch
from torch import Tensor

from lectures.tests.test_figures import every_check_fails, recorded
from regard import style
from regard.errors import InputError
from regard.modalities.text.conllu import TaggedSentence
from regard.models import recurrent
from regard.models.recurrent import RecurrentReader
from regard.models.rnn import Config, RNNTranslator
from regard.nn.recurrent import CELLS, GRUCell, LSTMCell, Recurrent, RNNCell
from regard.nn.tap import capture
from regard_lectures.recurrent import (
    adding,
    captions,
    five,
    flight,
    layers,
    lengths,
    opinion,
    published,
    sharing,
    tagging,
    verse,
)
from regard_lectures.recurrent.wires import CONDITION, Node, layer_wires, reader_wires, shortest, translator_wires
from regard_lectures.table import FIGURES
from tests.contracts.tools import close, stirred

WIRE = ["x", 0, "y", 0]
SPOILED: dict[str, list[tuple[str, Any]]] = {
    "1.4": [("shapes.U", [3, 4]), ("by hand", 1e-3), ("torch", 1e-3), ("gradient", 1e-3), ("long", 1e-3)],
    "1.4b": [
        ("1.wires", [WIRE] * 10),
        ("1.wires.0", WIRE),
        ("1.torch", 1e-3),
        ("3.wires", [WIRE] * 24),
        ("3.wires.7", WIRE),
        ("3.torch", 1e-3),
    ],
    "1.4c": [
        ("shared", [[0.5] * 40] * 3),
        ("shared", [[1.0] * 10 + [0.5] * 30] * 3),
        ("unshared", [[0.5] * 10] * 3),
        ("refused", ["", "", "no"]),
        ("weights.1", 722),
    ],
    "1.4d": [("3.weights", 50_000), ("3.bits", [3.0] * 3), ("pairs", 2.0)],
    "1.5": [
        ("before.copied", 1e-9),
        ("before.forgotten", 1e-9),
        ("before.remembered", 0.0),
        ("after.copied", 1e-9),
        ("after.forgotten", 1e-9),
        ("after.remembered", 0.0),
        ("apart.1", 1e-4),
        ("torch", 1e-3),
    ],
    "1.6": [
        ("carousel.0.50", 0.999),
        ("carousel.0.50", 1.001),
        ("carousel.2.100", 1e-5),
        ("torch", 1e-3),
        ("handed", 1e-9),
    ],
    "1.7": [
        ("wires.0", ["ahead.0", 2, "ahead.0", 1]),
        ("beyond.0", 1e-9),
        ("beyond.1", 1e-9),
        ("both.0.4", 0.0),
        ("reversal", 1e-3),
        ("torch", 1e-3),
        ("wires", [WIRE]),
    ],
    "1.7b": [
        ("both.errors", [[4000, 393]] * 3),
        ("usual", 0.95),
        ("both.errors", [[2900, 423], [2900, 393], [2900, 421]]),
        ("both.errors", [[2900, 421], [3000, 421], [3000, 421]]),
        ("both.errors", [[2429, 780], [2477, 780], [2492, 780]]),
    ],
    "1.8": [
        ("slopes.shrinking.0", -0.2),
        ("slopes.steady.0", 0.01),
        ("slopes.growing.0", 0.2),
        ("orthogonal", 1e-3),
        ("slopes.GRU", [0.0] * 3),
        ("slopes.LSTM, forget bias 3.2", -0.4),
        ("slopes.LSTM, forget bias 1.0", -0.9),
        ("slopes.tanh.1", -0.1),
    ],
    "1.8b": [
        ("tanh.errors", [[0.1, 0.1, 0.01, 0.2]] * 3),
        ("tanh.errors", [[0.1, 0.1, 0.2, 0.01]] * 3),
        *((f"{name}.errors", [[0.17] * 4] * 3) for name in ("GRU", "LSTM")),
    ],
    "1.9": [(f"{name}.wires.0", WIRE) for name in "abcde"],
    "1.9b": [
        ("bits.LSTM", [2.3] * 3),
        ("words.LSTM", [[0.6, 0.3]] * 3),
        ("words.1", [[0.5, 0.0]] * 3),
    ],
    "1.9c": [("exact", [9400] * 3), ("no words", [150] * 3), ("blind", [1600] * 3)],
    "1.9d": [
        ("letters", [0.8] * 3),
        ("LSTM", [0.7] * 3),
        ("letters", [0.5] * 3),
        ("padded", [0.83, 0.83, 0.83]),
    ],
    "1.10": [
        ("forward.states.2", 6),
        ("reversed.states.2", 7),
        ("forward.wires", [["encoder.ahead.0", 5, "decoder.rnn.ahead.0", 0]]),
        ("forward.wires", [["encoder.ahead.0", i, "decoder.rnn.ahead.0", 0] for i in range(2)]),
        ("forward.said", "Ein Vogel fliegt durch die Tür"),
        ("reversed.said", "Ein Vogel fliegt durch das Haus"),
    ],
    "1.10b": [
        ("rnn-sutskever.wires.2", ["encoder.ahead.0", 3, "decoder.rnn.ahead.0", 1]),
        ("rnn-cho.wires", [["encoder.ahead.0", 1, "decoder.rnn.ahead.0", 0]]),
        ("rnn-bahdanau.wires", [["encoder.ahead.0", 1, "decoder.rnn.ahead.0", 0]]),
        ("rnn-sutskever.weights", 380_000_000),
    ],
    "1.10c": [
        ("copy.in order", [[0.9] * 18] * 3),
        ("reverse.in reverse", [[0.9] * 18] * 3),
        ("copy.in reverse", [[0.85] * 18] * 3),
        ("reverse.in order", [[0.85] * 18] * 3),
    ],
    "1.10d": [("in order.3", 11), ("in reverse.3", 8), ("in reverse.11", 22), ("attention.5", 1)],
    "1.11": [
        ("RNNencdec-30", [[80.0] * 8] * 3),
        ("RNNsearch-30", [[95.0] * 5 + [60.0] * 3] * 3),
        ("RNNencdec-15", [[90.0] * 5 + [50.0] * 3] * 3),
        ("RNNsearch-15", [[60.0] * 8] * 3),
        ("RNNsearch-15", [[10.0] * 8] * 3),
        ("RNNsearch-15", [[90.0] * 8] * 3),
    ],
    "1.11b": [
        ("loop", 1e-3),
        ("noun", [0.3] * 3),
        ("said", ["Ein Vogel fliegt durch den Garten"] * 3),
        ("right", [0.9] * 3),
        ("extremes.mean", 0.1),
        ("extremes.one", 0.1),
    ],
    "1.11c": [],  # quoted
    "1.11d": [
        ("bleu.RNNencdec-30", [20.0] * 4),
        ("bleu.RNNsearch-30", [30.0, 20.0, 10.0, 1.0]),
        ("bleu.RNNencdec-15", [20.0] * 4),
        ("all.RNNsearch-30", 0.0),
        ("bleu.RNNsearch-15", [30.0, 20.0, 10.0, 0.0]),
    ],
}


def test_all_figures_of_this_folder_are_spoiled_above():
    assert [name for name, place in FIGURES.items() if ".recurrent." in place] == list(SPOILED)


@pytest.mark.parametrize("name", list(SPOILED))
def test_every_check_can_fail(name):
    every_check_fails(name, SPOILED[name])


def test_quoted_numbers_have_no_slip_of_the_pen():
    assert sum(row.everything + row.known for row in published.QUOTED) == pytest.approx(330.03)


# The wires ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("cell", CELLS)
def test_wires_of_layers_are_those_of_the_equations(cell):
    net, x = Recurrent(CELLS[cell], 3, 4, 2, bidirectional=True).double(), torch.randn(1, 3, 3).double()
    sides = ("ahead", "back")
    up = [(Node("x", i), Node(f"{side}.0", i)) for side in sides for i in range(3)]
    up += [(Node(f"{below}.0", i), Node(f"{side}.1", i)) for below in sides for side in sides for i in range(3)]
    up += [(Node(f"{side}.1", i), Node("y", i)) for side in sides for i in range(3)]
    along = [(Node(f"ahead.{layer}", i), Node(f"ahead.{layer}", i + 1)) for layer in (0, 1) for i in (0, 1)]
    along += [(Node(f"back.{layer}", i + 1), Node(f"back.{layer}", i)) for layer in (0, 1) for i in (0, 1)]
    assert layer_wires(net, x) == sorted(up + along)


def test_a_wire_that_is_cut_in_the_net_is_not_found():
    net = Recurrent(RNNCell, 3, 4).double()
    with torch.no_grad():
        net.ahead[0].recurrent.weight.zero_()
    found = layer_wires(net, torch.randn(1, 3, 3).double())
    assert found == sorted([(Node("x", i), Node("ahead.0", i)) for i in range(3)] +
                           [(Node("ahead.0", i), Node("y", i)) for i in range(3)])  # fmt: skip
    with pytest.raises(ValueError, match="nothing leads"):
        shortest(found, Node("x", 0), Node("y", 1))


def test_the_shortest_way_is_taken():
    a, b, c, d = (Node(name, 0) for name in "abcd")
    assert shortest([(a, b), (b, c), (c, d), (a, c)], a, d) == [c]
    assert shortest([(a, d)], a, d) == []


def test_the_diagram_has_an_arrow_for_each_wire_and_no_other():
    numbers = recorded("1.4b")["numbers"]

    def arrows() -> int:
        with style.font_family():
            return len(layers.draw(numbers).findobj(FancyArrowPatch))

    wires = sum(len(found["wires"]) for found in numbers.values())
    assert arrows() == wires
    numbers["3"]["wires"].pop()
    assert arrows() == wires - 1


# The toys -----------------------------------------------------------------------------------------


def test_parity_of_the_last_bits():
    assert sharing.MEMORY == 2
    assert sharing.parity(torch.tensor([[1, 1, 0, 1, 0]])).tolist() == [[1, 0, 1, 1, 1]]


def test_two_numbers_are_marked_one_in_each_half():
    x, wanted = adding.sums(20)
    assert x.shape == (adding.BATCH, 20, 2)
    marks = x[..., 1]
    assert torch.equal(marks[:, :10].sum(1), torch.ones(adding.BATCH))
    assert torch.equal(marks[:, 10:].sum(1), torch.ones(adding.BATCH))
    close(wanted, (x[..., 0] * marks).sum(1))


def test_who_always_says_the_mean_has_a_sixth():
    wanted = torch.cat([adding.sums(20)[1] for _ in range(400)])
    assert float((wanted - 1).square().mean()) == pytest.approx(adding.CHANCE, rel=0.05)


@pytest.mark.parametrize("length", [1, 2, 3, 15, 40])
def test_an_adjective_follows_its_noun_in_french(length):
    english, french = lengths.sentence(length, Random(length))
    assert len(english) == len(french) == length
    again = list(english)
    for i, word in enumerate(english):
        if word in lengths.ADJECTIVES:
            assert english[i + 1] in lengths.NOUNS
            again[i], again[i + 1] = english[i + 1], english[i]
    assert again == french


def test_what_is_shown_is_not_trained_on():
    known, kept = flight.parted()
    assert kept[0] == (flight.SHOWN[0].split(), flight.SHOWN[1].split())
    assert not [pair for pair in kept if pair in known]
    assert sorted(known + kept) == sorted(flight.sentences())
    assert 0.3 < len(kept) / len(known + kept) < 0.4
    for side in (0, 1):  # every word is there to be learned
        assert {word for pair in known for word in pair[side]} == {word for pair in kept for word in pair[side]}


# Tags ---------------------------------------------------------------------------------------------


def tagged(*texts: str) -> list[TaggedSentence]:
    """ "to/PART go/VERB" """
    rows = [[tuple(word.split("/")) for word in text.split()] for text in texts]
    return [TaggedSentence(tuple(word for word, _ in row), tuple(tag for _, tag in row)) for row in rows]


def test_a_word_depends_on_its_right_if_the_next_tag_tells(monkeypatch):
    monkeypatch.setattr(tagging, "OFTEN", 2)
    sentences = tagged("I/PRON to/PART go/VERB", "I/PRON to/ADP me/PRON") * 3
    sentences += tagged("a/DET man/NOUN sat/VERB", "we/PRON man/VERB sat/VERB") * 3
    found = tagging.depends(sentences)
    assert found["to"] == pytest.approx(1.0)  # the tag before says nothing, the next one all
    assert found["man"] == pytest.approx(0.0)  # the tag before says all
    assert found["sat"] == 0.0
    assert "never" not in found


def test_the_usual_tag():
    train = tagged("to/PART go/VERB", "to/PART run/VERB", "to/ADP run/NOUN")
    assert tagging.usual(train, tagged("To/PART walk/VERB", "to/ADP go/VERB")) == 0.5  # unknown words get PART


def test_entropy_in_bits():
    assert tagging.entropy({"a": tagging.Counter("xy"), "b": tagging.Counter("xx")}) == 0.5


def test_features_number_what_is_known():
    sentences = tagged("the/DET Old/NOUN man/VERB", "the/DET old/ADJ ones/NOUN")
    features = tagging.Features(sentences)
    ids, tags = features(TaggedSentence(("The", "OLD", "zzz"), ("DET", "ADJ", "SYM")))
    the, old = features.words.ids["the"], features.words.ids["old"]
    assert ids[0].tolist() == [the, old, 1]
    assert tags.tolist() == [features.tags.index("DET"), features.tags.index("ADJ"), -1]
    (some, padded, wanted), *rest = tagging.batches(
        [features(one) for one in sentences[:1]] + [(ids[:, :1], tags[:1])], [1, 0], 2
    )
    assert (some, padded.shape, wanted.tolist()[0]) == ([1, 0], (2, 3, 3), [tags[0], -1, -1])
    assert rest == []


def test_missing_data_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    with pytest.raises(InputError, match="REGARD_DATA"):
        tagging.compute()


def test_the_data_is_read(monkeypatch, shared_data: Path):
    if not (shared_data / "ud_english_ewt").is_dir():
        pytest.skip("ud_english_ewt is not among the data")
    monkeypatch.setenv("REGARD_DATA", str(shared_data))
    sentences = tagging.read("dev")
    assert sum(len(sentence.words) for sentence in sentences) == 25147


# The five applications ----------------------------------------------------------------------------


def test_a_condition_is_joined_to_the_first_state_alone():
    config = recurrent.Config(vocab=7, dim=3, hidden=4, depth=2, dropout=0.0, condition=2)
    net = RecurrentReader(config).double()
    found = reader_wires(net, torch.tensor([[1, 2, 3]]), torch.randn(1, 2).double())
    ways = [(Node("ahead.0", i), Node("ahead.1", i)) for i in range(3)]
    ways += [(Node("x", i), Node("ahead.0", i)) for i in range(3)] + [
        (Node("ahead.1", i), Node("y", i)) for i in range(3)
    ]
    ways += [(Node(f"ahead.{layer}", i), Node(f"ahead.{layer}", i + 1)) for layer in (0, 1) for i in (0, 1)]
    ways += [(Node(CONDITION, 0), Node(f"ahead.{layer}", 0)) for layer in (0, 1)]
    assert found == sorted(ways)


def test_a_label_is_said_by_the_last_state_alone():
    net = RecurrentReader(recurrent.Config(vocab=7, dim=3, hidden=4, dropout=0.0, head="label")).double()
    found = reader_wires(net, torch.tensor([[1, 2, 3]]))
    assert [one for one, other in found if other.name == "y"] == [Node("ahead.0", 2)]


def test_five_diagrams_have_an_arrow_for_each_wire_and_no_other():
    numbers = recorded("1.9")["numbers"]
    with style.font_family():
        arrows = five.draw(numbers).findobj(FancyArrowPatch)
    assert len(arrows) == sum(len(numbers[name]["wires"]) for name in five.KINDS)


def test_words_that_occur_in_the_text():
    known = {"to", "be", "question", "that's"}
    assert verse.spelled("To be, that's 2 qu--x") == ["To", "be", "that's", "qu", "x"]
    assert verse.shares(["To be questoin question cu", "That's be"], known) == [
        0.8,
        0.6667,
    ]  # cut-off ones do not count


def test_what_is_written_is_read_next():
    """A step that doubles its letter shows that each letter is given back; the unknown is never written."""
    letters = verse.Play(np.zeros(0, np.int64), np.zeros(0, np.int64), "\nabc")

    def step(last: Tensor) -> Tensor:
        return torch.nn.functional.one_hot((last + 1) % 4, 6).double() + torch.tensor([0, 0, 0, 0, 9, 9.0])

    assert verse.written(step, letters, verse.SEED) == [("abc\n" * verse.LENGTH)[: verse.LENGTH]] * verse.TEXTS


def test_names_are_spelled_to_their_end():
    ids = captions.spelled(captions.NAMES)
    assert [captions.text(row) for row in ids] == list(captions.NAMES)
    assert all(row[len(name)] == 0 for row, name in zip(ids, captions.NAMES, strict=True))


def test_spelling_by_steps_is_what_the_whole_word_says():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = captions.Captioner().double()
        images = torch.randn(3, 1, 28, 28).double()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(4)  # else one letter is said of all
        said = model.spell(model.eye(images))
        assert torch.equal(model(images, said).argmax(-1), said)
    assert len({tuple(row) for row in said.tolist()}) > 1, "three images, and all are called the same"


def test_padding_is_not_counted_among_words():
    counted = opinion.Counted(5)
    with torch.no_grad():
        counted.table.weight.copy_(torch.arange(10.0).view(5, 2))
        counted.table.weight[opinion.PADDING] = 0
    (ids, keys, labels), *rest = opinion.batches([([2, 3], 1), ([4], 0)], [1, 0], 2)
    assert (ids.tolist(), keys.tolist(), labels.tolist()) == ([[4, 0], [2, 3]], [[True, False], [True, True]], [0, 1])
    assert rest == []
    close(counted.labelled(ids), torch.tensor([[8.0, 9.0], [10.0, 12.0]]))


# Oracles of the spec sheet that no other file has ---------------------------------------------------


def test_a_sigmoid_quarters_the_bound():
    """1.8: the norm of d h_k / d h_j is at most (gamma s_max)^(k-j), and gamma of the sigmoid is 1/4."""
    cell = RNNCell(3, 4, act=torch.sigmoid).double()
    with torch.no_grad():
        cell.recurrent.weight.mul_(4)
    x = torch.randn(6, 1, 3).double()

    def run(h: Tensor) -> Tensor:
        for step in x:
            h = cell(step, {"h": h})["h"]
        return h

    jacobian = torch.autograd.functional.jacobian(run, torch.randn(1, 4).double())[0, :, 0]
    largest = torch.linalg.matrix_norm(cell.recurrent.weight, 2)
    norm = torch.linalg.matrix_norm(jacobian, 2)
    assert 0 < norm <= (largest / 4) ** len(x)


def test_a_score_far_above_all_others_brings_that_state():
    """1.11: with scores that force one word, c_i = h_j, whichever word it is."""
    net = stirred(RNNTranslator(Config(vocab=11, dim=6, hidden=8, align=24, maxout=5))).eval()
    source, target = torch.randint(11, (1, 5)), torch.randint(11, (1, 1))
    states = net.encode(source).states[0]
    with capture(net, "decoder.cross.*") as seen:
        net(source, target)
    q, k = (seen[f"decoder.cross.{name}"][0][0, 0] for name in ("queries", "keys"))
    pairs = torch.tanh(q + k)
    for j in range(5):
        score = torch.linalg.lstsq(pairs, 900.0 * torch.eye(5, dtype=pairs.dtype)[j]).solution
        net.decoder.cross.kernel.score.data.copy_(score[None, :, None])
        with capture(net, "decoder.cross.mixed") as brought:
            net(source, target)
        close(brought["decoder.cross.mixed"][0][0, 0, 0], states[j])


@pytest.mark.parametrize("decoder", ["sutskever", "cho", "luong"])
def test_one_word_has_no_order(decoder):
    """1.10: of a source of one word, reading in order and in reverse agree; of two they do not."""
    attention = "general" if decoder == "luong" else "additive"
    config = Config(vocab=11, dim=6, hidden=8, align=7, maxout=5, cell="lstm", depth=2, bidirectional=False)
    ahead = stirred(RNNTranslator(replace(config, decoder=decoder, attention=attention))).eval()
    back = RNNTranslator(replace(config, decoder=decoder, attention=attention, backwards=True)).double().eval()
    back.load_state_dict(ahead.state_dict())
    target = torch.randint(11, (3, 4))
    one, two = torch.tensor([[3], [4], [5]]), torch.tensor([[3, 1], [4, 2], [5, 6]])
    close(ahead(one, target), back(one, target))
    assert not torch.allclose(ahead(two, target), back(two, target))


def test_sutskevers_decoder_is_given_all_of_the_last_state():
    """1.10: h and c of an LSTM, of every layer."""
    config = Config(vocab=11, dim=6, hidden=8, cell="lstm", depth=3, bidirectional=False, decoder="sutskever")
    net = stirred(RNNTranslator(config)).eval()
    memory = net.encode(torch.randint(11, (2, 5)))
    start = net.decoder.begin(memory)
    assert {name: tuple(part.shape) for name, part in start.items()} == {"h": (2, 3, 8), "c": (2, 3, 8)}
    for name, part in start.items():
        close(part, memory.last[name])


@pytest.mark.parametrize(("kind", "gates"), [(GRUCell, 3), (LSTMCell, 4)])
def test_gates_cost_as_many_weights_as_there_are(kind, gates):
    """1.5 and 1.6: each gate, and what is gated, has a matrix for the input, one for the state, and two biases."""
    plain, gated = (sum(weight.numel() for weight in cell(5, 7).parameters()) for cell in (RNNCell, kind))
    assert gated == gates * plain
    assert plain == 7 * 5 + 7 * 7 + 2 * 7


def test_what_is_cut_is_counted_in_a_translator_of_any_length():
    """1.10: N + 1 states in order and 2i in reverse, also for other lengths than those drawn."""
    for count in (1, 3, 5):
        for backwards in (False, True):
            config = Config(
                vocab=9,
                target_vocab=9,
                dim=3,
                hidden=4,
                cell="rnn",
                bidirectional=False,
                decoder="sutskever",
                backwards=backwards,
            )
            net = RNNTranslator(config).double()
            wires = translator_wires(net, torch.randint(9, (1, count)), torch.randint(9, (1, count)))
            found = [len(shortest(wires, Node("x", i), Node("y", i))) for i in range(count)]
            assert found == ([2 * i + 2 for i in range(count)] if backwards else [count + 1] * count)
