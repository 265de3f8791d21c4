"""Labels that a model is told when it is asked, where it compares images with texts."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from regard.errors import InputError


def with_labels(model: Any, labels: Sequence[str] | None) -> Any:
    """The same model with these texts as its labels; as it is where none are told."""
    if labels is None:
        return model
    if model.takes != ("image", "text") or not model.can("classify"):
        raise InputError(
            f"this {model.family} model cannot be told labels",
            got=f"labels: {', '.join(map(str, labels))}"[:100],
            expected="a model that compares images with texts, such as clip",
            fix="leave the labels out",
        )
    several = [] if isinstance(labels, str) else [one.strip() for one in labels]
    if not several or not all(several) or len(set(several)) != len(several):
        expected = "a list of at least one text, none of them empty or there twice"
        raise InputError("invalid labels", got=repr(labels)[:200], expected=expected)
    return replace(model, labels=tuple(several))
