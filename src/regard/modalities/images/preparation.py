"""How the images of a run are prepared: as its settings say, or as the model was taught that it starts from."""

from dataclasses import replace

from regard.errors import InputError
from regard.modalities.run_parts import RunPlan
from regard.zoo import FAMILIES

from .processor import Images

MEAN = "pixel mean for normalisation (0 is black, 1 white): one value, or one per channel"
DEVIATION = "pixel standard deviation for normalisation: one value, or one per channel"
SIZE = "image size in pixels (both sides), for a model whose config does not set it; 0: as in the config"
FIT = "images that are not square: stretch scales the whole image, crop takes the central square"
AUGMENT = "random augmentation of the training images"
HALF = (0.5,)


def base_processor(plan: RunPlan) -> Images | None:
    """How images are prepared for the model that the run starts from."""
    processor = None if plan.start is None else plan.start.processor
    images = None if processor is None else processor.media.get("image")
    return images if isinstance(images, Images) else None


def image_settings(plan: RunPlan, asked: int = 0) -> Images:
    """As those of the model that the run starts from, unless it says otherwise; of the size that its config tells, or
    where that tells none, the data."""
    data, config = plan.data, plan.config
    usual = base_processor(plan) if data.as_usual() else None
    own = FAMILIES[plan.family].get(config, "image")
    size = own or asked or (usual.size if usual is not None else None)
    if size is None:
        family = plan.family
        raise InputError(
            f"data.size is required: a {family} accepts images of any size",
            where="data.size",
            fix="set data.size, such as 32",
        )
    if own and asked and own != asked:
        got = f"data.size = {asked}, model.image = {own}"
        raise InputError("data.size and model.image differ", got=got, fix="remove data.size")
    if usual is not None:
        return replace(usual, size=size, shorter=None, channels=config.channels)
    try:
        return Images(size=size, fit=data.fit, channels=config.channels, mean=data.mean, std=data.deviation)
    except ValueError as error:
        raise InputError("invalid image preparation", where="data.mean, data.deviation", got=str(error)) from None


def source_processor(images: Images, area: float) -> Images:
    """How images are read of which parts of this area are cut out: whole, for a part of a small image would be
    blurred."""
    return images if area == 1 else replace(images, size=None, fit="stretch", shorter=None)


def not_deviations(deviation: tuple[float, ...] | None) -> list[str]:
    if deviation is None or all(x > 0 for x in deviation):
        return []
    return [f"deviation = {list(deviation)} is not above 0"]
