"""Where a model looked while it wrote: maps whose rows are the words that came out.

Shapes: n words that were written, m words that were read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from regard.look.maps import Map, axes_of, side_by_side
from regard.modalities.inputs import ModelView
from regard.nn.axis import Axis
from regard.zoo import FAMILIES

from .processor import Text
from .translator import TranslationModel
from .writing import GeneratedText


def aligned_maps(
    model: ModelView, translating: TranslationModel, source: str, found: GeneratedText, pattern: str
) -> dict[str, Map]:
    """The rows are the words that were written, each looking at what it was made from: of a text that was read in
    parts, at its own part alone."""
    sources = [part.text for part in translating.parts(source)] if found.parts else [source]
    wrote = found.parts or (found,)
    maps = [
        aligned(model, translating, text, one, pattern) for text, one in zip(sources, wrote, strict=True) if one.ids
    ]
    return {name: side_by_side([own[name] for own in maps]) for name in (maps[0] if maps else {})}


def aligned(
    model: ModelView, translating: TranslationModel, source: str, found: GeneratedText, pattern: str
) -> dict[str, Map]:
    """The same of one part."""
    (read,), wrote = translating.encode([source]), [*found.ids, translating.symbols.end[0]]
    given = torch.tensor([[translating.begin, *wrote[:-1]]])
    with torch.inference_mode():
        looked = model(torch.tensor([read]), given, look=pattern)
    return name_written_rows(model, translating.text, looked.maps, wrote)


def name_written_rows(model: ModelView, text: Text, maps: Mapping[str, Map], wrote: Sequence[int]) -> dict[str, Map]:
    """Maps of a decoder, their rows named by the words that were written there, not by those that were given."""
    written, table = Axis("text", len(wrote), labels=text.sequence_labels(list(wrote))), FAMILIES[model.family].axes
    return {
        name: replace(one, rows=written) if axes_of(name, table)[0] == "target" else one for name, one in maps.items()
    }
