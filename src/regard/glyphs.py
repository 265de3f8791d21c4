"""Letters of pictures that the library's own fonts lack: drawn by an installed font, or told.

The fonts that come with matplotlib have Latin, Greek, Cyrillic and Arabic letters, but no Chinese, Japanese or Korean.
"""

from functools import lru_cache

from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, fontManager, get_font
from matplotlib.text import Text

from regard.errors import notify

# The beginnings of names of fonts with many letters, as the usual systems have them.
WIDE = (
    *("Noto Sans CJK", "Source Han Sans", "Noto Serif CJK", "Source Han Serif", "WenQuanYi", "Droid Sans Fallback"),
    *("PingFang", "Hiragino", "Heiti", "STHeiti", "Apple SD Gothic", "AppleGothic", "Arial Unicode"),
    *("Microsoft YaHei", "SimHei", "SimSun", "Yu Gothic", "Meiryo", "MS Gothic", "Malgun Gothic", "Microsoft JhengHei"),
    *("IPAGothic", "IPAexGothic", "TakaoGothic", "NanumGothic", "AR PL", "Unifont", "Noto Sans"),
)
SHOWN = 5


def supply_glyphs(figure: Figure) -> None:
    """Give each text of a finished figure a font for the letters that its own lack, or tell that they are boxes."""
    lost: dict[str, None] = {}
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        families = text.get_fontfamily()
        missing = [letter for letter in dict.fromkeys(text.get_text()) if not has_glyph(letter, tuple(families))]
        if not missing:
            continue
        found = {letter: wide_font(letter) for letter in missing}
        text.set_fontfamily([*families, *dict.fromkeys(name for name in found.values() if name)])
        lost |= dict.fromkeys(letter for letter, name in found.items() if not name)
    if lost:
        many = "1 character" if len(lost) == 1 else f"{len(lost)} characters"
        notify(
            f"{many} cannot be drawn ({''.join(list(lost)[:SHOWN])}): no installed font has them, so they are boxes; "
            "install one, such as Noto Sans CJK, or write an .html page"
        )


@lru_cache(4096)
def has_glyph(letter: str, families: tuple[str, ...]) -> bool:
    return letter.isspace() or any(in_font(letter, findfont(FontProperties(family=name))) for name in families)


@lru_cache(4096)
def in_font(letter: str, file: str) -> bool:
    return ord(letter) in get_font(file).get_charmap()


@lru_cache(4096)
def wide_font(letter: str) -> str:
    """The name of an installed font that has a letter; empty if none has."""
    for beginning in WIDE:
        for font in fontManager.ttflist:
            if font.name.startswith(beginning) and in_font(letter, font.fname):
                return font.name
    return ""
