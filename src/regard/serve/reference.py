"""The API's documentation, one page of HTML made from its OpenAPI schema: no script, nothing from elsewhere."""

import json
from collections.abc import Iterator
from html import escape
from typing import Any

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem; }
h2 { margin-top: 2.5rem; border-top: 1px solid; padding-top: 1rem; }
code, pre { font-family: ui-monospace, monospace; font-size: 0.9em; }
pre { overflow-x: auto; padding: 0.6rem; border: 1px solid; }
table { border-collapse: collapse; }
td, th { text-align: left; padding: 0.15rem 0.8rem 0.15rem 0; vertical-align: top; }
"""


def page(schema: dict[str, Any]) -> str:
    body = "\n".join(lines(schema))
    title = escape(schema["info"]["title"])
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head>\n'
        f"<body>\n{body}\n</body></html>\n"
    )


def lines(schema: dict[str, Any]) -> Iterator[str]:
    yield f"<h1>{escape(schema['info']['title'])} {escape(schema['info']['version'])}</h1>"
    yield f"<p>{escape(schema['info'].get('description', ''))}</p>"
    yield '<p>As data: <a href="openapi.json">openapi.json</a></p>'
    for path, methods in schema["paths"].items():
        for method, about in methods.items():
            yield f"<h2><code>{method.upper()} {escape(path)}</code></h2>"
            yield f"<p>{escape(about.get('description') or about.get('summary', ''))}</p>"
            yield from parameters(about.get("parameters", ()))
            body = about.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
            if body is not None:
                yield f"<p>Body: {named(body)}</p>"
            yield "<p>Answers: " + ", ".join(map(escape, about["responses"])) + "</p>"
    yield "<h2>Words</h2>"
    for name, about in schema.get("components", {}).get("schemas", {}).items():
        yield f'<h3 id="{escape(name)}">{escape(name)}</h3>'
        yield f"<p>{escape(about.get('description', ''))}</p>"
        yield f"<pre>{escape(json.dumps(about.get('properties', about), indent=1, ensure_ascii=False))}</pre>"


def parameters(rows: Any) -> Iterator[str]:
    if not rows:
        return
    yield "<table><tr><th>name</th><th>where</th><th>what</th></tr>"
    for row in rows:
        about = escape(json.dumps(row.get("schema", {}), ensure_ascii=False))
        yield f"<tr><td>{escape(row['name'])}</td><td>{escape(row['in'])}</td><td><code>{about}</code></td></tr>"
    yield "</table>"


def named(schema: dict[str, Any]) -> str:
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    return f'<a href="#{escape(name)}">{escape(name)}</a>' if name else f"<code>{escape(json.dumps(schema))}</code>"
