"""A test double of the server: serves the page, and answers its API from real looks at the models that ship.

It knows no limits, no queue and no security; those are the real server's.  python -m tests.page.stub [PORT]
"""

import base64
import io
import json
import sys
import threading
from contextlib import suppress
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np
import torch
from PIL import Image

from regard.figures.table import FIGURES, RESULTS
from regard.look import onefile
from regard.nn.tap import capture

from . import looks

KINDS = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
GALLERY = Path(__file__).resolve().parents[2] / "docs" / "gallery"
NAMES = ("tatoeba-en-de", "tatoeba-de-en", "recall", "shakespeare", "digits")
LOCK = threading.RLock()
LOOKS: dict[str, Any] = {}


class RefusedError(Exception):
    def __init__(self, status: int, what: str, got: str = "", expected: str = "", fix: str = "") -> None:
        self.status = status
        self.words = {"error": {"what": what, "got": got, "expected": expected, "fix": fix}}


@cache
def model(name: str) -> Any:
    if name not in NAMES:
        raise RefusedError(404, "there is no such model", name, ", ".join(NAMES), "choose one of the list")
    return looks.load(name)


@cache
def seven() -> str:
    from sklearn.datasets import load_digits

    return looks.picture(load_digits().images[7] / 16)


@cache
def models() -> list[dict[str, Any]]:
    examples: dict[str, Any] = {
        "pair": {"kind": "pair", "source": "She has never seen such a big dog in her life."},
        "text": {"kind": "text", "text": "Anna sings . Boris paints . Anna"},
        "image": {"kind": "image", "png": seven()},
    }
    found = []
    for name in NAMES:
        facts = looks.about(name, model(name))
        example = examples[facts["takes"]]
        if name == "shakespeare":
            example = {"kind": "text", "text": "JULIET: O Romeo"}
        if name == "tatoeba-de-en":
            example = {"kind": "pair", "source": "Wo sind meine Schlüssel?"}
        found.append(facts | {"source": "shipped", "example": example})
    for name in ("vit-tiny", "gpt-small", "bert-base"):
        facts = {"name": name, "title": name, "family": name.partition("-")[0], "task": None, "takes": "text"}
        found.append(facts | {"parameters": 5700000, "source": "zoo", "example": examples["text"]})
    long = looks.Long(1, 1, 1).document["model"]
    return [*found, dict(long) | {"source": "run", "example": {"kind": "text", "text": "long"}}]  # type: ignore[call-overload]


def look(request: dict[str, Any]) -> Any:
    if request["model"] == "made-up-long":
        return LOOKS.setdefault("long", looks.Long())
    if request["input"]["kind"] == "text" and not request["input"]["text"].strip():
        raise RefusedError(422, "the text is empty", "0 tokens", "1 to 2,048 tokens", "write something")
    made = looks.Look(request, model)
    return LOOKS.setdefault(str(made.document["id"]), made)


def compared(first: Any, second: Any) -> list[dict[str, Any]]:
    found = []
    for one in first.document["sites"]:
        name = one["name"]
        if name not in second.arrays or first.arrays[name]["weights"].shape != second.arrays[name]["weights"].shape:
            continue
        a, b = first.arrays[name]["weights"], second.arrays[name]["weights"]
        heads = [
            {"first": h, "second": h, "divergence": divergence(a[h], b[h]), "largest": float(abs(a[h] - b[h]).max())}
            for h in range(len(a))
        ]
        found.append({"first": name, "second": name, "heads": heads})
    return found


def divergence(a: looks.Numbers, b: looks.Numbers) -> float:
    def bits(x: looks.Numbers) -> looks.Numbers:
        return -(x * np.log2(x.clip(1e-12))).sum(-1)  # type: ignore[no-any-return]

    return float((bits((a + b) / 2) - (bits(a) + bits(b)) / 2).mean())


ABOUT = {
    "rollout": ("R_l = (A_l + I)/2 · R_(l-1)", "It knows the weights alone, not what the values carried."),
    "distance": ("mean of Σ_j a_ij |i − j|", "A head that looks far need not bring anything from there."),
    "spectrum": ("A = U Σ V^T", "A low rank says nothing about which positions matter."),
    "occlusion": ("p(y | x) − p(y | x without j)", "Two tokens that say the same hide each other."),
    "gradient": ("A ⊙ dy/dA", "It holds for a small change only."),
    "importance": ("p(y) − p(y with head h at 0)", "Heads that stand in for each other all look idle."),
    "lens": ("softmax(W · norm(x_l))", "Early states need not speak the language of the last."),
}


def analysis(one: Any, name: str, asked: dict[str, str]) -> dict[str, Any]:
    if name not in ABOUT or not isinstance(one, looks.Look):
        raise RefusedError(404, "there is no such analysis of this look", name, ", ".join(ABOUT))
    numbers = {"rollout": rolled, "distance": distances, "spectrum": spectrum, "occlusion": occluded}
    numbers |= {"gradient": gradient, "importance": importance, "lens": lens}
    equation, limit = ABOUT[name]
    return {"name": name, "equation": equation, "limit": limit} | numbers[name](one, asked)


def rolled(one: looks.Look, asked: dict[str, str]) -> dict[str, Any]:
    site = asked["site"]
    part, axes = site.split(".")[0], one.rows_columns(site)
    if site.endswith("cross"):
        raise RefusedError(422, "rollout follows self-attention alone", site, "a site whose rows are its columns")
    layers = [name for name in one.arrays if name.split(".")[0] == part and one.rows_columns(name) == axes]
    total = np.eye(one.arrays[site]["weights"].shape[-1])
    for name in layers[: layers.index(site) + 1]:
        total = (one.arrays[name]["weights"].mean(0) / 2 + np.eye(len(total)) / 2) @ total
    return {"site": site, "map": total.tolist()}


def distances(one: looks.Look, asked: dict[str, str]) -> dict[str, Any]:
    found = {}
    for name, arrays in one.arrays.items():
        rows, columns = arrays["weights"].shape[1:]
        if rows != columns:
            continue
        places = np.arange(rows)
        if grid := one.axes[one.rows_columns(name)[0]]["grid"]:
            spots = np.stack(np.divmod(places, grid[1]), -1)
            gap = np.linalg.norm(spots[:, None] - spots[None], axis=-1)
        else:
            gap = abs(places[:, None] - places[None])
        found[name] = ((arrays["weights"] * gap).sum(-1).mean(-1)).tolist()
    return {"sites": found, "unit": "patches" if one.model.sees() else "tokens"}


def spectrum(one: looks.Look, asked: dict[str, str]) -> dict[str, Any]:
    singular = np.linalg.svd(one.map(asked["site"], asked["head"]), compute_uv=False)
    mass, share = np.cumsum(singular) / singular.sum(), singular / singular.sum()
    rank = float(np.exp(-(share * np.log(share.clip(1e-12))).sum()))
    head = asked["head"] if asked["head"] == "mean" else int(asked["head"])
    return {"site": asked["site"], "head": head, "singular": singular.tolist(), "mass": mass.tolist(), "rank": rank}


def best(answer: dict[str, Any]) -> tuple[str, float]:
    if answer["kind"] == "text":
        return answer["text"], float(np.exp(np.mean([token["logp"] for token in answer["tokens"]])))
    return tuple(answer["labels" if answer["kind"] == "labels" else "tokens"][0])  # type: ignore[return-value]


def odds(answer: dict[str, Any], name: str) -> float:
    if answer["kind"] == "text":
        return best(answer)[1]
    return float(dict(answer["labels" if answer["kind"] == "labels" else "tokens"]).get(name, 0.0))


def again(one: looks.Look, change: dict[str, Any]) -> dict[str, Any]:
    kept = one.arrays, one.axes
    answer = one.run([change])
    one.arrays, one.axes = kept
    return answer


def occluded(one: looks.Look, asked: dict[str, str]) -> dict[str, Any]:
    name, before = best(one.document["answer"])  # type: ignore[arg-type]
    axis = next(iter(one.axes))
    facts = one.axes[axis]
    worth = [
        before - odds(again(one, {"kind": "token", "axis": axis, "position": place}), name)
        for place in range(facts["size"])
    ]
    grid = facts["grid"]
    return {"worth": np.reshape(worth, grid).tolist() if grid else worth, "what": name}


def importance(one: looks.Look, asked: dict[str, str]) -> dict[str, Any]:
    name, before = best(one.document["answer"])  # type: ignore[arg-type]
    changed = {
        site: [
            before - odds(again(one, {"kind": "head", "site": site, "head": head, "factor": 0.0}), name)
            for head in range(len(arrays["weights"]))
        ]
        for site, arrays in one.arrays.items()
    }
    return {"sites": changed}


def gradient(one: looks.Look, asked: dict[str, str]) -> dict[str, Any]:
    if one.request["input"]["kind"] != "text":
        raise RefusedError(422, "this double knows the gradient of texts alone", one.request["model"])
    ids = one.model.text().encode([one.request["input"]["text"]], one.model.config.length, shortest=1).ids
    with capture(one.model.net, f"{asked['site']}.weights", grad=True) as kept:
        logits = one.model.net(ids)[0, -1]
    weights = kept[f"{asked['site']}.weights"][-1]
    (slope,) = torch.autograd.grad(logits.max(), weights)
    product = (weights * slope)[0]
    chosen = product.mean(0) if asked["head"] == "mean" else product[int(asked["head"])]
    return {"site": asked["site"], "map": chosen.tolist()}


def lens(one: looks.Look, asked: dict[str, str]) -> dict[str, Any]:
    if one.request["input"]["kind"] != "text":
        raise RefusedError(422, "this double has a lens for texts alone", one.request["model"])
    net, found = one.model.net, []
    ids = one.model.text().encode([one.request["input"]["text"]], one.model.config.length, shortest=1).ids

    def keep(module: Any, inputs: Any, output: torch.Tensor) -> None:
        found.append(output)

    hooks = [block.register_forward_hook(keep) for block in net.blocks]
    with torch.inference_mode():
        net(ids)
        odds_of = [net.logits(net.norm(state))[0].softmax(-1).max(-1) for state in found]
    for hook in hooks:
        hook.remove()
    layers = []
    for site, top in zip(one.arrays, odds_of, strict=True):
        names = [name.strip() for name in one.model.text().labels(top.indices.tolist())]
        layers.append({"site": site, "tokens": [list(pair) for pair in zip(names, top.values.tolist(), strict=True)]})
    return {"layers": layers}


@cache
def figures() -> list[dict[str, Any]]:
    found = []
    for name in list(FIGURES)[:40]:
        kept = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf8"))
        row = {key: kept[key] for key in ("id", "title", "claim", "command", "holds", "checks")}
        found.append(row | {"deck": " ".join(kept["decks"])})
    return found


def drawn(name: str) -> bytes:
    """The recorded picture, in an SVG: the real server draws it anew, which takes a second each."""
    if name not in FIGURES:
        raise RefusedError(404, "there is no such figure", name)
    raw = (GALLERY / f"{name}.png").read_bytes()
    with Image.open(io.BytesIO(raw)) as image:
        width, height = image.size
    size = f'width="{width}" height="{height}"'
    inside = f'<image {size} href="data:image/png;base64,{base64.b64encode(raw).decode()}"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {size}>{inside}</svg>'.encode()


class Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *words: object) -> None:
        pass

    def send(self, body: bytes, kind: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header(
            "Content-Security-Policy",
            "default-src 'self'; img-src 'self' data: blob:; style-src 'self'; script-src 'self'; object-src 'none'",
        )
        self.end_headers()
        self.wfile.write(body)

    def attempt(self, make: Any) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # a reader may leave before the answer is there
            self.answer(make)

    def answer(self, make: Any) -> None:
        try:
            made = make()
        except RefusedError as refused:
            return self.send(json.dumps(refused.words).encode(), "application/json", refused.status)
        if isinstance(made, tuple):
            return self.send(*made)
        if isinstance(made, bytes):
            return self.send(made, "application/octet-stream")
        return self.send(json.dumps(made).encode(), "application/json")

    def do_GET(self) -> None:
        self.attempt(self.get)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.attempt(lambda: self.post(body))

    def post(self, body: dict[str, Any]) -> Any:
        path = urlsplit(self.path).path.removeprefix("/api/v1")
        with LOCK:
            return self.made(path, body)

    def made(self, path: str, body: dict[str, Any]) -> Any:
        if path == "/look":
            return look(body).document
        if path == "/compare":
            if body["second"].get("attention"):
                raise RefusedError(422, "this double knows no other mechanism", body["second"]["attention"], "a model")
            first, second = look(body["first"]), look(body["second"])
            sites = compared(first, second)
            return {"first": first.document, "second": second.document, "sites": sites}
        raise RefusedError(404, "there is no such address", path)

    def get(self) -> Any:
        split = urlsplit(self.path)
        path, asked = unquote(split.path), {name: values[0] for name, values in parse_qs(split.query).items()}
        if not path.startswith("/api/v1/"):
            return self.file(path)
        match path.removeprefix("/api/v1/").split("/"):
            case ["models"]:
                return models()
            case ["figures"]:
                return figures()
            case ["figures", name]:
                return drawn(name.removesuffix(".svg")), KINDS[".svg"]
            case ["looks", identity, *rest] if identity in LOOKS:
                with LOCK:
                    return self.numbers(LOOKS[identity], rest, asked)
            case ["looks", *_]:
                raise RefusedError(410, "this look was dropped", "", "", "post it again")
        raise RefusedError(404, "there is no such address", path)

    def file(self, path: str) -> tuple[bytes, str]:
        found = (onefile.PAGE / (path.strip("/") or "index.html")).resolve()
        if onefile.PAGE.resolve() not in found.parents or not found.is_file():
            raise RefusedError(404, "there is no such file")
        return found.read_bytes(), KINDS[found.suffix]

    def numbers(self, one: Any, rest: list[str], asked: dict[str, str]) -> Any:
        match rest:
            case ["maps", site] if "level" in asked:
                return looks.in_bytes(looks.levels(one.map(site, asked["head"]), int(asked["level"])))
            case ["maps", site]:
                return one.map(site, asked["head"]).tobytes()
            case ["rows", site]:
                return one.map(site, asked["head"])[int(asked["row"])].tobytes()
            case ["thumbnails"]:
                return b"".join(
                    one.thumbnail(site["name"], str(head))
                    for site in one.document["sites"]
                    for head in range(site["heads"])
                )
            case ["cell", site]:
                return one.cell(site, int(asked["head"]), int(asked["row"]), int(asked["column"]))
            case ["analyses", name]:
                return analysis(one, name, asked)
            case ["export.html"]:
                return onefile.standalone(embedded(one)).encode(), KINDS[".html"]
        raise RefusedError(404, "there is no such number")


def embedded(one: looks.Look) -> dict[str, Any]:
    maps = {
        site: base64.b64encode(arrays["weights"].astype("<f2").tobytes()).decode()
        for site, arrays in one.arrays.items()
    }
    vectors = {
        site: {
            tap: base64.b64encode(arrays[tap].astype("<f4").tobytes()).decode() for tap in ("queries", "keys", "values")
        }
        for site, arrays in one.arrays.items()
    }
    return {"document": one.document, "maps": maps, "vectors": vectors}


def serve(port: int = 0) -> ThreadingHTTPServer:
    return ThreadingHTTPServer(("127.0.0.1", port), Answers)


if __name__ == "__main__":
    torch.set_num_threads(1)
    models()
    print(Path(onefile.PAGE).name, "at http://127.0.0.1:8123")
    serve(int(sys.argv[1]) if len(sys.argv) > 1 else 8123).serve_forever()
