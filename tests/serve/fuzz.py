"""Requests from the API's own schema: most as it says, some not at all."""

import string
from typing import Any

from hypothesis import strategies as st

from .conftest import INPUTS
from .pictures import hostile, shown

NAMES = ["recall", "recall", "digits", "run:stories"]
SITES = ["blocks.0.mixer", "blocks.1.mixer", "blocks.2.mixer"]
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(width=32) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)
WORDS = ["Anna", "sings", ".", "Boris", "paints", "dances", "Clara"]
TEXT = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join) | st.text(max_size=12)
PICTURES = st.sampled_from([shown()["png"], *hostile().values()])


class Fuzz:
    def __init__(self, schema: dict[str, Any], ids: list[str], hostile_share: int) -> None:
        self.parts, self.ids = schema["components"]["schemas"], ids
        self.share = hostile_share  # of twenty values, those that are anything at all
        self.known: dict[str, st.SearchStrategy[Any]] = {
            "model": st.sampled_from(NAMES),
            "png": PICTURES,
            "text": TEXT,
            "site": st.sampled_from(SITES),
            "axis": st.sampled_from(["tokens", "patches", "target"]),
            "attention": st.sampled_from([None, None, None, "performer", "local", "linformer", "x"]),
            "id": st.sampled_from(ids),
            "position": st.integers(0, 8),
            "head": st.sampled_from([0, 1, 2, 3]),
            "row": st.integers(0, 8),
            "column": st.integers(0, 8),
            "longest": st.integers(1, 4),
        }
        operations = [
            (method, path, about) for path, methods in schema["paths"].items() for method, about in methods.items()
        ]
        self.requests = st.sampled_from(operations).flatmap(self.request)

    def request(self, operation: Any) -> st.SearchStrategy[tuple[str, str, dict[str, Any], Any]]:
        method, path, about = operation
        rows = about.get("parameters", ())
        places = {row["name"]: self.named(row["name"], row["schema"]) for row in rows if row["in"] == "path"}
        if path.endswith("{id}.svg"):
            places["id"] = st.sampled_from(["2.1", "1.1", "9.9"]) | st.text(string.printable, max_size=6)
        asked = {row["name"]: self.named(row["name"], row["schema"]) for row in rows if row["in"] == "query"}
        needed = {row["name"] for row in rows if row.get("required")}
        query = st.fixed_dictionaries(
            {name: way for name, way in asked.items() if name in needed},
            optional={name: way for name, way in asked.items() if name not in needed},
        )
        body = about.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
        given = st.none() if body is None else self.value(body)
        return st.tuples(st.just(method), st.just(path), st.fixed_dictionaries(places), query, given).map(
            lambda x: (x[0], x[1].format(**{name: str(value) for name, value in x[2].items()}), x[3], x[4])
        )

    def named(self, name: str, schema: dict[str, Any]) -> st.SearchStrategy[Any]:
        if name in self.known:
            return self.sometimes(self.known[name])
        return self.value(schema)

    def sometimes(self, good: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.integers(0, 19).flatmap(lambda i: JUNK if i < self.share else good)

    def value(self, schema: dict[str, Any]) -> st.SearchStrategy[Any]:
        return self.sometimes(st.deferred(lambda: self.good(schema)))

    def good(self, schema: dict[str, Any]) -> st.SearchStrategy[Any]:
        if "$ref" in schema:
            return self.good(self.parts[schema["$ref"].rpartition("/")[2]])
        for several in ("anyOf", "oneOf"):
            if several in schema:
                return st.one_of(*(self.good(one) for one in schema[several]))
        if "const" in schema:
            return st.just(schema["const"])
        if "enum" in schema:
            return st.sampled_from(schema["enum"])
        match schema.get("type"):
            case "object":
                rows, needed = schema.get("properties", {}), set(schema.get("required", ()))
                return st.fixed_dictionaries(
                    {name: self.named(name, row) for name, row in rows.items() if name in needed},
                    optional={name: self.named(name, row) for name, row in rows.items() if name not in needed},
                )
            case "array":
                return st.lists(self.value(schema["items"]), max_size=3)
            case "integer":
                return st.integers(schema.get("minimum", 0), schema.get("maximum", 10))
            case "number":
                return st.floats(schema.get("minimum", 0.01), schema.get("maximum", 1.0), allow_nan=False)
            case "boolean":
                return st.booleans()
            case "null":
                return st.none()
            case "string" if "pattern" in schema:
                return st.from_regex(schema["pattern"], fullmatch=True)
        return st.text(max_size=schema.get("maxLength", 20) if schema.get("maxLength", 20) < 20 else 20)


def known_looks(client: Any, api: str) -> list[str]:
    """Some that the server has, and one that it has not."""
    bodies = [{"model": "recall", "input": INPUTS["recall"]}, {"model": "digits", "input": shown()}]
    return [client.post(f"{api}/look", json=body).json()["id"] for body in bodies] + ["0" * 20]
