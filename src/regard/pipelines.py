"""Pipelines of another library, folders of folders: each is one model here."""

from dataclasses import replace
from pathlib import Path

import regard
from regard.descriptions import filled
from regard.modalities.pipelines import read_any_pipeline, read_pipeline
from regard.model import Model
from regard.zoo import empty_net


def load_pipeline(folder: Path) -> Model:
    whole = read_pipeline(folder)
    return filled(empty_net(whole.found.family, whole.found.config), whole.found, folder, None, whole.processor)


def converted_pipeline(source: Path, out: Path) -> Model:
    """The same, also from weights that ``load_pipeline`` does not read, with a card that says where from."""
    whole = read_any_pipeline(source)
    model = filled(empty_net(whole.found.family, whole.found.config), whole.found, source, None, whole.processor)
    card = (
        f"# {out.name}\n\nConverted by regard {regard.__version__} from the folder `{source}` (a pipeline of "
        "diffusers).\n\n- Data, licence and limitations are those of the source: see its documentation.\n"
    )
    return replace(model, card=model.card or card)
