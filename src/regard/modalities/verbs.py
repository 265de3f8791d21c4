"""How a model is asked: by the verb's row."""

from importlib import import_module
from typing import Any

from regard.errors import InputError

from .inputs import ModelView
from .verb_table import VERBS

# How one input is looked at by a model that no verb shows in a way of its own.
EXAMPLES = {"text": "regard.modalities.text.runners:example", "image": "regard.modalities.images.runners:example"}


def run_verb(model: ModelView, name: str, *given: Any) -> Any:
    """The answer to a verb, or a refusal that says which models can."""
    require_verb(model, name)
    return verb_function(VERBS[name].runners[model.takes[0]])(model, *given)


def require_verb(model: ModelView, name: str) -> None:
    if not model.can(name):
        verb = VERBS[name]
        fix = next((told for other, told in verb.instead.items() if model.can(other)), "")
        raise InputError(f"this {model.family} {verb.cannot}", got=got(model), expected=verb.use, fix=fix)


def got(model: ModelView) -> str:
    can = ", ".join(model.verbs()) or "no verb"
    return f"a model that supports: {can}" + (f"; its training task is {model.task}" if model.task else "")


def example_maker(model: ModelView) -> Any:
    """The function that makes an example of a model and its inputs."""
    own = (VERBS[name].example for name in model.verbs())
    return verb_function(next((place for place in own if place), "") or EXAMPLES[model.takes[0]])


def verb_function(place: str) -> Any:
    module, name = place.split(":")
    return getattr(import_module(module), name)
