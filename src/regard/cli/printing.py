"""Answers on the command line, as the verb's row shows them: in a terminal, as JSON, in a file."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.modalities.verb import AnswerView


def print_answers(view: "AnswerView", answers: Sequence[Any], as_json: bool) -> None:
    """As soon as they are known: a line of JSON for each, or the lines of a terminal."""
    lines = [as_line(view.data(one)) for one in answers] if as_json else view.lines(answers)
    if lines:
        print("\n".join(lines), flush=True)


def as_line(data: dict[str, Any]) -> str:
    return json.dumps(data, ensure_ascii=False)


def draw_answers(view: "AnswerView", answers: Sequence[Any], out: Path) -> None:
    """Whole or not at all."""
    assert view.draw is not None
    part = out.with_name(f".{out.stem}.part{out.suffix}")
    try:
        view.draw(answers, part)
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)
