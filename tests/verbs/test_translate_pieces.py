"""Translation piece by piece, of several sentences, at the prompt; what cannot be; quality."""

import io
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import regard
from regard.cli.app import main
from regard.decode.beam import Beam
from regard.decode.sampling import Sampling
from regard.decode.settings import Decoding
from regard.errors import InputError
from regard.modalities.text.bleu import bleu_and_chrf, bleu_by_length
from regard.modalities.text.runners import Translation
from regard.modalities.text.translator import LONGEST, sentences
from regard.model import Model
from tests.verbs.translating import TEXTS, WORDS, piped, several, translator


@pytest.fixture(scope="module")
def model() -> Model:
    return translator()


@pytest.fixture
def folder(model: Model, tmp_path: Path) -> Path:
    regard.save(model, tmp_path / "model")
    return tmp_path / "model"


STREAMED = ["one two three", "One two. Three four! Five", "", "One two.\nThree four!", "six " * 150]


@pytest.mark.parametrize("family", ["transformer", "rnn"])
@pytest.mark.parametrize("text", STREAMED)
def test_pieces_are_the_whole(family: str, text: str) -> None:
    model = translator(family)
    for how in (
        Decoding(beam=Beam(beams=1)),
        Decoding(beam=Beam(beams=1), longest=5, no_repeat=2),
        Decoding(sampling=Sampling(seed=4)),
    ):
        pieces = list(model.stream(text, decoding=how))
        assert "".join(pieces) == several(model, [text], decoding=how)[0].text
        assert all(pieces)
    assert len(list(model.stream("one two three"))) > 1


def test_what_is_searched_for_is_not_told_in_pieces(model: Model) -> None:
    for how in (Decoding(), Decoding(beam=Beam(beams=1), phrases=("two",)), Decoding(sampling=Sampling(), nbest=2)):
        with pytest.raises(InputError, match="cannot be streamed"):
            model.stream("one", decoding=how)


def test_a_stream_at_the_prompt(
    folder: Path, model: Model, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    greedy = several(model, ["one two", "", "Three. Four!"], decoding=Decoding(beam=Beam(beams=1)))
    piped(b"one two\n\nThree. Four!\n", monkeypatch)
    assert main(["translate", "--stream", "-m", str(folder)]) == 0
    assert capsys.readouterr().out == "".join(f"{one.text}\n" for one in greedy)
    assert main(["translate", "one two", "--stream", "-m", str(folder), "--temperature", "2", "--seed", "5"]) == 0
    drawn = several(model, ["one two"], decoding=Decoding(sampling=Sampling(temperature=2.0, seed=5)))
    assert capsys.readouterr().out == f"{drawn[0].text}\n"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("I have a cat. It is black.", ["I have a cat.", "It is black."]),
        ("Hello.\nHow are you?", ["Hello.", "How are you?"]),
        ("one line\n\nanother", ["one line", "another"]),
        ("Good morning, Mr. Smith. Come in!", ["Good morning, Mr. Smith.", "Come in!"]),
        ("Am 3. Mai kam er z.B. nicht.", ["Am 3. Mai kam er z.B. nicht."]),
        ("J. K. Rowling wrote it.", ["J. K. Rowling wrote it."]),
        ("So am I. He is not.", ["So am I.", "He is not."]),
        ("“Why?” He was silent … “Come!”", ["“Why?”", "He was silent …", "“Come!”"]),
        ("It costs 3.50 euros, i.e. much.", ["It costs 3.50 euros, i.e. much."]),
        ("What? no.", ["What? no."]),
        ("  one  ", ["one"]),
    ],
)
def test_sentences(text: str, parts: list[str]) -> None:
    assert [part.text for part in sentences(text)] == parts
    assert "".join(part.gap + part.text for part in sentences(text)).split() == text.split()


def test_each_sentence_is_translated_by_itself(model: Model) -> None:
    alone = [one.text for one in several(model, ["One two.", "Three four!", "Five"])]
    together, lines = several(model, ["One two. Three four! Five", "One two.\nThree four!\n Five"])
    assert together.text == " ".join(alone)
    assert lines.text == "\n".join(alone)
    assert len(together.nbest[0].parts) == 3
    assert together.nbest[0].logp == pytest.approx(sum(part.logp for part in together.nbest[0].parts))
    ranked = several(model, ["One two. Three four!"], decoding=Decoding(nbest=3))[0].nbest
    assert len(ranked) == 3
    assert [x.score for x in ranked] == sorted((x.score for x in ranked), reverse=True)


def test_what_is_asked_of_a_text_is_asked_of_all_of_it(model: Model) -> None:
    (found,) = several(model, ["One two. Three four!"], decoding=Decoding(prefix="two", phrases=("seven",)))
    assert found.text.startswith("two")
    assert found.text.count("seven") == 1
    with pytest.raises(InputError, match="too long for a prefix or required phrases"):
        several(model, ["one two " * LONGEST], decoding=Decoding(prefix="two"))


def test_each_part_looked_at_itself_alone(model: Model) -> None:
    texts = ["One two.", "Three four!"]
    both, first, second = (model.translate(text, look="decoder.*cross") for text in (" ".join(texts), *texts))
    assert isinstance(both, Translation)
    assert isinstance(first, Translation)
    assert isinstance(second, Translation)
    for name, one in both.maps.items():
        a, b = first.maps[name].weights, second.maps[name].weights
        n, m = a.shape[2:]
        assert torch.allclose(one.weights[:, :, :n, :m], a)
        assert torch.allclose(one.weights[:, :, n:, m:], b)
        assert not one.weights[:, :, :n, m:].any()
        assert not one.weights[:, :, n:, :m].any()
        assert one.columns.labels == (
            *(first.maps[name].columns.labels or ()),
            *(second.maps[name].columns.labels or ()),
        )


def test_a_text_has_its_own_limit_whatever_stands_beside_it() -> None:
    """Also where a model never ends: a longer neighbour gives no more room."""
    endless = translator()
    endless.net.output_bias.data[endless.symbols.end[0]] = -100.0
    for how in (Decoding(beam=Beam(beams=1)), Decoding(), Decoding(sampling=Sampling())):
        together = several(endless, ["one", " ".join(WORDS[:10])], decoding=how)
        alone = several(endless, ["one"], decoding=how)
        assert together[0].text == alone[0].text
        assert len(together[0].nbest[0].ids) < len(together[1].nbest[0].ids)


def test_a_forced_beginning_may_repeat_itself(model: Model) -> None:
    for how in (Decoding(), Decoding(sampling=Sampling())):
        asked = replace(how, prefix="two two two", no_repeat=1)
        (found,) = several(model, ["one"], decoding=asked)
        assert found.text.startswith("two two two")


def test_what_cannot_be_has_no_translation(model: Model) -> None:
    asked = Decoding(phrases=("two two",), no_repeat=1)
    assert [one.nbest for one in several(model, ["one", "two"], decoding=asked)] == [[], []]
    broken = translator()
    for x in broken.parameters():
        x.data.fill_(torch.nan)
    for how in (Decoding(), Decoding(sampling=Sampling())):
        assert several(broken, ["one"], decoding=how)[0].nbest == []


def test_room_for_what_is_asked(model: Model) -> None:
    assert len(several(model, ["one"], decoding=Decoding(shortest=100))[0].nbest[0].ids) >= 100
    phrase = "one two three four five six seven eight nine ten " * 4
    assert phrase.strip() in several(model, ["one"], decoding=Decoding(phrases=(phrase.strip(),)))[0].text


def test_a_phrase_within_another_is_said_with_it(model: Model) -> None:
    for phrases, prefix in (
        (("seven", "six seven"), ""),
        (("six seven", "seven"), ""),
        (("seven", "seven"), ""),
        (("seven",), "six seven"),
    ):
        (found,) = several(model, ["one"], decoding=Decoding(phrases=phrases, prefix=prefix, longest=30))
        assert found.text.count("seven") == 1
    (both,) = several(model, ["one"], decoding=Decoding(phrases=("seven", "six"), longest=30))
    assert "seven" in both.text
    assert "six" in both.text


@pytest.mark.parametrize("family", ["transformer", "rnn"])
def test_a_source_is_read_once_for_all_draws(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And each draw has the random numbers that it would have by itself."""
    model = translator(family).to(torch.float64)  # so that the size of a batch moves no draw
    read: list[int] = []
    encode = model.net.encode
    monkeypatch.setattr(model.net, "encode", lambda source, keys: read.append(len(source)) or encode(source, keys))
    found = several(model, TEXTS[:3], decoding=Decoding(sampling=Sampling(seed=1), nbest=4))
    assert read == [3]
    for number, one in enumerate(found):
        alone = [
            several(model, [one.source], decoding=Decoding(sampling=Sampling(seed=1)), first=number * 4 + turn)[0]
            for turn in range(4)
        ]
        assert {x.ids for x in one.nbest} == {x.nbest[0].ids for x in alone}


def test_groups_of_beams_say_different_things(model: Model) -> None:
    asked = Decoding(beam=Beam(beams=4, groups=4), nbest=4)
    for one in several(model, TEXTS, decoding=asked):
        assert len({x.ids for x in one.nbest}) == len(one.nbest)


def test_chance_goes_by_the_number_of_a_text(model: Model) -> None:
    asked = Decoding(sampling=Sampling(seed=3))
    all_at_once = [one.text for one in several(model, ["one two"] * 6, decoding=asked)]
    halves = [one.text for first in (0, 3) for one in several(model, ["one two"] * 3, decoding=asked, first=first)]
    assert all_at_once == halves
    assert len(set(all_at_once)) > 3


@pytest.mark.parametrize("more", [["--json"], ["--look", "s.html"], ["--look", "s.PNG"], []])
def test_what_is_no_text(more: list[str], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["translate", "\udcff one two", "-m", str(folder), *more]) == 0


def test_several_translations_of_a_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"One. Two!\n\nthree\n")))
    assert main(["translate", "-m", str(folder), "--nbest", "2"]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in rows] == ["1", "1", "2", "3", "3"]
    assert all(len(row) == 3 for row in rows)
    assert float(rows[0][1]) >= float(rows[1][1])


def test_no_line_is_lost_where_one_cannot_be(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one\n\nthree\n")))
    assert main(["translate", "-m", str(folder), "--phrase", "two two", "--no-repeat", "1"]) == 0
    told = capsys.readouterr()
    assert told.out == "\n\n\n"
    assert told.err.count("no translation satisfies the constraints") == 2
    assert "line 3" in told.err


def test_no_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["translate"]) == 2
    assert "standard input is not available" in capsys.readouterr().err


def test_the_command_line_ranks_as_the_library_does() -> None:
    from inspect import signature

    from regard.cli import evaluate, translate

    assert {signature(verb.run).parameters["penalty"].default for verb in (translate, evaluate)} == {Beam().penalty}


def test_a_translation_does_not_load_the_compiler() -> None:
    """It takes longer than everything else together."""
    code = "import sys; from regard.cli.app import main; main(['translate', 'Hello.']); "
    code += "print('torch._dynamo' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines()[-1] == "False", found.stderr


def test_quality_is_that_of_sacrebleu() -> None:
    import sacrebleu

    said = ["Ein Hund läuft über die Wiese.", "Zwei Männer.", "Eine Frau mit Hut sitzt auf einer Bank im Park."]
    meant = ["Ein Hund rennt über die Wiese.", "Zwei Männer stehen.", "Eine Frau mit Hut sitzt auf einer Parkbank."]
    found = bleu_and_chrf(said, meant)
    assert found.bleu == pytest.approx(sacrebleu.corpus_bleu(said, [meant]).score)
    assert found.chrf == pytest.approx(sacrebleu.corpus_chrf(said, [meant]).score)
    assert "tok:13a" in found.signatures["bleu"]
    assert bleu_and_chrf(meant, meant).bleu == pytest.approx(100)


def test_quality_by_length() -> None:
    sources = ["a b", "a b c", "a b c d", "a " * 9]
    found = bleu_by_length(sources, ["x"] * 4, ["x", "y", "x", "x"], (2, 4))
    assert {name: part.sentences for name, part in found.items()} == {"1-2": 1, "3-4": 2, "5-": 1}


PAIRS = [
    ("Where are my keys?", "Wo sind meine Schlüssel?"),
    ("I have never seen such a big dog.", "Ich habe noch nie so einen großen Hund gesehen."),
    ("It is raining.", "Es regnet."),
]


def test_a_shipped_translator_is_measured_on_any_pairs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In one file or in two, by whichever columns: BLEU is that of what the model says."""
    table, english, german = tmp_path / "pairs.tsv", tmp_path / "a.en", tmp_path / "a.de"
    table.write_text("".join(f"{i}\t{de}\t{en}\n" for i, (en, de) in enumerate(PAIRS)), "utf-8")
    english.write_text("".join(f"{en}\n" for en, _ in PAIRS), "utf-8")
    german.write_text("".join(f"{de}\n" for _, de in PAIRS), "utf-8")
    said = regard.load("tatoeba-en-de").translate([en for en, _ in PAIRS])
    wanted = bleu_and_chrf([one.text for one in said], [de for _, de in PAIRS])
    for words in (["--data", str(table), "--columns", "3,2"], ["--data", str(english), "--data", str(german)]):
        assert main(["evaluate", "tatoeba-en-de", "--json", *words]) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["translated"]["bleu"] == pytest.approx(wanted.bleu)
        assert told["translated"]["sentences"] == len(PAIRS)
        assert told["lengths"]["1-10"]["sentences"] == len(PAIRS)
    assert main(["evaluate", "tatoeba-en-de"]) == 2
    assert "--data pairs.tsv" in capsys.readouterr().err
    for words in (["tatoeba-en-de", "--data", str(table), "--split", "test"], ["runs/x", "--columns", "2,1"]):
        assert main(["evaluate", *words]) == 2
        assert "remove it" in capsys.readouterr().err
    assert main(["evaluate", "recall", "--data", str(table)]) == 2
    assert "a model that supports: translate" in capsys.readouterr().err


def test_rows_of_an_encoder_are_what_was_read_also_if_both_sides_are_as_long() -> None:
    found = regard.load("tatoeba-en-de").translate("Where are my keys?", look="*coder.*")
    assert isinstance(found, Translation)
    rows = {name: one.rows.labels for name, one in found.maps.items()}
    assert len({len(labels or ()) for labels in rows.values()}) == 1  # as many tokens on both sides
    for name, labels in rows.items():
        assert labels is not None
        assert ("Where" in labels[0]) == name.startswith("encoder"), (name, labels)


def test_a_long_text_is_cut_in_time_that_grows_with_it() -> None:
    """A word is looked at once, not with all before it and behind it: a million letters took minutes."""
    text = "dog " * 250_000 + "Cats sleep. Dogs do not."
    assert [part.text for part in sentences(text)] == ["dog " * 250_000 + "Cats sleep.", "Dogs do not."]
