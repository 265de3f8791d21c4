"""The stored results, one small file per figure in ``results/``: the numbers, what follows from them, how they were
made."""

import json
import os
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard import __version__
from regard_lectures import source

if TYPE_CHECKING:
    from regard_lectures.figure import FigureModule, Numbers

RESULTS = Path(__file__).parent / "results"
Record = dict[str, Any]


def read(name: str) -> Record | None:
    """The stored result; None if the figure was never computed in full."""
    path = RESULTS / f"{name}.json"
    found: Record | None = json.loads(path.read_text(encoding="utf8")) if path.is_file() else None
    return found


def made(text: str) -> Record:
    """The provenance of results computed now by a file with this text."""
    from regard.run.environment import commit, environment_now

    now = environment_now()
    machine = f"{now['platform']}, {os.cpu_count()} cores"
    told = {"regard": __version__, "commit": commit(Path(__file__).parent) or None, "date": date.today().isoformat()}
    told |= {"torch": now["torch"], "machine": machine, "threads": now["threads"]}
    return told | {"seeds": source.starts(text), "digest": source.digest(text)}


def judged(name: str, code: "FigureModule", numbers: "Numbers", made: Record) -> Record:
    """Build the record of a figure: the verdict follows from the numbers alone."""
    from regard_lectures.figure import agreement, verdict

    checks = code.checks(numbers)
    found = verdict(checks)
    record: Record = {"id": name, "title": code.TITLE, "verdict": found}
    record |= {"agreement": agreement(checks) if found else ""}
    record |= {"holds": None if found is None else found == "confirmed"}
    record |= {"failed": [one.name for one in checks if not one.ok], "decks": list(code.DECKS), "claim": code.CLAIM}
    record |= {"expected": getattr(code, "EXPECTED", code.CLAIM), "found": getattr(code, "FOUND", "")}
    record |= {"command": command(name), "seed": code.SEED, "regard": made["regard"], "made": made}
    return record | {"checks": [told(asdict(one)) for one in checks], "numbers": numbers}


def told(check: Record) -> Record:
    """Without what it does not say; a tuple is a list in JSON."""
    return {
        key: list(value) if isinstance(value, tuple) else value for key, value in check.items() if value is not None
    }


def words(record: Record) -> str:
    """The verdict as text, with the number of passed checks if only some pass, and the number of starts that agree."""
    checks = record["checks"]
    held = sum(check["ok"] for check in checks)
    text = record["verdict"] or ("nothing was expected before the run" if checks else "quoted")
    if text == "partly":
        text += f": {held} of {len(checks)} checks"
    return f"{text} ({record['agreement']} starts)" if record["agreement"] else text


def stale(record: Record, text: str) -> bool:
    """Whether the code of the figure, with this text, has changed since the result was computed."""
    return bool(record["made"]["digest"] != source.digest(text))


def command(name: str) -> str:
    return f"regard figure {name}"


def write(path: Path, record: Record) -> None:
    """A list of numbers on one line."""
    replaced(path, (compact(record) + "\n").encode())


def replaced(path: Path, raw: bytes) -> None:
    """Write a file atomically."""
    part = path.with_suffix(f".part{path.suffix}")
    part.write_bytes(raw)
    os.replace(part, path)


def compact(value: object, indent: str = "") -> str:
    """JSON that a person can read: objects one entry a line, lists without objects on one line."""
    inner = indent + "  "
    if isinstance(value, dict) and value:
        lines = [f"{inner}{json.dumps(name)}: {compact(part, inner)}" for name, part in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(part, dict) for part in value):
        return (
            "[\n"
            + ",\n".join(inner + json.dumps(part, ensure_ascii=False, allow_nan=False) for part in value)
            + f"\n{indent}]"
        )
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
