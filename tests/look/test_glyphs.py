"""Letters that the library's fonts lack are drawn by an installed font, or told."""

import io
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from matplotlib.font_manager import FontEntry, fontManager

from regard import glyphs, style
from regard.cli.app import main
from regard.errors import Notice

CHINESE = "我喜欢茶"


@pytest.fixture(autouse=True)
def no_wide_fonts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As on a machine with matplotlib's own fonts alone."""
    own = [font for font in fontManager.ttflist if not font.name.startswith(glyphs.WIDE)]
    monkeypatch.setattr(fontManager, "ttflist", own)
    glyphs.wide_font.cache_clear()
    yield
    glyphs.wide_font.cache_clear()


def figure_of(text: str) -> Figure:
    with style.font_family():
        figure = style.page(text, "", height=2.0)
        figure.text(0.5, 0.5, f"a {text}", family=style.MONO)
    return figure


def test_what_no_font_has_is_told_once() -> None:
    with style.font_family(), pytest.warns(Notice, match="4 characters cannot be drawn .我喜欢茶.") as told:
        glyphs.supply_glyphs(figure_of(CHINESE))
    assert len(told) == 1


def test_of_usual_letters_nothing_is_told() -> None:
    with style.font_family(), warnings.catch_warnings():
        warnings.simplefilter("error", Notice)
        glyphs.supply_glyphs(figure_of("Über ключ αβγ “x” ⟨y⟩ …"))


def test_an_installed_font_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A font under the name of one with many letters; of its letters these are some that the others lack."""
    from matplotlib.font_manager import FontProperties, findfont

    file = findfont(FontProperties(family="STIXNonUnicode"))
    letters = "".join(x for x in map(chr, range(0xE000, 0xE400)) if glyphs.in_font(x, file))
    letters = "".join(x for x in letters if not glyphs.has_glyph(x, (style.SERIF, style.SANS, style.MONO)))[:3]
    assert letters
    wide = FontEntry(fname=file, name="Noto Sans CJK SC")
    monkeypatch.setattr(fontManager, "ttflist", [*fontManager.ttflist, wide])
    glyphs.wide_font.cache_clear()
    figure = figure_of(letters)
    with style.font_family(), warnings.catch_warnings():
        warnings.simplefilter("error", Notice)
        glyphs.supply_glyphs(figure)
        assert all("Noto Sans CJK SC" in text.get_fontfamily() for text in figure.texts if letters in text.get_text())
        warnings.simplefilter("error")  # a glyph that matplotlib misses
        figure.savefig(io.BytesIO(), format="png")


def test_the_command_tells_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "map.png"
    words = ["look", "tatoeba-en-de", f"{CHINESE} tea", "--site", "decoder.0.cross", "--out", str(out)]
    assert main(words) == 0
    assert out.exists()
    told = capsys.readouterr().err
    assert told.count("characters cannot be drawn") == 1
    assert "install" in told
