"""Which plug-ins a model or a run is made with: what its folder records, and asks for when it is opened again."""

from typing import Any, get_type_hints

from regard.model import Model
from regard.nn.mechanisms import Choice
from regard.plugins import REGISTERED, PluginSource, plugin_of


def model_plugins(model: Model) -> list[dict[str, str]]:
    """The plug-ins that its family, its attentions, its processor and its task came from."""
    return recorded(rows_of_model(model)) if REGISTERED else []


def run_plugins(model: Model, task: str, data: str) -> list[dict[str, str]]:
    return recorded([*rows_of_model(model), ("task", task), ("kind of data", data)]) if REGISTERED else []


def rows_of_model(model: Model) -> list[tuple[str, object]]:
    rows: list[tuple[str, object]] = [("model family", model.family), ("task", model.task)]
    rows += [("attention", name) for name in attentions(model.config)]
    if model.processor is not None:
        rows.append(("processor", model.processor.to_data().get("kind")))
    return rows


def recorded(rows: list[tuple[str, object]]) -> list[dict[str, str]]:
    found: list[PluginSource | None] = [plugin_of(what, name) for what, name in rows]
    return [source.data() for source in dict.fromkeys(found) if source is not None]


def attentions(config: Any) -> list[str]:
    """The names of all attentions that a config picks."""
    hints = get_type_hints(type(config))
    keys = [key for key, hint in hints.items() if hint in (Choice, Choice | None)]
    found = []
    for choice in (getattr(config, key) for key in keys):
        for one in choice if isinstance(choice, list | tuple) else [choice]:
            name = one.get("kind") if isinstance(one, dict) else one
            found += [name] if isinstance(name, str) else []
    return list(dict.fromkeys(found))
