"""`regard complete`."""

import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.keyboard import (
    BACK,
    DOWN,
    ENTER,
    LEAVE,
    PICKS,
    TAKE,
    UP,
    escape_controls,
    raw_terminal,
    read_keys,
    screen,
)
from regard.cli.options import Json
from regard.cli.piping import chunks, given

if TYPE_CHECKING:
    from regard.modalities.text.completion import Completing, Completion, Keystrokes

LONGEST, MOST, FARTHEST = 12, 50, 5  # letters that are seen together, completions, words
MEASURED = 4000  # letters


def run(
    text: Annotated[Path, typer.Argument(help="Text file to learn from, plain or compressed (.gz, .xz).")],
    typed: Annotated[
        list[str] | None,
        typer.Argument(help="Text to complete; if omitted, as you type, or the lines of standard input."),
    ] = None,
    order: Annotated[
        int, typer.Option(help="Order n of the model: each character is predicted from the n - 1 before it.")
    ] = 6,
    top: Annotated[int, typer.Option(help="Number of completions, most likely first.")] = 5,
    words: Annotated[int, typer.Option(help="Number of words in each completion.")] = 1,
    measure: Annotated[
        bool,
        typer.Option(
            "--measure",
            help=f"Measure the keystrokes saved on {MEASURED:,} characters of the last tenth of the text, held out.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Complete words as you type, with a character n-gram model of your own text.

    Example: regard complete letters.txt "My dear f"
    """
    from regard.errors import InputError

    for name, value, most in (("order", order, LONGEST), ("top", top, MOST), ("words", words, FARTHEST)):
        if not 1 <= value <= most:
            raise InputError(f"--{name} is out of range", got=str(value), expected=f"1 to {most}")
    dash, typed = typed is not None and given(typed) is None, given(typed)
    if measure and (typed or words > 1):
        raise InputError(
            "--measure cannot be combined with a text to complete or --words", fix="remove the text and --words"
        )
    from regard.data.plain_text import read_lines
    from regard.modalities.text.completion import Completing

    lines = read_lines(text)
    if measure:
        cut = len(lines) * 9 // 10
        if not cut:
            raise InputError("the text is too short for a held-out part", where=str(text), got="1 line")
        keys = Completing(lines[:cut], order).typing(some(lines[cut:]), top)
        tell(keys, sum(map(len, lines[cut:])), order, top, as_json)
        return
    completing = Completing(lines, order)
    for one in typed or ():
        found = completing.complete(one, top, words)
        print(json.dumps(data(one, found)) if as_json else "\n".join(table(one, found)))
    if typed:
        return
    if sys.stdin.isatty() and sys.stdout.isatty() and not as_json and not dash:
        talk(Session(completing, top, words))
        return
    for lot in chunks():
        for one in lot:
            found = completing.complete(one, top, words)
            told = [escape_controls(one + completion.text) for completion in found]
            print(json.dumps(data(one, found)) if as_json else "\t".join(told))
        sys.stdout.flush()


def some(lines: list[str]) -> list[str]:
    """Enough of them to tell, evenly; all where there are no more."""
    count = min(max(len(lines) * MEASURED // max(sum(map(len, lines)), 1), 1), len(lines))
    return [lines[i * len(lines) // count] for i in range(count)]


def tell(found: "Keystrokes", held_out: int, order: int, top: int, as_json: bool) -> None:
    if as_json:
        facts = {"letters": found.letters, "keys": found.keys, "saved": found.saved, "held_out": held_out}
        print(json.dumps(facts | {"order": order, "top": top}))
        return
    letters = f"{found.letters:,} of {held_out:,} held-out characters"
    print(f"{letters} take {found.keys:,} keystrokes: {found.saved:.1%} saved")
    print(f"assuming one keystroke accepts any of {top} completions as soon as the right one is shown; order {order}")


def data(typed: str, found: "list[Completion]") -> dict[str, Any]:
    return {"typed": typed, "completions": [{"text": x.text, "probability": x.probability} for x in found]}


def table(typed: str, found: "list[Completion]") -> list[str]:
    return [f"{100 * x.probability:5.1f} %  {escape_controls(typed + x.text)}" for x in found]


class Session:
    """What a person has typed, what it may become, and how many keys that took."""

    def __init__(self, completing: "Completing", top: int, words: int) -> None:
        self.completing, self.top, self.words = completing, top, words
        self.text, self.mark = "", 0
        self.letters = self.keys = 0  # of all lines

    @property
    def found(self) -> "list[Completion]":
        return self.completing.complete(self.text, self.top, self.words)

    def press(self, key: str) -> None:
        self.keys += 1
        if key in (UP, DOWN):
            self.mark = (self.mark + (1 if key == DOWN else -1)) % max(len(self.found), 1)
            return
        chosen = self.mark if key == TAKE else PICKS.index(key) if key in PICKS else -1
        if 0 <= chosen < len(self.found):
            self.add(self.found[chosen].text)
        elif key == BACK:
            self.letters -= len(self.text[-1:])
            self.text = self.text[:-1]
        elif key == ENTER:
            self.text, self.keys = "", self.keys - 1  # it would be pressed in any case
        elif len(key) == 1:
            self.add(key)
        self.mark = 0

    def add(self, text: str) -> None:
        self.text += text
        self.letters += len(text)

    def below(self) -> list[str]:
        """The lines below what is typed: as many in any case, so that nothing jumps."""
        lines = [f"{'>' if i == self.mark else ' '} {line}" for i, line in enumerate(table(self.text, self.found))]
        saved = f", {1 - self.keys / self.letters:.0%} saved" if 0 < self.keys <= self.letters else ""
        told = f"{self.letters} characters, {self.keys} keys{saved}"
        return [*lines, *[""] * (self.top - len(lines)), f"{told}   tab: accept, up/down: select, esc: quit"]


def talk(session: Session) -> None:
    def draw() -> None:
        sys.stdout.write(screen(session.text, session.below(), shutil.get_terminal_size().columns))
        sys.stdout.flush()

    with raw_terminal():
        try:
            draw()
            for keys in read_keys():
                for key in keys:
                    if key == LEAVE:
                        return
                    if key == ENTER:
                        sys.stdout.write(f"\r\x1b[J> {escape_controls(session.text)}\n")
                    session.press(key)
                draw()
        finally:
            sys.stdout.write(f"\r\x1b[J> {escape_controls(session.text)}\n")
            sys.stdout.flush()
