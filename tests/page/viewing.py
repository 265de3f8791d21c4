"""What several tests of the page share."""

import base64
import runpy
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import torch

from regard.look.document import WORDS

STORY = "Anna sings . Boris paints . Anna"


SENTENCE = "#model=tatoeba-en-de&site=decoder.1.cross&head=2&row=7&column=7"


def hash_of(page: Any) -> dict[str, str]:
    page.wait_for_timeout(250)
    return {name: values[0] for name, values in parse_qs(page.evaluate("location.hash.slice(1)")).items()}


def made_up(answer: dict[str, Any], given: dict[str, Any], sites: list[dict[str, Any]]) -> dict[str, Any]:
    """A small look with words, patches and a class token, for what no shipped model shows."""
    axes = {
        "words": {"kind": "text", "size": 3, "labels": ["a", "red", "ball"], "grid": None, "special": 0},
        "patches": {"kind": "image", "size": 17, "labels": None, "grid": [4, 4], "special": 1},
    }
    plain = {"part": "decoder", "role": "cross", "layer": 0, "heads": 1, "rows": "words", "columns": "patches"}
    plain |= {"kind": "weights", "mechanism": "softmax", "arithmetic": False, "scale": 1.0, "calls": 1}
    sites = [plain | site for site in sites]
    model = {"name": "made-up", "title": "made up", "family": "none", "task": None, "parameters": 0, "takes": "image"}
    document = {"format": 1, "id": "0", "model": model, "input": given, "changes": [], "answer": answer, "before": None}
    maps = {}
    for site in sites:
        shape = [site["heads"], axes[site["rows"]]["size"], axes[site["columns"]]["size"]]
        weights = torch.rand(shape, generator=torch.Generator().manual_seed(1)) * 4
        weights = weights if site["kind"] == "influence" else weights.softmax(-1)
        maps[site["name"]] = base64.b64encode(weights.numpy().astype("<f2").tobytes()).decode()
    return {"document": document | {"axes": axes, "sites": sites}, "maps": maps, "vectors": {}, "words": WORDS}


def ran(code: str, folder: Path) -> dict[str, Any]:
    """What the names of copied Python stand for, when it has run."""
    (folder / "copied.py").write_text(code, encoding="utf8")
    return runpy.run_path(str(folder / "copied.py"))
