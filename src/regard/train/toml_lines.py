"""Where each key of a TOML file stands, so that an error can name its line.

A scan, no parser: tomllib reads the file, but keeps no lines. The scan goes first. It stops at what is no TOML, and
tomllib then complains; but it refuses what would cost tomllib its stack or minutes: deep nesting and endless numbers.
"""

import re
import tomllib
from collections.abc import Sequence

from regard.errors import ConfigError

Path = tuple[str | int, ...]  # keys, and numbers of items in lists

DEEPEST = 32
LONGEST = 200  # characters of a value without quotes; dates and honest numbers are far shorter

# No pattern ever goes back: hostile files take no longer than others.
GAP = re.compile(r"(?:[ \t\r\n]|#[^\n]*+)*+")
BLANK = re.compile(r"[ \t]*+")
PART = re.compile(r"""[A-Za-z0-9_-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+'""")
QUOTED = re.compile(
    r'''"""(?:[^"\\]|\\.|"(?!""))*+"{3,5}|"(?:[^"\\\n]|\\.)*+"'''
    r"""|'''(?:[^']|'(?!''))*+'{3,5}|'[^'\n]*+'""",
    re.DOTALL,
)
BARE = re.compile(r"""[^,\[\]{}\n#"']++""")


def scan(text: str, where: str) -> dict[Path, int]:
    """Every table, key and item of a list -> its line. A table that is only implied has the line of the
    first key within."""
    scanner = Scanner(text, where)
    table: Path | None = ()
    while table is not None and scanner.more():
        if scanner.next("["):
            table = scanner.header()
        elif not scanner.pair(table):
            break
    return scanner.lines


class Scanner:
    def __init__(self, text: str, where: str) -> None:
        self.text, self.where = text, where
        self.at = self.counted = 0
        self.line = 1
        self.lines: dict[Path, int] = {}
        self.tables: dict[Path, int] = {}  # lists of tables -> the number of their last item

    def take(self, pattern: re.Pattern[str]) -> str | None:
        found = pattern.match(self.text, self.at)
        if found is None:
            return None
        self.at = found.end()
        return found[0]

    def more(self) -> bool:
        """Whether there is anything after the space and the comments here."""
        self.take(GAP)
        return self.at < len(self.text)

    def next(self, mark: str) -> bool:
        """Step over this mark, if it stands here."""
        here = self.text.startswith(mark, self.at)
        self.at += len(mark) * here
        return here

    def key(self) -> list[str]:
        """The parts of a dotted key; none if there is no key here."""
        parts = []
        while True:
            self.take(BLANK)
            part = self.take(PART)
            if part is None:
                return []
            parts.append(unquoted(part))
            self.take(BLANK)
            if not self.next("."):
                return parts

    def mark(self, path: Path, parts: Sequence[str | int]) -> Path:
        """Note that the path goes on with these parts, here."""
        if len(path) + len(parts) > DEEPEST:
            self.refuse(f"nested deeper than {DEEPEST} levels")
        line = self.here()
        for part in parts:
            path = (*path, part)
            self.lines.setdefault(path, line)
        return path

    def here(self) -> int:
        self.line += self.text.count("\n", self.counted, self.at)
        self.counted = self.at
        return self.line

    def refuse(self, reason: str) -> None:
        raise ConfigError(f"{self.where}:{self.here()}: {reason}")

    def header(self) -> Path | None:
        """[a.b], or [[a.b]]: one more item of a list of tables. Where `a` is such a list, its last item is meant."""
        several = self.next("[")
        parts = self.key()
        if not parts:
            return None
        path: Path = ()
        for part in parts[:-1]:
            path = self.mark(path, [part])
            path = (*path, self.tables[path]) if path in self.tables else path
        path = self.mark(path, parts[-1:])
        if several:
            self.tables[path] = self.tables.get(path, -1) + 1
            path = self.mark(path, [self.tables[path]])
        self.lines[path] = self.here()  # not where it was implied
        return path if self.next("]]" if several else "]") else None

    def pair(self, table: Path) -> bool:
        """One `key = value`; False where that is not what stands here."""
        path = self.place(table)
        opened: list[
            tuple[Path, int]
        ] = []  # what is around the value: tables, -1, and lists, how many items they have yet
        while path is not None:
            self.take(GAP)
            if self.next("["):
                opened.append((path, 0))
            elif self.next("{"):
                opened.append((path, -1))
            elif not self.plain():
                return False
            path = None
            while opened and path is None:
                self.take(GAP)
                self.next(",")
                self.take(GAP)
                outer, count = opened[-1]
                if self.next("}" if count < 0 else "]"):
                    opened.pop()
                elif count < 0:
                    path = self.place(outer)
                    if path is None:
                        return False
                else:
                    path = self.mark(outer, [count])
                    opened[-1] = (outer, count + 1)
            if not opened:
                return True
        return False

    def place(self, table: Path) -> Path | None:
        """The path of a key and the `=` after it."""
        parts = self.key()
        path = self.mark(table, parts)
        return path if parts and self.next("=") else None

    def plain(self) -> bool:
        """A text, a number, a date, true or false: only their length matters here."""
        if self.take(QUOTED) is not None:
            return True
        word = self.take(BARE)
        if word is not None and len(word.strip()) > LONGEST:
            self.refuse(f"unquoted value of {len(word.strip())} characters")
        return word is not None


def unquoted(part: str) -> str:
    """A part of a key without its quotes."""
    if part[0] == '"' and "\\" in part:
        try:
            return str(tomllib.loads(f"part = {part}")["part"])
        except tomllib.TOMLDecodeError:
            return part  # of which tomllib will complain
    return part[1:-1] if part[0] in "\"'" else part
