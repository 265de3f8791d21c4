"""What a command is given beyond single texts or images: the rows of a table, the lines of a file or a pipe, the images
of a folder. All of them are rows, each with its fields and what the model is given."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from regard.cli.piping import Follow, chunks, note

if TYPE_CHECKING:
    from regard.data.input_rows import InputRow
    from regard.modalities.medium import Medium
    from regard.model import Model

TABLES = (".csv", ".tsv", ".jsonl", ".json", ".txt")
PACKED = (".gz", ".xz")
LONGEST_NAME = 255  # of a file


class Source(Protocol):
    """Rows, and how many bytes of it were read before each; 0 where nobody knows."""

    @property
    def size(self) -> int: ...
    def size_before(self, row: "InputRow") -> int: ...
    def names(self) -> list[str]:
        """Of all fields."""

    def __iter__(self) -> "Iterator[InputRow]": ...


class GivenInputs:
    """Those of a command line, each of size 1, or the lines of a pipe."""

    def __init__(self, roles: Sequence[str], inputs: Sequence[tuple[str, ...]] | None) -> None:
        self.roles, self.inputs = list(roles), inputs
        self.size = len(inputs or ())

    def size_before(self, row: "InputRow") -> int:
        return row.line - 1 if self.size else 0

    def names(self) -> list[str]:
        return self.roles

    def __iter__(self) -> "Iterator[InputRow]":
        from regard.data.input_rows import row_of

        silent = Follow(None, 0)  # who asks tells how far it is
        piped = ((line,) for some in chunks(silent) for line in some) if self.inputs is None else ()
        rows = enumerate(self.inputs or piped, 1)
        return (row_of(i, dict(zip(self.roles, one, strict=False)), one, "") for i, one in rows)


class ImageTable:
    """A table that names images, which begin at its folder."""

    def __init__(self, table: "Source", folder: Path) -> None:
        self.table, self.folder, self.size = table, folder, table.size

    def size_before(self, row: "InputRow") -> int:
        return self.table.size_before(row)

    def names(self) -> list[str]:
        return self.table.names()

    def __iter__(self) -> "Iterator[InputRow]":
        return (row._replace(inputs=tuple(str(self.folder / one.strip()) for one in row.inputs)) for row in self.table)


def rows_given(
    loaded: "Model", verb: str, model: str, words: Sequence[str] | None, column: Sequence[str] | None, out: Path | None
) -> Source | None:
    """The rows of a table or of a folder of images, if one is given; of all that is given, if the answers go to a file.
    None where it is texts or images one by one. ``model`` is how the user names the model, which may be a run."""
    from regard.errors import InputError
    from regard.modalities.media import MEDIA
    from regard.modalities.verb_table import VERBS

    medium = MEDIA[loaded.takes[0]]
    files = medium.argument == "file"
    roles = VERBS[verb].roles or (medium.name,)
    table = table_among(words or (), files)
    if table is not None:
        return opened_table(table, roles, model, column or (), files)
    if column:
        raise InputError(
            "--column requires a table", got=f"--column {column[0]}", fix="give a .csv, .tsv or .jsonl file"
        )
    if medium.endings and any(os.path.isdir(word) for word in words or ()):
        return GivenInputs([medium.name], [(one,) for word in words or () for one in files_in(word, medium)])
    if words and not files:
        refuse_files(words, verb)
    if out is None:
        return None
    return GivenInputs(roles[:1], None if not words else [(word,) for word in words])


def table_among(words: Sequence[str], files: bool) -> Path | None:
    """The table that is given, which stands alone. A text that merely ends like the name of a table has spaces."""
    named = [word for word in words if is_table_name(word) and not (files and is_binary(word))]
    if not named:
        return None
    from regard.errors import InputError

    if not os.path.isfile(named[0]):
        what = "an image, or a table of images" if files else "a text, or a table with a text in each row"
        fix = "check the path" if files else "check the path; a text that looks like a path can be piped in"
        raise InputError("file not found", got=named[0], expected=what, fix=fix)
    if len(words) > 1:
        raise InputError(
            "a table cannot be combined with other inputs",
            got=", ".join(words[:3]) + (f" and {len(words) - 3} more" if len(words) > 3 else ""),
            fix="run the command once for each table or list",
        )
    return Path(named[0])


def is_table_name(word: str) -> bool:
    plain = word.lower()
    for ending in PACKED:
        plain = plain.removesuffix(ending)
    return plain.endswith(TABLES) and len(word) <= 8 * LONGEST_NAME and (" " not in word or os.path.isfile(word))


def is_binary(name: str) -> bool:
    """Whether a file is no text whatever its name says: images are known by what they hold."""
    if not os.path.isfile(name) or name.lower().endswith(PACKED):
        return False
    with open(name, "rb") as file:
        start = file.read(1 << 10)
    return b"\0" in start and not start.startswith((b"\xff\xfe", b"\xfe\xff"))


def refuse_files(words: Sequence[str], verb: str) -> None:
    """The name of a file is no text, although it could be read as one."""
    from regard.errors import InputError

    for word in words:
        if len(word) <= LONGEST_NAME and os.path.isdir(word):
            note(f"{word!r} is read as a text; there is a folder of this name, which is not read")
    for word in filter(is_file_name, words):
        raise InputError(
            f"`regard {verb}` takes the text itself, or a table with a text in each row",
            got=f"the file {word}",
            expected="a text, or a .csv, .tsv, .jsonl or .txt file",
            fix=f"to read the lines of this file, pipe them in: regard {verb} ... - < {word}",
        )


def is_file_name(word: str) -> bool:
    return "." in word and len(word) <= 8 * LONGEST_NAME and os.path.isfile(word)


def opened_table(path: Path, roles: Sequence[str], model: str, column: Sequence[str], files: bool) -> Source:
    from regard.data.input_columns import open_inputs
    from regard.run.trained_columns import columns_in_training

    asked = [int(name) if name.isdecimal() else name for name in column]
    table = open_inputs(path, roles, asked, () if asked else columns_in_training(model))
    if not table.columns:
        note(f"reading the lines of {path} ({table.format.encoding})")
        return ImageTable(table, path.parent) if files else table
    columns = f"column{'s' * (len(table.columns) > 1)} {' and '.join(map(repr, table.shown()))}"
    note(f"reading {columns} of {path} ({table.format.words()})")
    return ImageTable(table, path.parent) if files else table


def files_in(name: str, medium: "Medium") -> list[str]:
    """All files of a medium in a folder and the folders in it, by name; a file is itself."""
    if not os.path.isdir(name):
        return [name]
    from regard.data.locations import DataFolder
    from regard.errors import InputError

    place = DataFolder(Path(name))
    found = [one for one in place.names() if one.lower().endswith(medium.endings)]
    if not found:
        raise InputError(f"the folder has no {medium.plural}", where=name, expected=", ".join(medium.endings))
    return [str(place.path / one) for one in found]
