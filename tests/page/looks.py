"""Real looks for the stub server: what the shipped models see, computed with the library and kept in memory."""

import base64
import hashlib
import io
import json
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch
from PIL import Image

import regard
from regard.nn.tap import capture, listen

Numbers = np.ndarray[Any, np.dtype[Any]]
TAPS = ("weights", "queries", "keys", "values", "mixed")


def picture(array: Numbers, side: int = 8) -> str:
    """Grey levels 0 to 1 as the address of a PNG."""
    image = Image.fromarray((array * 255).astype("uint8")).resize((side, side))
    raw = io.BytesIO()
    image.save(raw, "PNG")
    return "data:image/png;base64," + base64.b64encode(raw.getvalue()).decode()


def opened(address: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(address.partition(",")[2])))


class Look:
    """One pass: the document, and all arrays by site."""

    def __init__(self, request: dict[str, Any], models: Callable[[str], Any]) -> None:
        self.request = request
        self.model = models(request["model"])
        self.changes: list[dict[str, Any]] = request.get("changes") or []
        self.arrays: dict[str, dict[str, Numbers]] = {}
        self.axes: dict[str, dict[str, Any]] = {}
        name = json.dumps(request, sort_keys=True).encode()
        identity = hashlib.sha256(name).hexdigest()[:16]
        answer = self.run(self.changes)
        before = None
        if self.changes:
            arrays, axes = self.arrays, self.axes
            before, self.arrays, self.axes = self.run([]), arrays, axes
        self.document = {
            "format": 1,
            "id": identity,
            "model": about(request["model"], self.model),
            "input": self.input,
            "changes": self.changes,
            "answer": answer,
            "before": before,
            "axes": self.axes,
            "sites": [self.site(name) for name in self.arrays],
        }

    def run(self, changes: list[dict[str, Any]]) -> dict[str, Any]:
        self.axes = {}
        with torch.inference_mode(), ExitStack() as within:
            for change in changes:
                for pattern, hear in heard(change, self.rows_columns):
                    within.enter_context(listen(self.model.net, pattern, hear))
            return {"pair": self.pair, "text": self.text, "image": self.image}[self.request["input"]["kind"]]()

    def rows_columns(self, site: str) -> tuple[str, str]:
        if site.startswith("encoder"):
            return "source", "source"
        if site.startswith("decoder"):
            return "target", "source" if site.endswith("cross") else "given"
        return ("patches", "patches") if self.model.sees() else ("tokens", "tokens")

    def record(self, inputs: list[torch.Tensor]) -> torch.Tensor:
        with ExitStack() as listening:
            kept = {tap: listening.enter_context(capture(self.model.net, f"*.{tap}")) for tap in TAPS}
            output: torch.Tensor = self.model.net(*inputs)
        sites = [name.rpartition(".")[0] for name in kept["weights"]]
        order = sorted(sites, key=lambda name: (name.startswith("decoder"), name.split(".")[1], name.endswith("cross")))
        self.arrays = {
            site: {tap: kept[tap][f"{site}.{tap}"][-1][0].numpy().astype("float32") for tap in TAPS} for site in order
        }
        return output

    def words(self, name: str, ids: list[int]) -> None:
        labels = [label.strip() for label in self.model.text().labels(ids)]
        self.axes[name] = {"kind": "text", "size": len(ids), "labels": labels, "grid": None, "special": 0}

    def pair(self) -> dict[str, Any]:
        source = self.request["input"]["source"]
        found = self.model.translate(source).nbest[0]
        translating = self.model.translating()
        (read,) = translating.encode([source])
        wrote = [*found.ids, translating.symbols.end[0]]
        given = [translating.begin, *wrote[:-1]]
        logits = self.record([torch.tensor([read]), torch.tensor([given])])[0]
        logp = logits.log_softmax(-1)[range(len(wrote)), wrote].tolist()
        self.words("source", list(read))
        self.words("target", wrote)
        self.words("given", given)
        self.input = {"kind": "pair", "source": source, "target": found.text}
        tokens = [{"text": t, "logp": p} for t, p in zip(self.axes["target"]["labels"], logp, strict=True)]
        return {"kind": "text", "text": found.text, "tokens": tokens}

    def text(self) -> dict[str, Any]:
        text = self.request["input"]["text"]
        ids = self.model.text().encode([text], self.model.config.length, shortest=1).ids
        logits = self.record([ids])[0, -1]
        self.words("tokens", ids[0].tolist())
        self.input = {"kind": "text", "text": text}
        top = logits.softmax(-1).topk(8)
        names = self.model.text().labels(top.indices.tolist())
        return {"kind": "next", "tokens": [[n.strip(), p] for n, p in zip(names, top.values.tolist(), strict=True)]}

    def image(self) -> dict[str, Any]:
        image = opened(self.request["input"]["png"]).convert("L")
        seen = self.model.seeing().take(image)
        odds = self.record([seen])[0].softmax(-1)
        side, patch = self.model.config.image, self.model.config.patch
        grid = side // patch
        self.axes["patches"] = {"kind": "image", "size": grid**2, "labels": None, "grid": [grid, grid], "special": 0}
        png = picture((seen[0, 0].numpy() + 1) / 2, side)
        self.input = {"kind": "image", "width": side, "height": side, "png": png}
        ranked = sorted(zip(self.model.labels, odds.tolist(), strict=True), key=lambda pair: -pair[1])
        return {"kind": "labels", "labels": [list(pair) for pair in ranked]}

    def site(self, name: str) -> dict[str, Any]:
        arrays = self.arrays[name]
        rows, columns = self.rows_columns(name)
        part, layer = name.split(".")[:2]
        heads, width = arrays["queries"].shape[0], arrays["queries"].shape[-1]
        role = "cross" if name.endswith("cross") else "self"
        facts = {"name": name, "part": "" if part == "blocks" else part, "role": role, "layer": int(layer)}
        facts |= {"heads": heads, "rows": rows, "columns": columns, "kind": "weights", "mechanism": "softmax"}
        return facts | {"arithmetic": True, "scale": width**-0.5, "calls": 1}

    def map(self, site: str, head: str) -> Numbers:
        weights = self.arrays[site]["weights"]
        return weights.mean(0) if head == "mean" else weights[int(head)]

    def thumbnail(self, site: str, head: str) -> bytes:
        return in_bytes(small(self.map(site, head)))

    def cell(self, site: str, head: int, row: int, column: int) -> dict[str, Any]:
        arrays = self.arrays[site]
        query, key, value = arrays["queries"][head, row], arrays["keys"][head], arrays["values"][head, column]
        weights, scale = arrays["weights"][head, row], query.shape[-1] ** -0.5
        masked = weights == 0
        scores = (key @ query) * scale
        return {
            "query": query.tolist(),
            "key": key[column].tolist(),
            "value": value.tolist(),
            "product": float(key[column] @ query),
            "scale": scale,
            "bias": 0.0,
            "score": float(scores[column]),
            "masked": bool(masked[column]),
            "scores": [None if hidden else float(x) for x, hidden in zip(scores, masked, strict=True)],
            "weights": weights.tolist(),
            "weight": float(weights[column]),
            "mixed": arrays["mixed"][head, row].tolist(),
        }


def heard(change: dict[str, Any], axes: Callable[[str], tuple[str, str]]) -> list[tuple[str, Any]]:
    """Where a change is made, and how."""
    if change["kind"] == "head":

        def quieter(name: str, x: torch.Tensor) -> torch.Tensor:
            factors = torch.ones(x.shape[1])
            factors[change["head"]] = change["factor"]
            return x * factors[:, None, None]

        return [(f"{change['site']}.mixed", quieter)]
    if change["kind"] == "temperature":

        def warmer(name: str, x: torch.Tensor) -> torch.Tensor:
            powers = x ** (1 / change["value"])
            return powers / powers.sum(-1, keepdim=True)

        return [(f"{change['site']}.weights", warmer)]

    def hidden(name: str, x: torch.Tensor) -> torch.Tensor | None:
        if axes(name.rpartition(".")[0])[1] != change["axis"] or x.shape[-1] <= change["position"]:
            return None
        x = x.clone()
        x[..., change["position"]] = 0
        return x / x.sum(-1, keepdim=True).clamp(min=1e-9)

    return [("*.weights", hidden)]


def about(name: str, model: Any) -> dict[str, Any]:
    size = sum(x.numel() for x in model.net.parameters())
    takes = "image" if model.sees() else "pair" if model.translates() else "text"
    facts = {"name": name, "title": name, "family": model.family, "task": model.task}
    return facts | {"parameters": size, "takes": takes}


class Long:
    """A made-up look of many tokens and heads: a band, its echoes, a sink. Not from a model."""

    def __init__(self, tokens: int = 2048, layers: int = 12, heads: int = 12) -> None:
        self.tokens, self.heads = tokens, heads
        labels = [f"t{index}" for index in range(tokens)]
        axis = {"kind": "text", "size": tokens, "labels": labels, "grid": None, "special": 0}
        site = {"part": "", "role": "self", "heads": heads, "rows": "tokens", "columns": "tokens", "kind": "weights"}
        site |= {"mechanism": "made up", "arithmetic": False, "scale": 1.0, "calls": 1}
        self.request = {"model": "made-up-long", "input": {"kind": "text", "text": "long"}}
        self.document = {
            "format": 1,
            "id": "long",
            "model": {"name": "made-up-long", "title": "made up", "family": "none", "task": None, "parameters": 0}
            | {"takes": "text"},
            "input": self.request["input"],
            "changes": [],
            "answer": {"kind": "none"},
            "before": None,
            "axes": {"tokens": axis},
            "sites": [site | {"name": f"blocks.{layer}.mixer", "layer": layer} for layer in range(layers)],
        }
        self.kept: dict[int, Numbers] = {}
        self.shrunk: dict[int, bytes] = {}

    def thumbnail(self, site: str, head: str) -> bytes:
        kind = self.kind(site, head)
        if kind not in self.shrunk:
            self.shrunk[kind] = in_bytes(small(self.map(site, head)))
        return self.shrunk[kind]

    def kind(self, site: str, head: str) -> int:
        """Few maps differ, so that the test is about the page and not about this."""
        return (int(site.split(".")[1]) * self.heads + (0 if head == "mean" else int(head))) % 3

    def map(self, site: str, head: str) -> Numbers:
        kind = self.kind(site, head)
        if kind not in self.kept:
            gap = np.arange(self.tokens, dtype="float32")
            scores = 5 * np.exp(-(gap**2) / (20 + 30 * kind)) + 3 * np.exp(-(((gap % 256) - 128) ** 2) / 60)
            line = np.concatenate([np.exp(scores[::-1]), np.zeros(self.tokens - 1, dtype="float32")])
            powers = np.lib.stride_tricks.sliding_window_view(line, self.tokens)[::-1].copy()  # by the gap alone
            powers[:, :2] *= np.exp(kind + 1)
            self.kept[kind] = powers / powers.sum(-1, keepdims=True)
        return self.kept[kind]

    def cell(self, site: str, head: int, row: int, column: int) -> dict[str, Any]:
        weights = self.map(site, str(head))[row]
        equation = "a made-up band, its echoes and a sink"
        return {"weights": weights.tolist(), "weight": float(weights[column]), "equation": equation}


def halved(x: Numbers) -> Numbers:
    """The larger of each 2 x 2 survives."""
    rows, columns = x.shape
    x = np.pad(x, ((0, rows % 2), (0, columns % 2)))
    found: Numbers = np.maximum(np.maximum(x[::2, ::2], x[1::2, ::2]), np.maximum(x[::2, 1::2], x[1::2, 1::2]))
    return found


def levels(x: Numbers, count: int) -> Numbers:
    for _ in range(count):
        x = halved(x)
    return x


def small(x: Numbers) -> Numbers:
    while max(x.shape) > 64:
        x = halved(x)
    return x


def in_bytes(x: Numbers) -> bytes:
    return bytes((255 * np.sqrt(x) + 0.5).astype("uint8").tobytes())


def load(name: str) -> Any:
    return regard.load(name)
