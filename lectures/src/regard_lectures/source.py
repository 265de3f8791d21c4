"""A figure's file, read and not imported: its literals, its starts, and the digest of what makes its numbers."""

import ast
import hashlib
from collections.abc import Iterator
from functools import lru_cache

LITERALS = ("TITLE", "DECKS", "CLAIM", "EXPECTED", "FOUND", "COST", "SEED")
Definition = ast.FunctionDef | ast.ClassDef


@lru_cache(1)  # a row of the table asks for the literals of a file, and for its digest
def parsed(text: str) -> ast.Module:
    return ast.parse(text)


def literals(text: str) -> dict[str, object]:
    """Those of LITERALS that a module has."""
    return {name: ast.literal_eval(value) for name, value in constants(parsed(text)) if name in LITERALS}


def starts(text: str) -> list[int] | None:
    """The seeds of its starts: SEED alone, or SEEDS, which is a range or how many; None if another file knows."""
    found = dict(constants(parsed(text)))
    if "SEEDS" not in found:
        return [ast.literal_eval(found["SEED"])] if "SEED" in found and "SEEDS" not in names(parsed(text)) else None
    value = found["SEEDS"]
    if isinstance(value, ast.Call):
        return list(range(*(ast.literal_eval(word) for word in value.args)))
    counted = ast.literal_eval(value)
    first = ast.literal_eval(found["SEED"])
    return list(range(first, first + counted)) if isinstance(counted, int) else list(counted)


def digest(text: str) -> str:
    """SHA-256 of what ``compute`` needs of its own file: the syntax of it and of all that it names there.

    Docstrings, comments, layout, imports, types and assertions are no part of it, nor is what only draws or checks.
    """
    body = [node for node in parsed(text).body if not isinstance(node, ast.Import | ast.ImportFrom | ast.Expr)]
    homes = {name: node for node in body for name in defined(node)}
    needed, asked = set[str](), {"compute"}
    while asked:
        needed |= asked
        asked = {name for one in asked if one in homes for name in names(homes[one])} - needed
    kept = [node for node in body if not defined(node) or needed & set(defined(node))]
    return hashlib.sha256(repr([shape(node) for node in kept]).encode()).hexdigest()


def constants(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Names that a module gives to values, also several in one line."""
    for node in tree.body:
        if not isinstance(node, ast.Assign):
            continue
        target, value = node.targets[0], node.value
        if isinstance(target, ast.Name):
            yield target.id, value
        elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            yield from (
                (one.id, its) for one, its in zip(target.elts, value.elts, strict=True) if isinstance(one, ast.Name)
            )


def defined(node: ast.stmt) -> list[str]:
    """The names that a statement of a module makes."""
    if isinstance(node, Definition):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [
        part.id for target in targets if target is not None for part in ast.walk(target) if isinstance(part, ast.Name)
    ]


def names(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def shape(part: object) -> object:
    """A tree as plain lists, the same in every version of Python: fields that are empty are left out, so are types."""
    if isinstance(part, list):
        return [shape(one) for one in part if not (documents(one) or isinstance(one, ast.Assert))]
    if not isinstance(part, ast.AST):
        return part
    typed = {ast.arg: "annotation", ast.FunctionDef: "returns"}.get(type(part))
    fields = [
        (name, shape(value)) for name, value in ast.iter_fields(part) if value not in (None, []) and name != typed
    ]
    return [type(part).__name__, *fields]


def documents(part: object) -> bool:
    """A string that stands alone."""
    return isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant) and isinstance(part.value.value, str)
