"""A table of rows by name, each imported when it is first asked for."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Generic, TypeVar, cast

from regard.errors import InputError
from regard.plugins import look_further

Row = TypeVar("Row")


class Table(Mapping[str, Row], Generic[Row]):
    """``rows`` tells where each row stands, as "package.module:NAME", so that naming all of them imports none. A name
    that is not there is looked for in the packages that are installed beside the library."""

    def __init__(self, what: str, rows: Mapping[str, str | Row]) -> None:
        self.what = what
        self.rows: dict[str, str | Row] = dict(rows)

    def __getitem__(self, name: str) -> Row:
        if name not in self:
            raise KeyError(name)
        row = self.rows[name]
        if isinstance(row, str):
            module, attribute = row.split(":")
            row = self.rows[name] = cast(Row, getattr(import_module(module), attribute))
        return row

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __contains__(self, name: object) -> bool:
        if name not in self.rows:
            look_further()
        return name in self.rows

    def add(self, name: str, row: Row) -> None:
        """A row of one's own. None is replaced, so that a name means one thing."""
        if name in self.rows:
            raise InputError(f"this {self.what} already exists", got=name, fix="choose another name")
        self.rows[name] = row
