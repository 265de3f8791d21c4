"""Run files that mean harm, or are damaged: read or refused, in time."""

from pathlib import Path

import pytest

from regard.errors import ConfigError
from regard.train.runfile import BIGGEST, read, read_file
from regard.train.toml_lines import DEEPEST
from tests.train.runfiles import LEAST, Run, problems


def complaint(text: str) -> str:
    """The one line of a file that is not even TOML."""
    with pytest.raises(ConfigError) as caught:
        read(Run, text, "run.toml")
    assert "\n" not in caught.value.what
    return caught.value.what


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("a = 1\nb = = 2", 2, "Invalid value (at column 5)"),
        ("a = 1\na = 2", 2, "Cannot overwrite a value"),
        ('a = 1\nb = "x\n', 2, "Illegal character '\\n'"),
        ("a = 1\nb = [1,\n2\n", 3, "Unclosed array (at the end of the file)"),
        ("a = 1\n\n[t\n", 3, "Expected ']'"),
        ("a = 1\nb\x07 = 2", 2, "Expected '='"),
        ('a = "\x1b[31m"', 1, r"Illegal character '\x1b'"),
    ],
)
def test_what_is_no_toml(text: str, line: int, reason: str) -> None:
    what = complaint(text)
    assert what.startswith(f"run.toml:{line}: invalid TOML: ")
    assert reason in what
    assert what.isprintable()


@pytest.mark.parametrize(
    "nested",
    [
        "x = " + "[" * 100_000,
        "x = " + "[" * 40 + "]" * 40,
        "x = " + "{a=" * 40 + "1" + "}" * 40,
        "x = " + "{a=[" * 100_000,
        ".".join("a" * 100_000) + " = 1",
        "[" + ".".join("a" * 100_000) + "]",
        f"[{'.'.join('a' * 30)}]\n{'.'.join('a' * 30)} = 1",
    ],
    ids=["lists", "closed", "tables", "both", "key", "header", "together"],
)
def test_deep_nesting(nested: str) -> None:
    line = 2 + nested.count("\n")
    assert complaint(LEAST + nested) == f"run.toml:{line}: nested deeper than {DEEPEST} levels"


def test_endless_numbers() -> None:
    assert complaint("a = 1\nseed = " + "9" * 5000) == "run.toml:2: unquoted value of 5000 characters"
    assert complaint("seed = 0x" + "f" * 5000).startswith("run.toml:1: unquoted value of 5002 characters")
    assert problems(LEAST + "seed = 9999999999999999") == ["run.toml:2: seed: 9999999999999999 is too large"]
    assert problems(LEAST + "model.x = " + "9" * 30) == [f"run.toml:2: model.x: {'9' * 30} is too large"]
    assert problems(LEAST + "train.clip = 1e999") == ["run.toml:2: train.clip: inf is not a finite number"]
    assert problems(LEAST + "model.x = [{y = -nan}]") == ["run.toml:2: model.x[0].y: nan is not a finite number"]


def test_keys_are_shown_safely() -> None:
    (line,) = problems(LEAST + '[train]\n"\\u001b[31m\\n\\u202e" = 1\n')
    assert line.startswith(r"run.toml:3: train.'\x1b[31m\n\u202e': unknown key; valid keys are")
    (line,) = problems(LEAST + f"[train]\n{'k' * 100_000} = 1")
    assert len(line) < 300
    (line,) = problems(LEAST + f"seed = '{'k' * 100_000}'")
    assert len(line) < 300


def test_a_large_file(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text(LEAST + "#" * BIGGEST)
    with pytest.raises(ConfigError, match=r"run\.toml: the run file is too large"):
        read_file(Run, file)
    file.write_text(LEAST + "#" * (BIGGEST - len(LEAST)))
    assert read_file(Run, file) == read(Run, LEAST, "run.toml")


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(f"k{i} = 1" for i in range(20_000)),
        "x = [" + "1," * 50_000,
        'x = "' + '\\"' * 100_000,
        'x = """' + '""' + 'a""' * 100_000,
        "x = '''" + "'a" * 100_000,
        "# " * 100_000,
        "[[a]]\n" * 20_000,
        '"' + "\\\\" * 100_000,
        " " * 200_000,
        "x = " + "1" * 1_000_000,
    ],
)
def test_no_file_takes_for_ever(text: str) -> None:
    """A pattern that goes back and forth, or a list that is copied for each item, would not end."""
    with pytest.raises(ConfigError):
        read(Run, text, "run.toml")


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_bytes(b"\xef\xbb\xbf" + LEAST.encode())
    assert read_file(Run, file).data.train == "a.tsv"
    file.write_bytes(b"a = 1\nb = '\xe4'\n")
    with pytest.raises(ConfigError, match=r"run\.toml:2: the file is not valid UTF-8\n  got: byte 0xe4"):
        read_file(Run, file)
    file.write_bytes(LEAST.encode("utf-16"))
    with pytest.raises(ConfigError, match="UTF-16"):
        read_file(Run, file)
    with pytest.raises(FileNotFoundError):
        read_file(Run, tmp_path / "none.toml")
