"""regard.translate: the words, long texts, looking, the command line."""

import io
import itertools
import json
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
from regard.decode.beam import Beam
from regard.decode.sampling import Sampling
from regard.decode.settings import Decoding
from regard.decode.symbols import Symbols
from regard.errors import InputError
from regard.look.drawing import draw_alignment
from regard.look.terminal import heat_map_lines
from regard.modalities.text.runners import Translation
from regard.modalities.text.translator import LONGEST, TranslationModel
from regard.model import Model
from tests.verbs.translating import TEXTS, piped, several, translator


@pytest.fixture(scope="module")
def model() -> Model:
    return translator()


@pytest.fixture
def folder(model: Model, tmp_path: Path) -> Path:
    regard.save(model, tmp_path / "model")
    return tmp_path / "model"


def test_many_are_as_one_by_one_in_their_order(model: Model) -> None:
    texts = [*TEXTS, "", "one", "   ", "ten ten ten"]
    together = several(model, texts)
    assert [one.source for one in together] == texts
    assert [one.text for one in together] == [one.text for text in texts for one in several(model, [text])]
    assert together[texts.index("")].text == together[texts.index("   ")].text == ""
    assert len({one.text for one in together}) > 4


def test_one_text_is_one_translation(model: Model) -> None:
    one = model.translate("one two three")
    assert isinstance(one, Translation)
    assert one.text == several(model, ["one two three"])[0].text
    assert one.nbest[0].text == one.text
    assert one.maps == {}


def test_no_word_is_a_symbol(model: Model) -> None:
    """Padding and the begin are never written; a text that spells "<end>" means these letters."""
    for one in several(model, TEXTS, decoding=Decoding(beam=Beam(beams=2))):
        assert not set(one.nbest[0].ids) & {model.symbols.begin, model.symbols.pad, *model.symbols.end}
    spelled = TranslationModel(model.net, model.text(), model.symbols).encode(["one <end> two"])[0]
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


def test_a_long_text_is_read_in_parts(model: Model) -> None:
    translating = TranslationModel(model.net, model.text(), model.symbols)
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


@pytest.mark.parametrize("family", ["transformer", "rnn"])
def test_where_it_looked(family: str) -> None:
    model = translator(family)
    one = model.translate("one two three", look="decoder.*cross")
    assert isinstance(one, Translation)
    assert one.text == several(model, ["one two three"])[0].text, "looking changes nothing"
    assert len(one.maps) == (2 if family == "transformer" else 1)
    for found in one.maps.values():
        target, source = len(one.nbest[0].ids) + 1, len(model.text().ids(["one two three"])[0]) + 1
        assert found.weights.shape[-2:] == (target, source) == (found.rows.size, found.columns.size)
        assert found.rows.labels == model.text().labels([*one.nbest[0].ids, *model.symbols.end])
        assert found.columns.labels is not None
        assert found.columns.labels[-1] == "<end>"
        torch.testing.assert_close(found.weights.sum(-1), torch.ones(found.weights.shape[:-1]))


def test_models_that_do_not_translate(model: Model) -> None:
    with pytest.raises(InputError, match="this gpt cannot translate text"):
        regard.load("recall").translate("Anna")
    with pytest.raises(InputError, match="no begin token or no end token"):
        replace(model, symbols=Symbols()).translate("one")
    with pytest.raises(InputError, match="no tokenizer"):
        replace(model, processor=None).translate("one")


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
    assert "there is no attention map" in capsys.readouterr().err
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
    told = capsys.readouterr().err.splitlines()
    assert [("unknown to this model" in line, "cannot be drawn (你好)" in line) for line in told[-2:]] == [
        (1, 0),
        (0, 1),
    ]
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
    with style.font_family():
        figure = draw_alignment(
            torch.full((len(words), len(words)), 0.5), words, words, text, f"“{text[:1500]}”\nIt looks so."
        )
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
    lines = heat_map_lines(torch.eye(2, 26).tolist(), rows, columns, colour=False, width=30)
    assert max(map(len, lines)) <= 30
    assert "".join("".join(line.split()) for line in lines if line.strip().isupper()) == "".join(columns)
    assert sum(line.count("██") for line in lines) == 2
    assert any(line.startswith("bbbbbbbbb… ") for line in lines)


def test_columns_stand_below_their_words_whatever_their_letters() -> None:
    """A letter of Chinese is two characters wide, an accent of its own none."""
    lines = heat_map_lines(
        torch.eye(3).tolist(), ["漢字", "e\u0301", "x"], ["漢字", "e\u0301", "x"], colour=False, width=80
    )
    assert lines == ["     漢", "     字e\u0301 x", "漢字 ██", "   e\u0301   ██", "   x     ██"]
    assert len(heat_map_lines([[1.0]], ["x"], ["m" * 500], colour=False, width=80)) < 30, (
        "a word cannot fill the screen"
    )


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["-m", "nowhere"], "unknown model"),
        (["-m", "recall"], "this gpt cannot translate text"),
        (["--look", "map.pdf"], "expected: .png, .svg or .html"),
        (["--beam", "0"], "--beam 0"),
        (["--nbest", "9"], "--nbest 9"),
        (["--temperature", "0"], "temperature"),
        (["--temperature", "inf"], "must be finite"),
        (["--penalty", "nan"], "--penalty nan"),
        (["--beam", "4000"], "greater than 256"),
        (["--phrase", ""], "a phrase is empty"),
        (["--longest", "2", "--prefix", "Guten Morgen, meine Damen"], "longer than the maximum length"),
        (["--phrase", "Hund Hund", "--no-repeat", "1"], "no translation satisfies the constraints"),
        (["again", "--look", "map.png"], "--look with a file accepts only one text"),
        (["--look", "no/such/folder/map.png"], "the image cannot be written"),
        (["--look", "--layer", "decoder.*"], "cannot be averaged"),
        (["--look", "--layer", "*"], "cannot be averaged"),
        (["--look", "--layer", "nowhere"], "no attention of this model"),
        (["--layer", "decoder.*"], "--layer requires --look"),
        (["--phrase", "  "], "a phrase is empty"),
        (["--longest", "100000000"], "at most 10000"),
        (["--shortest", "100000000"], "at most 10000"),
        (["--shortest", "9", "--longest", "3"], "--shortest 9 is greater than --longest 3"),
        (["--top-p", "2"], "--top-p 2.0 is greater than 1"),
        (["--groups", "3"], "not a multiple of --groups 3"),
        (["--diversity", "1"], "set --groups above 1"),
        (["--seed", "1"], "sampling options require sampling"),
        (["--seed", "1", "--beam", "2"], "remove --beam, or --seed"),
        (["--temperature", "1", "--beam", "4"], "remove --beam, or --temperature"),
        (["--top-k", "5", "--penalty", "1"], "remove --penalty, or --top-k"),
        (["--typical", "0.5", "--groups", "2"], "remove --groups, or --typical"),
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
