"""Text in, text out: in order, whatever is in it; and where the model looked."""

import io
import itertools
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg

import regard
from regard import style
from regard.cli.app import main
from regard.cli.piping import Follow
from regard.data.vocabulary import Vocabulary, symbols_of
from regard.decode.beam import Beam
from regard.decode.choice import Sampling
from regard.decode.settings import Decoding
from regard.errors import InputError
from regard.interop.symbols import Symbols
from regard.look.drawing import draw
from regard.look.terminal import heat
from regard.model import Model, Translated
from regard.tasks.bleu import by_length, quality
from regard.tasks.translating import LONGEST, Translating, sentences

WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", ".", "!", "?"]
TEXTS = [" ".join(WORDS[i:] + WORDS[:i]) for i in range(len(WORDS))]


def translator(family: str = "transformer") -> Model:
    torch.manual_seed(0)
    text = Vocabulary("bpe", 320).learn(TEXTS)
    vocab = text.tokenizer.get_vocab_size()
    if family == "rnn":
        model = regard.build("rnn-bahdanau", vocab=vocab, target_vocab=None, dim=16, hidden=16, align=8, maxout=16)
    else:
        sizes = {"vocab": vocab, "dim": 16, "depth": 2, "heads": 2, "hidden": 24, "norm": "pre", "scaled": False}
        model = regard.build("transformer-small", output_bias=True, **sizes)
    for name, x in model.net.named_parameters():
        if x.ndim > 1:
            torch.nn.init.normal_(x, std=0.3 if "embed" in name else 1.0)
    (model.net.output_bias if family == "transformer" else model.net.output.bias).data[text.id_of("<end>")] = 1.0
    return replace(model.eval(), processor=text, task="translate", symbols=symbols_of(text))


@pytest.fixture(scope="module")
def model() -> Model:
    return translator()


@pytest.fixture
def folder(model: Model, tmp_path: Path) -> Path:
    regard.save(model, tmp_path / "model")
    return tmp_path / "model"


def several(model: Model, texts: list[str], **how: Any) -> list[Translated]:
    found = model.translate(texts, **how)
    assert isinstance(found, list)
    return found


def test_many_are_as_one_by_one_in_their_order(model: Model) -> None:
    texts = [*TEXTS, "", "one", "   ", "ten ten ten"]
    together = several(model, texts)
    assert [one.source for one in together] == texts
    assert [one.text for one in together] == [one.text for text in texts for one in several(model, [text])]
    assert together[texts.index("")].text == together[texts.index("   ")].text == ""
    assert len({one.text for one in together}) > 4


def test_one_text_is_one_translation(model: Model) -> None:
    one = model.translate("one two three")
    assert isinstance(one, Translated)
    assert one.text == several(model, ["one two three"])[0].text
    assert one.nbest[0].text == one.text
    assert one.maps == {}


def test_no_word_is_a_symbol(model: Model) -> None:
    """Padding and the begin are never written; a text that spells "<end>" means these letters."""
    for one in several(model, TEXTS, decoding=Decoding(beam=Beam(beams=2))):
        assert not set(one.nbest[0].ids) & {model.symbols.begin, model.symbols.pad, *model.symbols.end}
    spelled = Translating(model.net, model.text(), model.symbols).encode(["one <end> two"])[0]
    assert [i for i in spelled if i in model.symbols.end] == [spelled[-1]] == [model.symbols.end[0]]


def test_what_can_be_asked(model: Model) -> None:
    asked = Decoding(beam=Beam(beams=5), nbest=3, shortest=4, longest=9, no_repeat=2, prefix="two", phrases=("seven",))
    for one in several(model, TEXTS[:4], decoding=asked):
        assert 1 <= len(one.nbest) <= 3
        assert [x.score for x in one.nbest] == sorted((x.score for x in one.nbest), reverse=True)
        for x in one.nbest:
            assert x.text.startswith("two")
            assert "seven" in x.text
            assert 4 <= len(x.ids) <= 9
            pairs = list(zip(x.ids, x.ids[1:], strict=False))
            assert len(set(pairs)) == len(pairs)


def test_drawn(model: Model) -> None:
    asked = Decoding(sampling=Sampling(seed=1), nbest=3)
    first, again = (several(model, TEXTS, decoding=asked) for _ in range(2))
    assert [[x.text for x in one.nbest] for one in first] == [[x.text for x in one.nbest] for one in again]
    assert any(len({x.text for x in one.nbest}) > 1 for one in first)
    other = several(model, TEXTS, decoding=replace(asked, sampling=Sampling(seed=2)))
    assert [one.text for one in other] != [one.text for one in first]


@pytest.mark.parametrize(
    "wrong",
    [
        {"nbest": 5},
        {"nbest": 0},
        {"longest": 0},
        {"shortest": 4, "longest": 3},
        {"sampling": Sampling(), "phrases": ("a",)},
        {"phrases": ("a", " ")},
    ],
)
def test_what_cannot_be_asked(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"nbest|longest|phrase"):
        Decoding(**wrong)


# ---------------------------------------------------------------------------------------------------------- long texts


def test_a_long_text_is_read_in_parts(model: Model) -> None:
    translating = Translating(model.net, model.text(), model.symbols)
    for text in (
        " ".join(["one two three four five."] * 90),
        " ".join(["six"] * 700),
        "seven" * 400,
        "one. " + "x" * 999,
    ):
        parts = [part.text for part in translating.parts(text)]
        assert len(parts) > 1
        assert max(len(row) for row in translating.encode(parts)) <= LONGEST
        assert "".join("".join(parts).split()) == "".join(text.split())
        (one,) = several(model, [text], decoding=Decoding(longest=8, beam=Beam(beams=1)))
        assert one.text == " ".join(
            x.text for x in several(model, parts, decoding=Decoding(longest=8, beam=Beam(beams=1)))
        )
    assert [part.text for part in translating.parts(TEXTS[0])] == [TEXTS[0]]


# ------------------------------------------------------------------------------------------------------------- looking


@pytest.mark.parametrize("family", ["transformer", "rnn"])
def test_where_it_looked(family: str) -> None:
    model = translator(family)
    one = model.translate("one two three", look="decoder.*cross")
    assert isinstance(one, Translated)
    assert one.text == several(model, ["one two three"])[0].text, "looking changes nothing"
    assert len(one.maps) == (2 if family == "transformer" else 1)
    for found in one.maps.values():
        target, source = len(one.nbest[0].ids) + 1, len(model.text().ids(["one two three"])[0]) + 1
        assert found.weights.shape[-2:] == (target, source) == (found.rows.size, found.columns.size)
        assert found.rows.labels == model.text().labels([*one.nbest[0].ids, *model.symbols.end])
        assert found.columns.labels is not None
        assert found.columns.labels[-1] == "<end>"
        torch.testing.assert_close(found.weights.sum(-1), torch.ones(found.weights.shape[:-1]))


# ------------------------------------------------------------------------------------------------------ the wrong model


def test_models_that_do_not_translate(model: Model) -> None:
    with pytest.raises(InputError, match="does not translate"):
        regard.load("recall").translate("Anna")
    with pytest.raises(InputError, match="where a text begins"):
        replace(model, symbols=Symbols()).translate("one")
    with pytest.raises(InputError, match="no tokenizer"):
        replace(model, processor=None).translate("one")


# ----------------------------------------------------------------------------------------------------- the command line


def piped(raw: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    class Input:
        buffer = io.BytesIO(raw)

        @staticmethod
        def isatty() -> bool:
            return False

    monkeypatch.setattr(sys, "stdin", Input)


def test_a_pipe(
    folder: Path, model: Model, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line for each line, whatever is in it."""
    lines = [
        b"one two",
        b"",
        b"\x00\xff\xfe",
        b"three\r",
        "\ud800".encode("utf-8", "surrogatepass"),
        b"six " * 600,
        b"ten",
    ]
    monkeypatch.setattr("regard.cli.piping.TOGETHER", 3)
    piped(b"\n".join(lines), monkeypatch)
    assert main(["translate", "-m", str(folder), "--beam", "1", "--longest", "6"]) == 0
    said = capsys.readouterr().out.split("\n")
    assert len(said) == len(lines) + 1
    assert said[1] == ""
    wanted = [
        one.text
        for one in several(model, ["one two", "three", "ten"], decoding=Decoding(beam=Beam(beams=1), longest=6))
    ]
    assert [said[0], said[3], said[6]] == wanted


class Screen(io.StringIO):
    """A terminal, or none."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.mark.parametrize(("terminal", "total"), [(True, 1000), (False, 1000), (False, 0)])
def test_how_far_a_pipe_is(terminal: bool, total: int) -> None:
    """Of what is done at once nothing is said; then how many, how fast, and where that is known, how long still."""
    now, out = [0.0], Screen(terminal)
    follow = Follow(out, total, lambda: now[0])
    follow.add(10, 100)
    assert out.getvalue() == ""
    now[0] = 20.0
    follow.add(30, 300)
    left = "  0:30 left" if total else ""
    one = f"40 lines  2.0 lines/s{left}"
    assert out.getvalue() == (f"\r{one}\x1b[K" if terminal else f"{one}\n")
    now[0] = 40.0
    follow.add(60, 600)
    follow.close()
    assert out.getvalue().endswith("100 lines  2.5 lines/s\x1b[K\n" if terminal else "100 lines  2.5 lines/s\n")
    assert out.getvalue().count("100 lines") == 1


def test_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", "one two", "three", "-m", str(folder), "--nbest", "2", "--look", "--json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["source"] for one in found] == ["one two", "three"]
    assert [len(one["nbest"]) for one in found] == [2, 2]
    assert list(found[0]["maps"]) == ["decoder.0.cross", "decoder.1.cross"]


@pytest.mark.parametrize("name", ["map.png", "map.svg", "map.html"])
def test_a_picture(name: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", "one <b>two</b>", "-m", str(folder), "--look", str(tmp_path / name)]) == 0
    raw = (tmp_path / name).read_bytes()
    assert raw.startswith({"png": b"\x89PNG", "svg": b"<?xml", "html": b"<!doctype"}[name[4:]])
    if name.endswith("html"):
        text = raw.decode()
        assert "<b>" not in text
        assert "http" not in text
        assert text.count("<tr>") == len(json.loads(text.split('id="map">')[1].split("</script>")[0])["rows"]) + 1


def test_a_picture_whose_name_has_a_space(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", "one two", "-m", str(folder), "--look", str(tmp_path / "my map.svg")]) == 0
    assert (tmp_path / "my map.svg").read_bytes().startswith(b"<?xml")
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_nothing_to_look_at_is_told(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", "  ", "-m", str(folder), "--look", str(tmp_path / "map.svg")]) == 0
    assert "nothing to look at" in capsys.readouterr().err
    assert not (tmp_path / "map.svg").exists()


def test_a_space_at_the_end_belongs_to_the_next_word(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = []
    for prefix, phrase in (("one", "two"), ("one ", " two ")):
        assert main(["translate", "one two", "-m", str(folder), "--prefix", prefix, "--phrase", phrase]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]


def test_what_is_drawn_is_what_was_written(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], recwarn: pytest.WarningsRecorder
) -> None:
    """Between dollar signs matplotlib reads mathematics, and fails at what is none."""
    wrong = r"$\foo$ costs $5 or $10, 你好"
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        assert main(["translate", wrong, "-m", str(folder), "--look", str(tmp_path / "map.svg")]) == 0
    assert wrong in (tmp_path / "map.svg").read_text("utf-8")
    assert main(["translate", wrong, "-m", str(folder), "--look", str(tmp_path / "map.png")]) == 0
    assert not capsys.readouterr().err
    assert not [x for x in recwarn if "lyph" in str(x.message)]


SENTENCE = "the old man by the sea told us a story for $5 or $10 , of a ship that never came back from its last voyage"


@pytest.mark.parametrize(
    "words",
    [
        ["Where", "are", "my", "keys", "?"],
        ["The", "a" * 50, "W" * 80, "end"],
        ["end", "m" * 50],
        SENTENCE.split(),
        SENTENCE.split() * 3,
        SENTENCE.split() * 6,
        ["漢字" * 30, "字"] * 20,
        ["x" * 30] * 300,
        ["one"],
    ],
    ids=["few", "long", "long at the end", "a sentence", "70", "150", "wide", "300", "one"],
)
def test_a_picture_has_room_for_its_words(words: list[str]) -> None:
    """All words are on the page and upon nothing else; no part of it is empty; and the whole text is told."""
    text = " ".join(words)
    with style.family():
        figure = draw(torch.full((len(words), len(words)), 0.5), words, words, text, f"“{text[:1500]}”\nIt looks so.")
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        pen = canvas.get_renderer()
        title, note = (x.get_window_extent(pen) for x in figure.texts)
        axes = figure.axes[0]
        rows, columns = (
            [x.get_window_extent(pen) for x in labels if x.get_text()]
            for labels in (axes.get_yticklabels(), axes.get_xticklabels())
        )
    page, table = figure.bbox, axes.get_window_extent(pen)
    for one in (title, note, table, *rows, *columns):
        assert page.x0 <= one.x0 < one.x1 <= page.x1
        assert page.y0 <= one.y0 < one.y1 <= page.y1
    assert note.y1 <= title.y0
    assert max(x.y1 for x in columns) <= note.y0
    assert all(upper.y0 >= lower.y1 - 2 for upper, lower in itertools.pairwise(rows))
    assert max(x.y1 for x in columns) >= note.y0 - 0.4 * figure.dpi, "an empty part above the map"
    if len(words) > 20:
        assert max(x.x1 for x in columns) >= 0.85 * page.x1, "an empty part beside the map"
    told = "".join(figure.texts[1].get_text().split()).replace("\\$", "$")
    shown = figure.texts[0].get_text().replace("\\$", "$")
    assert shown == text or "".join(text[:1400].split()) in told.partition("”")[0]
    assert "".join(text[:1400].split()) in told


def test_in_the_terminal(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", "one two", "-m", str(folder), "--look"]) == 0
    text = capsys.readouterr().out
    assert "<end>" in text
    assert any(shade in text for shade in "░▒▓█")


@pytest.mark.parametrize("width", [1, 20, 40, 60, 80, 200])
def test_no_line_of_a_map_is_wider_than_the_terminal(
    width: int, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert main(["translate", " ".join(TEXTS[:3]), "-m", str(folder), "--look"]) == 0
    text, _, shown = capsys.readouterr().out.partition("\n")
    assert text
    assert "--look map.png" in shown or width == 200
    if width <= 20:
        assert len(shown.strip().splitlines()) == 1, "a map in many parts cannot be read"
    else:
        assert max(map(len, shown.splitlines())) <= width


def test_parts_of_a_map_are_the_whole() -> None:
    """No column is lost, and none is told twice."""
    rows, columns = ["a", "b" * 99], [chr(ord("A") + i) for i in range(26)]
    lines = heat(torch.eye(2, 26).tolist(), rows, columns, colour=False, width=30)
    assert max(map(len, lines)) <= 30
    assert "".join("".join(line.split()) for line in lines if line.strip().isupper()) == "".join(columns)
    assert sum(line.count("██") for line in lines) == 2
    assert any(line.startswith("bbbbbbbbb… ") for line in lines)


def test_columns_stand_below_their_words_whatever_their_letters() -> None:
    """A letter of Chinese is two characters wide, an accent of its own none."""
    lines = heat(torch.eye(3).tolist(), ["漢字", "e\u0301", "x"], ["漢字", "e\u0301", "x"], colour=False, width=80)
    assert lines == ["     漢", "     字e\u0301 x", "漢字 ██", "   e\u0301   ██", "   x     ██"]
    assert len(heat([[1.0]], ["x"], ["m" * 500], colour=False, width=80)) < 30, "a word cannot fill the screen"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["-m", "nowhere"], "no such model"),
        (["-m", "recall"], "does not translate"),
        (["--look", "map.pdf"], "a picture is a .png"),
        (["--beam", "0"], "--beam 0"),
        (["--nbest", "9"], "--nbest 9"),
        (["--temperature", "0"], "temperature"),
        (["--temperature", "inf"], "not finite"),
        (["--penalty", "nan"], "--penalty nan"),
        (["--beam", "4000"], "more than 256"),
        (["--phrase", ""], "a phrase has no letters"),
        (["--longest", "2", "--prefix", "Guten Morgen, meine Damen"], "longer than it may be"),
        (["--phrase", "Hund Hund", "--no-repeat", "1"], "nothing can be written"),
        (["again", "--look", "map.png"], "a picture shows one text"),
        (["--look", "no/such/folder/map.png"], "cannot be written there"),
        (["--look", "--layer", "decoder.*"], "have no mean"),
        (["--look", "--layer", "*"], "have no mean"),
        (["--look", "--layer", "nowhere"], "no attention of this model"),
        (["--layer", "decoder.*"], "no layer is looked at"),
        (["--phrase", "  "], "a phrase has no letters"),
        (["--longest", "100000000"], "at most 10000"),
        (["--shortest", "100000000"], "at most 10000"),
        (["--shortest", "9", "--longest", "3"], "--shortest 9 is above --longest 3"),
        (["--top-p", "2"], "--top-p 2.0 is above 1"),
        (["--groups", "3"], "not a multiple of --groups 3"),
        (["--diversity", "1"], "give --groups too"),
        (["--seed", "1"], "nothing is drawn by chance"),
        (["--seed", "1", "--beam", "2"], "leave out --beam, or --seed"),
        (["--temperature", "1", "--beam", "4"], "leave out --beam, or --temperature"),
        (["--top-k", "5", "--penalty", "1"], "leave out --penalty, or --top-k"),
        (["--typical", "0.5", "--groups", "2"], "leave out --groups, or --typical"),
        (["--stream", "--beam", "4"], "--stream --beam"),
        (["--stream", "--nbest", "2"], "--stream --nbest"),
        (["--stream", "--phrase", "Hund"], "--stream --phrase"),
        (["--stream", "--json"], "--stream --json"),
    ],
)
def test_bad_requests(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", "hello", *words]) == 2
    shown, found = capsys.readouterr()
    if "--json" in words:
        assert told in json.loads(shown)["error"]["got"]
        return
    assert shown == "", "what is refused is refused before any work"
    assert "Traceback" not in found
    assert found.startswith("regard: ")
    assert told in found


def test_all_that_the_library_can_be_asked(
    folder: Path, model: Model, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each option reaches what it names."""
    seen: list[Decoding] = []
    translate = Model.translate

    def spy(self: Model, texts: list[str], *, decoding: Decoding, **how: Any) -> Any:
        seen.append(decoding)
        return translate(self, texts, decoding=decoding, **how)

    monkeypatch.setattr(Model, "translate", spy)
    for words, wanted in (
        ("--shortest 7", Decoding(shortest=7)),
        ("--groups 2 --diversity 1.5", Decoding(beam=Beam(groups=2, diversity=1.5))),
        ("--top-k 5 --seed 3", Decoding(sampling=Sampling(top_k=5, seed=3))),
        ("--top-p 0.5", Decoding(sampling=Sampling(top_p=0.5))),
        ("--typical 0.5 --temperature 2", Decoding(sampling=Sampling(typical=0.5, temperature=2.0))),
        ("--temperature 1 --nbest 5", Decoding(sampling=Sampling(), nbest=5)),
    ):
        assert main(["translate", "one two", "-m", str(folder), *words.split()]) == 0
        assert seen[-1] == wanted


def test_a_dash_is_standard_input(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    piped(b"one\n\n", monkeypatch)
    assert main(["translate", "-", "-m", str(folder)]) == 0
    assert len(capsys.readouterr().out.split("\n")) == 3


def test_how_far_it_is_with_a_long_text(model: Model) -> None:
    told: list[tuple[int, int]] = []
    texts = ["One two. " * 300, "three"]
    model.translate(texts, decoding=Decoding(beam=Beam(beams=1)), progress=lambda *now: told.append(now))
    assert len(told) > 1
    assert told == sorted(told)
    assert told[-1] == (301, 301)


# ------------------------------------------------------------------------------------------------------ piece by piece


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
        with pytest.raises(InputError, match="piece by piece"):
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


# ------------------------------------------------------------------------------------------------- several sentences


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
    with pytest.raises(InputError, match="read in parts"):
        several(model, ["one two " * LONGEST], decoding=Decoding(prefix="two"))


def test_each_part_looked_at_itself_alone(model: Model) -> None:
    texts = ["One two.", "Three four!"]
    both, first, second = (model.translate(text, look="decoder.*cross") for text in (" ".join(texts), *texts))
    assert isinstance(both, Translated)
    assert isinstance(first, Translated)
    assert isinstance(second, Translated)
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


# ------------------------------------------------------------------------------------------------------ what cannot be


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


# ------------------------------------------------------------------------------------------------------- at the prompt


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
    assert told.err.count("nothing can be written") == 2
    assert "line 3" in told.err


def test_no_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["translate"]) == 2
    assert "no standard input" in capsys.readouterr().err


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


# -------------------------------------------------------------------------------------------------------------- quality


def test_quality_is_that_of_sacrebleu() -> None:
    import sacrebleu

    said = ["Ein Hund läuft über die Wiese.", "Zwei Männer.", "Eine Frau mit Hut sitzt auf einer Bank im Park."]
    meant = ["Ein Hund rennt über die Wiese.", "Zwei Männer stehen.", "Eine Frau mit Hut sitzt auf einer Parkbank."]
    found = quality(said, meant)
    assert found.bleu == pytest.approx(sacrebleu.corpus_bleu(said, [meant]).score)
    assert found.chrf == pytest.approx(sacrebleu.corpus_chrf(said, [meant]).score)
    assert "tok:13a" in found.signatures["bleu"]
    assert quality(meant, meant).bleu == pytest.approx(100)


def test_quality_by_length() -> None:
    sources = ["a b", "a b c", "a b c d", "a " * 9]
    found = by_length(sources, ["x"] * 4, ["x", "y", "x", "x"], (2, 4))
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
    wanted = quality([one.text for one in said], [de for _, de in PAIRS])
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
        assert "leave it out" in capsys.readouterr().err
    assert main(["evaluate", "recall", "--data", str(table)]) == 2
    assert "only a translator" in capsys.readouterr().err


def test_rows_of_an_encoder_are_what_was_read_also_if_both_sides_are_as_long() -> None:
    found = regard.load("tatoeba-en-de").translate("Where are my keys?", look="*coder.*")
    assert isinstance(found, Translated)
    rows = {name: one.rows.labels for name, one in found.maps.items()}
    assert len({len(labels or ()) for labels in rows.values()}) == 1  # as many tokens on both sides
    for name, labels in rows.items():
        assert labels is not None
        assert ("Where" in labels[0]) == name.startswith("encoder"), (name, labels)


def test_a_long_text_is_cut_in_time_that_grows_with_it() -> None:
    """A word is looked at once, not with all before it and behind it: a million letters took minutes."""
    text = "dog " * 250_000 + "Cats sleep. Dogs do not."
    assert [part.text for part in sentences(text)] == ["dog " * 250_000 + "Cats sleep.", "Dogs do not."]
