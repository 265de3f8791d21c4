"""A model by what a user calls it: a shipped name, the folder of a run, or the folder of a model."""

from pathlib import Path

from regard.data.files import data_folder_hint, search_paths
from regard.errors import InputError
from regard.folders import load
from regard.model import Model
from regard.zoo import shipped_names


def load_finished_model(name: str) -> Model:
    """What a run starts or learns from: that of an unfinished run would change while it goes on."""
    folder = Path(name)
    if name not in shipped_names() and (folder / "run.toml").is_file() and not (folder / "model").is_dir():
        raise InputError(
            "the run has no model: it is not finished",
            where=name,
            fix="finish it, or use a copy of its best checkpoint so far: regard.save(regard.load(run), folder)",
        )
    return load(name)


def find_model_folder(name: str, base: Path) -> str:
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
