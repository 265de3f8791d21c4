"""The columns of a table that a model was given in its training, by the run that trained it."""

from pathlib import Path

from regard.data.table_format import find_format, table_options
from regard.errors import InputError
from regard.modalities.sources import source_of
from regard.zoo import shipped_names

from .fingerprints import RUN, named_files
from .training import read_begun


def columns_in_training(model: str) -> tuple[int | str, ...]:
    """By their names, where the training data has a header; none for a model without a run or a run without tables."""
    path = Path(model).absolute()
    folder = path.parent if path.name == "model" else path
    if model in shipped_names() or not (folder / RUN).is_file():
        return ()
    run = read_begun(folder)
    if (columns := source_of(run.data).columns) is None:
        return ()
    read = columns(run.data)
    given = read.columns[: read.inputs]
    files = named_files(run.data, "train")
    if len(files) != 1:  # plain texts side by side
        return ()
    if not Path(files[0]).is_file() or all(isinstance(column, str) for column in given):
        return given
    try:
        names = find_format(Path(files[0]), read.columns, read.roles, table_options(run.data)).names
    except InputError:  # it has changed since
        return given
    return given if names is None else tuple(x if isinstance(x, str) else names[x - 1] for x in given)
