"""Adapters in a folder of their own: what was learned beside a model, without the model.

``adapter.json`` says which weights it was learned beside, by their SHA-256; ``adapter.safetensors`` holds the small
matrices, and what of the task's head is new.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from regard.descriptions import read_labels
from regard.errors import CheckpointError
from regard.interop.rules import check_tensors
from regard.model import Model
from regard.nn.adapter import adapt, adapter_state, merge
from regard.storage.atomic import save_folder
from regard.storage.digest import weights_digest
from regard.storage.documents import json_bytes, read_json
from regard.storage.tensors import open_weights
from regard.zoo import FAMILIES, config_data, read_config

FORMAT = 1
KEYS = ("format", "base", "rank", "alpha", "config", "labels", "task")


def save_adapters(
    model: Model, folder: Path, *, base: str, rank: int, alpha: float, added: Sequence[str], replace: bool = False
) -> None:
    """Of a model whose net still has its adapters; ``added`` are the other weights that its base lacks."""
    data = {
        "format": FORMAT,
        "base": base,
        "rank": rank,
        "alpha": alpha,
        "config": config_data(model.config),
        "labels": list(model.labels),
        "task": model.task,
    }
    state = model.net.state_dict()
    tensors = adapter_state(model.net) | {name: state[name] for name in added}
    save_folder(folder, {"adapter.json": json_bytes(data), "adapter.safetensors": tensors}, replace)


def adapted(base: Model, folder: str | Path) -> Model:
    """Load an adapter from a folder and merge it into a copy of the base model that it was trained on."""
    folder = Path(folder)
    where = folder / "adapter.json"
    data = read_json(where)
    if data.get("format") != FORMAT or data.keys() != set(KEYS):
        expected = f"format {FORMAT}, and {', '.join(KEYS)}"
        raise CheckpointError("not an adapter", where=str(where), got=", ".join(data)[:200], expected=expected)
    if (digest := weights_digest(base.state_dict())) != data["base"]:
        raise CheckpointError(
            "the adapter was trained on a different base model",
            where=str(where),
            got=f"a model with SHA-256 {digest}",
            expected=f"SHA-256 {str(data['base'])[:80]}",
            fix="load the model that it was trained on",
        )
    if not isinstance(data["config"], dict) or not isinstance(data["task"], str):
        raise CheckpointError("the adapter cannot be read", where=str(where), got="an invalid config or task")
    config = read_config(base.family, data["config"], str(where))
    labels = read_labels(data["labels"], FAMILIES[base.family].get(config, "classes") or 0, str(where))
    weights = open_weights(folder)
    places = sorted({name.removesuffix(".down") for name in weights.shapes() if name.endswith(".down")})
    net = FAMILIES[base.family].net(config)
    try:
        adapt(net, places, data["rank"], data["alpha"])
    except (ValueError, TypeError) as error:
        raise CheckpointError("the adapter does not fit the model", where=str(where), got=str(error)[:200]) from None
    fill(net, base, weights.read(torch.float32), places, str(folder))
    merge(net)
    return replace(base, net=net.eval(), task=data["task"], labels=labels)


def fill(net: nn.Module, base: Model, learned: dict[str, torch.Tensor], places: list[str], where: str) -> None:
    """The base's weights, beside those that were learned."""
    wanted = net.state_dict()

    def place(key: str) -> str:
        name, _, part = key.rpartition(".")
        return f"{name}.linear.{part}" if name in places else key

    kept = {place(key): x for key, x in base.state_dict().items() if place(key) in wanted}
    state = {**kept, **learned}
    shapes = [{name: tuple(x.shape) for name, x in table.items()} for table in (wanted, state)]
    check_tensors(shapes[0], shapes[1], where)
    net.load_state_dict(state, strict=True)
