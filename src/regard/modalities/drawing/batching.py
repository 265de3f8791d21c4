"""Images to be imitated, put into batches: those of image classifiers, whose labels nobody asks for."""

from dataclasses import replace

from regard.modalities.images.batching import image_batches
from regard.modalities.run_parts import OpenedData, ReadingLimits, RunPlan, SplitBatches

from .processor import Drawn


def drawn_data(opened: OpenedData) -> OpenedData:
    """What prepares images for a net is, for a generator, what makes images of what it gives; it knows no labels."""
    return replace(opened, prepared=Drawn(opened.prepared), names=())


def batches_to_imitate(plan: RunPlan, opened: OpenedData, reading: ReadingLimits) -> SplitBatches:
    return image_batches(plan, opened, replace(reading, processor=reading.processor.images))
