"""The page in one piece: its ES modules as one script, for a file that opens without a server, and for the notebook.

Only static imports of named things from files beside are known, ``import { a, b } from './c.js';``, and nothing may be
renamed: the modules then share one scope, in which two things of one name are an error.
"""

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parent.parent / "serve" / "page"

IMPORT = re.compile(
    r"^import\s+(?:\{(?P<names>[^}]*)\}\s+from\s+)?(?P<quote>['\"])(?P<file>[^'\"]+)(?P=quote);\n", re.M
)
NAMED = re.compile(
    r"^(?:export\s+)?(?:async\s+)?(?:const|let|var|class|function\*?)\s+(?P<name>[A-Za-z_$][\w$]*)", re.M
)
UNPACKED = re.compile(r"^(?:export\s+)?(?:const|let|var)\s+[{[](?P<names>[^=]*)[}\]]\s*=", re.M)
EXPORT = re.compile(r"^export\s+(?!default\b)", re.M)


def ordered(entry: Path) -> list[Path]:
    """The entry and all that it needs, each after what it needs itself."""
    found: list[Path] = []
    open_files: list[Path] = []

    def visit(path: Path) -> None:
        if path in found:
            return
        if path in open_files:
            raise ValueError(f"{path.name} imports itself, by way of {', '.join(one.name for one in open_files)}")
        open_files.append(path)
        for match in IMPORT.finditer(path.read_text(encoding="utf8")):
            if not match["file"].startswith("./") and not match["file"].startswith("../"):
                raise ValueError(f"{path.name} imports {match['file']}, which is no file beside it")
            if " as " in (match["names"] or ""):
                raise ValueError(f"{path.name} renames what it imports from {match['file']}")
            visit((path.parent / match["file"]).resolve())
        open_files.pop()
        found.append(path)

    visit(entry.resolve())
    return found


def declared(text: str) -> list[str]:
    """The names that a module has at its top."""
    names = [match["name"] for match in NAMED.finditer(text)]
    for match in UNPACKED.finditer(text):
        names += re.findall(r"([A-Za-z_$][\w$]*)\s*(?=[,}\]]|$)", match["names"].strip())
    return names


def module(entry: str = "widget.js") -> str:
    """The entry and its modules as one module, without imports."""
    owners: dict[str, str] = {}
    pieces = []
    for path in ordered(PAGE / entry):
        text = path.read_text(encoding="utf8")
        for name in declared(text):
            if name in owners:
                raise ValueError(f"both {owners[name]} and {path.name} have a {name} at their top")
            owners[name] = path.name
        text = IMPORT.sub("", text)
        left = re.search(r"^(import\b.*|export\s*[{*].*)", text, re.M)
        if left:
            raise ValueError(f"{path.name} has an import or export that cannot be joined: {left[0]}")
        pieces.append(EXPORT.sub("", text).strip())
    return "\n\n".join(pieces) + "\n"


def style() -> str:
    return (PAGE / "style.css").read_text(encoding="utf8")


def policy_for(looks: str, runs: str) -> str:
    """What a saved page may do: run its own script, by the hash of it, and show what it holds. It asks nobody."""
    own = [f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for text in (looks, runs)]
    return (
        f"default-src 'none'; style-src {own[0]}; script-src {own[1]}; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def standalone_page(data: Mapping[str, Any], title: str = "regard · look inside") -> str:
    """One HTML file that shows a look, as ``document.embedded`` gives it, with no server, no request."""
    inside = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    script = module("js/standalone.js").replace("</script", "<\\/script")
    looks, runs = f"\n{style()}", f"\n{script}"
    safe = title.replace("&", "&amp;").replace("<", "&lt;")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{policy_for(looks, runs)}">
<title>{safe}</title>
<link rel="icon" href="data:,">
<style>{looks}</style>
</head>
<body class="regard page">
<script type="application/json" id="regard-data">{inside}</script>
<script type="module">{runs}</script>
</body>
</html>
"""
