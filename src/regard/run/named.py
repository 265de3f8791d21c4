"""A model by what a user calls it: a shipped name, the folder of a run, or the folder of a model."""

from pathlib import Path

from regard.data.files import data_folder_hint, search_paths
from regard.errors import InputError
from regard.folders import load
from regard.model import Model
from regard.zoo import shipped_names


def named_model(name: str) -> Model:
    if name in shipped_names():
        return load(name)
    if Path(name).exists():
        return load(Path(name))
    raise InputError(
        "unknown model",
        got=name,
        expected=f"{', '.join(shipped_names()) or 'none'} (shipped), or the path to a run or model folder",
    )


def find_model(name: str, base: Path) -> str:
    """A shipped model by its name, a folder by its path."""
    if not name or name in shipped_names():
        return name
    places = search_paths(name, base)
    for place in places:
        if place.exists():
            return str(place)
    expected = "\n".join(
        [f"a shipped model ({', '.join(shipped_names())}), or one of these folders:", *map(str, places)]
    )
    raise InputError("unknown model", got=name, expected=expected, fix=data_folder_hint())
