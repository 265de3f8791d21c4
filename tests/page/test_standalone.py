"""The page in one piece: all modules in one scope, and nothing that a name would hide."""

import json
import re
from pathlib import Path

import pytest

from regard.look import standalone

COMMENTS = re.compile(r"/\*\*.*?\*/|^ *//.*?$", re.DOTALL | re.MULTILINE)


def test_the_modules_of_the_page_share_one_scope():
    for entry in ("widget.js", "js/standalone.js", "js/app.js"):
        text = standalone.module(entry)
        assert not re.search(r"^import\b", text, re.M)
        assert len(re.findall(r"^export\b", text, re.M)) == (entry == "widget.js")  # the widget's default alone


def test_each_module_comes_after_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(standalone, "PAGE", tmp_path)
    (tmp_path / "c.js").write_text("export const third = 3;\n")
    (tmp_path / "b.js").write_text("import { third } from './c.js';\nexport const second = third - 1;\n")
    (tmp_path / "a.js").write_text(
        "import { second } from './b.js';\nimport {\n  third,\n} from './c.js';\nconsole.log(second, third);\n"
    )
    assert standalone.module("a.js") == "const third = 3;\n\nconst second = third - 1;\n\nconsole.log(second, third);\n"


@pytest.mark.parametrize(
    ("first", "second", "word"),
    [
        ("import { same } from './b.js';\nconst other = 1;\n", "export const same = 1;\nconst other = 2;\n", "other"),
        ("import { same as mine } from './b.js';\n", "export const same = 1;\n", "renames"),
        ("import { same } from './b.js';\n", "import './a.js';\nexport const same = 1;\n", "imports itself"),
        ("import { same } from 'https://elsewhere.example/b.js';\n", "", "no file beside"),
        ("export * from './b.js';\n", "", "cannot be joined"),
        ("import everything from './b.js';\n", "", "cannot be joined"),
    ],
)
def test_what_cannot_be_joined_is_refused(
    first: str, second: str, word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(standalone, "PAGE", tmp_path)
    (tmp_path / "a.js").write_text(first)
    (tmp_path / "b.js").write_text(second)
    with pytest.raises(ValueError, match=word):
        standalone.module("a.js")


def test_data_cannot_end_its_script():
    hostile = "</script><script>alert(1)</script>"
    text = standalone.standalone_page({"document": {"input": {"text": hostile}}}, title=hostile)
    assert hostile not in text
    inside = text.split('id="regard-data">')[1].split("</script>")[0]
    assert json.loads(inside)["document"]["input"]["text"] == hostile


def test_nothing_of_the_page_is_foreign():
    """No other host, no build step, no data as HTML, small files."""
    for path in standalone.PAGE.rglob("*"):
        if path.is_dir():
            continue
        text = path.read_text(encoding="utf8")
        rest = text.replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in rest, path.name
        assert "https://" not in rest, path.name
        assert "innerHTML" not in text, path.name
        assert "eval(" not in text, path.name
        if path.suffix == ".js":
            plain = COMMENTS.sub("", text)  # types stand in comments
            assert len([line for line in plain.splitlines() if line.strip()]) < 200, path.name
