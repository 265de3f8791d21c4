"""A model by what a user calls it: a shipped name, the folder of a run, or the folder of a model."""

from pathlib import Path
from shlex import quote

from regard.errors import InputError
from regard.model import Model, load
from regard.zoo import shipped


def named_model(name: str) -> Model:
    folder = Path(name)
    if name in shipped():
        return load(name)
    if (folder / "run.toml").is_file():
        if not (folder / "model").is_dir():
            raise InputError(
                "this run has no model: it is not finished, or its folder model/ is gone",
                where=name,
                fix=f"go on with it: regard resume {quote(name)}",
            )
        return load(folder / "model")
    if folder.exists():
        return load(folder)
    raise InputError(
        "there is no such model",
        got=name,
        expected=f"{', '.join(shipped()) or 'none'} (shipped), or the folder of a run or of a model",
    )
