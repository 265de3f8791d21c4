"""How the images of a run are prepared: as its settings say, or as the model was taught that it starts from."""

from dataclasses import replace
from typing import Any

from regard.errors import InputError
from regard.modalities.run_parts import Preparation, RunPlan, Size
from regard.models.family import Family
from regard.zoo import FAMILIES

from .processor import Images
from .survey import ImageSurvey, patch_for

MEAN_HELP = "pixel mean for normalisation (0 is black, 1 white): one value, or one per channel"
DEVIATION_HELP = "pixel standard deviation for normalisation: one value, or one per channel"
SIZE_HELP = "image size in pixels (both sides), for a model whose config does not set it; 0: as in the config"
FILES_SIZE_HELP = (
    SIZE_HELP + "; auto: size and colours as those of the images, at most 128 x 128, unless [model] sets them"
)
FIT_HELP = "images that are not square: stretch scales the whole image, crop takes the central square"
AUGMENT_HELP = "random augmentation of the training images"
HALF = (0.5,)
FOLLOW = "auto"
SMALL = 16  # side of the images of an example, for a net that takes any


def example_size(family: Family) -> dict[str, Any]:
    return {} if family.has("image") else {"size": SMALL}


def base_processor(plan: RunPlan) -> Images | None:
    """How images are prepared for the model that the run starts from."""
    processor = None if plan.start is None else plan.start.processor
    images = None if processor is None else processor.media.get("image")
    return images if isinstance(images, Images) else None


def image_settings(plan: RunPlan, asked: int = 0, found: ImageSurvey | None = None) -> Images:
    """As those of the model that the run starts from, unless it says otherwise; of the size that its config tells, or
    where that tells none, the data. If it shall follow from the images, ``found`` says how they are."""
    data, config = plan.data, plan.config
    usual = base_processor(plan) if data.as_usual() else None
    own = FAMILIES[plan.family].get(config, "image")
    channels = config.channels
    if found is not None:
        own, channels = plan.asked.get("image"), plan.asked.get("channels", found.channels)
        asked = asked or own or found.side()
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
        return replace(usual, size=size, shorter=None, channels=channels)
    try:
        return Images(size=size, fit=data.fit, channels=channels, mean=data.mean, std=data.deviation)
    except ValueError as error:
        raise InputError("invalid image preparation", where="data.mean, data.deviation", got=str(error)) from None


def sizes_of_images(plan: RunPlan, images: Images) -> dict[str, Size]:
    """What follows from the images of the config of a new model."""
    if not follows_images(plan) or images.size is None:
        return {}
    family = FAMILIES[plan.family]
    own = {"image": images.size, "channels": images.channels}
    if "image" not in plan.asked and isinstance(patch := family.get(plan.config, "patch"), int):
        own["patch"] = patch_for(images.size, patch)
    return {key: Size(0, value, key) for key, value in own.items() if family.get(plan.config, key) is not None}


def follows_images(plan: RunPlan) -> bool:
    """Whether a new model is made for the images as they are."""
    return plan.start is None and plan.data.size == FOLLOW


def source_processor(images: Images, area: float) -> Images:
    """How images are read of which parts of this area are cut out: whole, for a part of a small image would be
    blurred."""
    return images if area == 1 else replace(images, size=None, fit="stretch", shorter=None)


def not_deviations(deviation: tuple[float, ...] | None) -> list[str]:
    if deviation is None or all(x > 0 for x in deviation):
        return []
    return [f"deviation = {list(deviation)} is not above 0"]


IMAGE_PREPARATION = Preparation(sizes=sizes_of_images)
