"""Pipelines of another library, folders of folders: how they are known, and who reads and writes them.

Light: every folder is asked.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from .inputs import ModelView

if TYPE_CHECKING:
    from .drawing.pipeline_reading import WholePipeline

WRITTEN = ("diffusion",)  # families that are written so
INDEX, LORA = "model_index.json", "pytorch_lora_weights.safetensors"


def is_pipeline(folder: Path) -> bool:
    """Or what is applied to one, of which it can be said what to do."""
    return (folder / INDEX).is_file() or ((folder / LORA).is_file() and not (folder / "config.json").exists())


def read_pipeline(folder: Path) -> "WholePipeline":
    from regard.interop.pipeline_parts import stored_weights  # here, not above: the tables of another library

    from .drawing.pipeline_reading import read_whole

    return read_whole(folder, stored_weights)


def read_any_pipeline(folder: Path) -> "WholePipeline":
    """The same, also from weights that ``read_pipeline`` does not read."""
    from regard.interop.pipeline_parts import any_weights

    from .drawing.pipeline_reading import read_whole

    return read_whole(folder, any_weights)


def write_pipeline(model: ModelView, state: Mapping[str, Tensor], out: Path) -> dict[str, Tensor]:
    """A folder that the other library opens. Returns the tensors."""
    from .drawing.pipeline_writing import write_whole

    net: Any = model.net
    return write_whole(net.config, model.processor, state, out)


def check_pipeline(model: ModelView, folder: Path) -> dict[str, Any]:
    """Draw with the other library from a folder that was written, where it is installed; see ``PipelineCheck``."""
    from .drawing.pipeline_checking import drawn_there

    return vars(drawn_there(model, folder))
