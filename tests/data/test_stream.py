"""A text read through a window: no letter is lost, none comes twice, and chance only moves the window."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.counter_rng import AUGMENT, philox
from regard.data.rows import Rows
from regard.data.tables import open_plain
from regard.errors import InputError
from regard.modalities.text import passages as stream
from regard.modalities.text.passages import TextWindows, open_passages, passages_of
from regard.modalities.text.vocabulary import BEGIN, Vocabulary
from regard.modalities.text.windows import PassageMaker, WindowMaker

SONG = "All the world's a stage,\n\nAnd all the men and women\r\nmerely players;\n" * 40


def lines_of(texts: list[str]) -> Rows:
    import tempfile

    path = Path(tempfile.mkdtemp()) / "lines.txt"
    path.write_text("\n".join(texts) + "\n")
    return open_plain(path)


@settings(max_examples=60, deadline=None)
@given(text=st.text(st.characters(codec="utf-8", exclude_characters="\0")), size=st.integers(1, 50))
def test_passages_are_the_text(text: str, size: int) -> None:
    before, stream.PASSAGE = stream.PASSAGE, size
    try:
        found = passages_of(text, "text")
    finally:
        stream.PASSAGE = before
    assert "".join(found.texts) == text
    assert all(0 < len(passage) <= size for passage in found.texts)


def test_a_file_as_it_is(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "song.txt.gz", "wb") as file:
        file.write(SONG.encode("utf-8-sig"))
    found = open_passages(tmp_path / "song.txt.gz")
    assert "".join(found.texts) == SONG.replace("\r\n", "\n")
    learn, held_out = found.cut(0.1)
    assert "".join(learn.texts) + "".join(held_out.texts) == SONG.replace("\r\n", "\n")
    assert 0.08 < len("".join(held_out.texts)) / len(SONG) < 0.13
    assert "".join(learn.texts).endswith("\n")


@pytest.mark.parametrize(
    ("raw", "what"), [(b"\xff\xfe", "UTF-8"), (b"a\0b", "not a text file"), (b" \n", "contains no text")]
)
def test_what_is_no_text(raw: bytes, what: str, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_bytes(raw)
    with pytest.raises(InputError, match=what):
        open_passages(tmp_path / "x.txt")


@pytest.mark.parametrize("kind", ["characters", "bpe"])
def test_windows_hold_every_token_once(kind: str) -> None:
    text = Vocabulary(kind, 400).learn([SONG])  # type: ignore[arg-type]
    windows = TextWindows(passages_of(SONG, "song"), text, 32)
    make = WindowMaker(32, PassageMaker(text), moved=False)
    batch = make([windows[i] for i in range(len(windows))], [philox(AUGMENT, 0, 0, i) for i in range(len(windows))])
    real = np.ones(batch.wanted.shape, bool) if batch.keys is None else batch.keys.numpy()
    assert batch.wanted.numpy()[real].tolist() == windows.ids.tolist()
    assert text.decode(windows.ids.tolist()).lstrip() == SONG.lstrip()
    assert (batch.given[:, 0] == text.id_of(BEGIN)).all()
    assert (batch.given[:, 1:].numpy() == batch.wanted[:, :-1].numpy())[real[:, 1:]].all()


def test_a_window_is_moved_by_less_than_its_length() -> None:
    text = Vocabulary("characters", 60).learn([SONG])
    windows = TextWindows(passages_of(SONG, "song"), text, 16)
    make = WindowMaker(16, PassageMaker(text), moved=True)
    starts = set()
    for step in range(300):
        wanted = make([windows[3]], [philox(AUGMENT, 0, step, 3)]).wanted[0].tolist()
        places = [i for i in range(17) if windows.ids[48 + i : 64 + i].tolist() == wanted]
        assert places
        starts.add(places[0])
    assert starts == set(range(17))
    last = make([windows[len(windows) - 1]], [philox(AUGMENT, 0, 0, 0)]).wanted[0].tolist()
    assert last == windows.ids[windows.starts[-1] :].tolist()


def test_bytes_of_tokens() -> None:
    """What a token stands for adds up to the text, in bytes."""
    song = SONG.replace("\r\n", "\n") + "für"
    for kind in ("characters", "bpe"):
        text = Vocabulary(kind, 400).learn([song])  # type: ignore[arg-type]
        widths = text.widths()
        assert widths is not None
        space = kind == "bpe"  # it puts a space before the first word
        assert sum(widths[i] for i in text.ids([song])[0]) == len(song.encode()) + space
        assert widths[text.id_of(BEGIN)] == 0
    assert Vocabulary("wordpiece", 400).learn([song]).widths() is None
