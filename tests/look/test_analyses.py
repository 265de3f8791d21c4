"""Every analysis says what it computes and what it does not show, and its page runs as it stands."""

import ast
import importlib
import pkgutil
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import regard.look

PAGE = Path(__file__).parents[2] / "docs" / "looking.md"
ANALYSES = ("rollout", "flow", "distance", "spectrum", "gradient", "importance", "exclusion", "occlusion", "lens")


def module(name: str) -> ModuleType:
    return importlib.import_module(f"regard.look.{name}")


def flat(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("name", ANALYSES)
def test_an_equation_a_limit_and_a_paper(name: str) -> None:
    analysis = module(name)
    assert analysis.EQUATION
    assert "\n" not in analysis.EQUATION
    assert re.fullmatch(r"It does not show [^.]+\.", analysis.LIMIT)  # one sentence
    assert re.search(r"\(.+, \d{4}\)", flat(analysis.__doc__ or ""))
    assert "https://" in (analysis.__doc__ or "")
    assert "Shapes: " in (analysis.__doc__ or "")


def test_who_has_the_one_has_the_other() -> None:
    names = [found.name for found in pkgutil.iter_modules(regard.look.__path__)]
    having = [name for name in names if hasattr(module(name), "EQUATION") or hasattr(module(name), "LIMIT")]
    assert sorted(having) == sorted(ANALYSES)


@pytest.mark.parametrize("name", ANALYSES)
def test_the_page_says_the_same(name: str) -> None:
    """In its own section: the equation to the letter, the limit but for how it ends, and the paper's link."""
    text = PAGE.read_text("utf-8")
    (section,) = re.findall(rf"^## {name.capitalize()}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert f"\n`{module(name).EQUATION}`\n" in section
    assert module(name).LIMIT.rstrip(".") in flat(section)
    links = set(re.findall(r"https://[^\s),]+", module(name).__doc__ or ""))
    assert any(link in section for link in links) or name == "flow"
    assert f"(#{name})" in text.partition("## ")[0]


def test_the_page_runs() -> None:
    """From top to bottom; what the comment beside a value says is so."""
    torch.manual_seed(0)
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) == len(ANALYSES) + 3
    space: dict[str, Any] = {}
    told = 0
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), space)
        lines = [block.splitlines()[node.lineno - 1] for node in ast.parse(block).body if isinstance(node, ast.Expr)]
        for value, comment in (line.split("  # ") for line in lines):
            assert eval(value, space) == ast.literal_eval(comment), value
            told += 1
    assert told > len(ANALYSES)
