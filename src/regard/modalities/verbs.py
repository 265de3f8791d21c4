"""How a model is asked: by the verb's row."""

from importlib import import_module
from typing import Any

from regard.errors import InputError

from .inputs import ModelView
from .media import MEDIA
from .verb import AnswerView
from .verb_table import VERBS


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


def answer_view(model: ModelView, name: str) -> AnswerView:
    """How the answers to a verb are shown. It is refused like the verb: there is none for what a model cannot do."""
    require_verb(model, name)
    found: AnswerView = verb_function(VERBS[name].views[model.takes[0]])
    return found


def example_maker(model: ModelView) -> Any:
    """The function that makes an example of a model and its inputs."""
    medium = model.takes[0]
    own = (VERBS[name].examples.get(medium, "") for name in model.verbs())
    return verb_function(next(filter(None, own), "") or MEDIA[medium].example)


def asked_example_maker(model: ModelView, name: str) -> Any:
    """The function that makes an example of a model and its inputs, as this verb reads them."""
    if name not in VERBS:
        raise InputError("unknown verb", got=name, expected=", ".join(model.verbs()) or "none: this model has no verbs")
    require_verb(model, name)
    medium = model.takes[0]
    return verb_function(VERBS[name].examples.get(medium) or MEDIA[medium].example)


def verb_function(place: str) -> Any:
    module, name = place.split(":")
    return getattr(import_module(module), name)
