"""The processor of a run that learns captions: images as the run file says, words as they are learned."""

from collections.abc import Mapping
from dataclasses import replace

from regard.decode.symbols import Symbols
from regard.modalities.run_parts import OpenedData, RunPlan, Size
from regard.modalities.text import preparation as text

from .processor import Captions


def processor_of(opened: OpenedData, files: Mapping[str, bytes]) -> Captions:
    return Captions(opened.prepared, text.processor_of(opened, files))


def sizes(plan: RunPlan, captions: Captions) -> dict[str, Size]:
    return text.sizes(plan, captions.text)


def symbols(plan: RunPlan, captions: Captions) -> Symbols:
    return text.symbols(plan, captions.text)


CAPTION_PREPARATION = replace(text.TEXT_PREPARATION, processor=processor_of, sizes=sizes, symbols=symbols)
GENERATED_CAPTION_PREPARATION = replace(
    text.GENERATED_TEXT_PREPARATION, processor=processor_of, sizes=sizes, symbols=symbols
)
