"""A generator, asked: for images of a seed, or for an example to look at."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from regard.errors import InputError
from regard.look.examples import Example
from regard.modalities.inputs import ModelView, check_count

from .drawer import DrawnImage, NoiseDrawer
from .examples import drawn_from_seed
from .medium import is_seed
from .processor import Drawn
from .settings import Drawing

LARGEST_SEED = 2**63


def drawer_of(model: ModelView) -> NoiseDrawer:
    if not isinstance(model.processor, Drawn):
        fix = "add one: dataclasses.replace(model, processor=regard.modalities.drawing.processor.Drawn(...))"
        raise InputError("this model has no processor for drawn images", fix=fix)
    return NoiseDrawer(model.net, model.processor)


def seed_of(given: object) -> int:
    """A whole number; as a text, too, as a command line has it."""
    text = str(given).strip() if is_seed(given) or isinstance(given, str) else ""
    if not (text.isascii() and text.isdecimal()) or len(text) > 19 or int(text) >= LARGEST_SEED:
        raise InputError("the input is not a seed", got=repr(given)[:100], expected="a whole number from 0, such as 3")
    return int(text)


def draw(model: ModelView, given: Any = None, how: Drawing | None = None) -> list[DrawnImage]:
    """Of noise: what is given is the seed, if it is not among the settings."""
    how = Drawing() if how is None else how
    if how.in_steps:
        raise InputError(
            f"this {model.family} draws from noise in one step",
            got=", ".join(how.in_steps),
            fix="leave these settings out, or use a model that draws from text, such as diffusion",
        )
    if given is not None:
        how = replace(how, seed=seed_of(given))
    return list(drawer_of(model).draw(how))


def example(model: ModelView, given: Sequence[Any]) -> Example:
    check_count(model, given, 1)
    return drawn_from_seed(drawer_of(model), seed_of(given[0]))
