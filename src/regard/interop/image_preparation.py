"""How images are cut and become numbers, as others write it beside a checkpoint: transformers in its file
preprocessor_config.json, timm in the ``pretrained_cfg`` of its config.json. Ours: the data of ``data.images.Images``.

A checkpoint says all of what its net computes without these, so what cannot be said in our words is no error here: the
model then does not know how images are prepared, and says so when it is asked to see one.
"""

import json
import reprlib
from collections.abc import Mapping
from math import floor
from typing import Any

PREPROCESSOR_FILE = "preprocessor_config.json"
FILTERS = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box"}  # Pillow's numbers
NAMES = ("ImageProcessorFast", "ImageProcessorPil", "ImageProcessor", "FeatureExtractor")  # what their kinds end with
USUAL = {"ViT": 2, "DeiT": 3, "ConvNext": 3, "Levit": 3, "Perceiver": 3, "CLIP": 3, "Detr": 2}  # where none is told
LARGE = 384  # from here on ConvNext stretches
READ = {"do_resize", "size", "resample", "do_center_crop", "crop_size", "crop_pct", "do_rescale", "rescale_factor"}
READ |= {"do_normalize", "image_mean", "image_std", "image_processor_type", "feature_extractor_type"}
IRRELEVANT = {"do_convert_rgb", "processor_class", "data_format", "input_data_format", "default_to_square", "device"}
IRRELEVANT |= {"return_tensors", "disable_grouping", "pad_size", "image_seq_length", "_valid_processor_keys"}
DETECTION = {"max_size", "format", "do_pad", "pad_and_return_pixel_mask", "do_convert_annotations"}
CUTTING = ("size", "do_center_crop", "crop_size", "crop_pct", "max_size")

Cut = dict[str, Any]  # size, fit and shorter


def from_transformers(data: Mapping[str, Any], channels: int) -> dict[str, Any] | None:
    """Ours, or None."""
    if unsupported_setting(data):
        return None
    kind = preparation_kind(data)
    found = {**(cut(kind, data) or {}), "filter": FILTERS[data.get("resample", USUAL[kind])]}
    found["margin"] = "round" if found.get("fit") == "within" else "floor"  # timm rounds; within, nothing is cut off
    return {"kind": "images", **found, "channels": channels, "mean": data["image_mean"], "std": data["image_std"]}


def preparation_kind(data: Mapping[str, Any]) -> str:
    told = type_of(data)
    return next((told.removesuffix(name) for name in NAMES if told.endswith(name)), "")


def type_of(data: Mapping[str, Any]) -> str:
    return str(data.get("image_processor_type", data.get("feature_extractor_type", "")))


def unsupported_setting(data: Mapping[str, Any]) -> str:
    """The first setting that is not supported, described; empty if all are supported."""
    kind = preparation_kind(data)
    if kind not in USUAL:
        return f"image_processor_type = {type_of(data)[:60]!r}; supported are {', '.join(USUAL)}, each with {NAMES[2]}"
    unknown = {key for key, value in data.items() if value not in (None, False)} - READ - IRRELEVANT
    unknown -= DETECTION if kind == "Detr" else set()  # how boxes are told, and that smaller images are filled up
    if unknown:
        return f"{described_keys(data, *sorted(unknown)[:3])}, which is not supported"
    if skipped := [key for key in ("do_resize", "do_rescale", "do_normalize") if not data.get(key, True)]:
        return f"{described_keys(data, *skipped)}, where only true is supported"
    factor = data.get("rescale_factor") or 1 / 255
    if type(factor) is not float or abs(factor * 255 - 1) > 1e-6:
        return f"{described_keys(data, 'rescale_factor')}, where only 1 / 255 is supported"
    number = data.get("resample", USUAL[kind])
    if type(number) is not int or number not in FILTERS:
        return (
            f"{described_keys(data, 'resample')}; supported are "
            f"{', '.join(f'{i} ({name})' for i, name in FILTERS.items())}"
        )
    if cut(kind, data) is None:
        given = described_keys(data, *(key for key in CUTTING if key in data)) or "no size"
        return f"{given}: not a supported form of size for {kind}"
    if not isinstance(data.get("image_mean"), list) or not isinstance(data.get("image_std"), list):
        return (
            f"{described_keys(data, 'image_mean', 'image_std')}, where each must be a list with one number per channel"
        )
    return ""


def described_keys(data: Mapping[str, Any], *keys: str) -> str:
    names = [key[:60] if key.isprintable() else ascii(key[:60]) for key in keys]
    return ", ".join(f"{name} = {reprlib.repr(data.get(key))}" for name, key in zip(names, keys, strict=True))


def sample(size: int | None, channels: int, *, detects: bool) -> str:
    """A line that would do, of this file: images of this size, black and white as -1 and 1."""
    kind: dict[str, Any] = {"image_processor_type": "ViTImageProcessor", "size": size or 224}
    if detects:
        square = {"shortest_edge": 800, "longest_edge": 1333}
        kind = {"image_processor_type": "DetrImageProcessor", "size": square}
    return json.dumps({**kind, "image_mean": [0.5] * channels, "image_std": [0.5] * channels})


def cut(kind: str, data: Mapping[str, Any]) -> Cut | None:
    """What of an image is seen: each kind has its own way of saying it."""
    size, middle = data.get("size"), data.get("do_center_crop", kind in ("DeiT", "Levit", "Perceiver", "CLIP"))
    square, edge = side(size), pixel_count(size.get("shortest_edge")) if isinstance(size, dict) else side(size)
    inner = side(data.get("crop_size"))
    if kind == "Detr":
        longest = size.get("longest_edge") if isinstance(size, dict) else None
        most = pixel_count(data.get("max_size") if longest is None else longest)
        return limited(edge, most) if edge and most else None
    if kind in ("ViT", "DeiT") and square:
        return stretched(inner, square) if middle and inner else None if middle else stretched(square, square)
    if kind == "Perceiver" and square and inner and middle:  # cut before it is scaled: only the outermost pixels differ
        return cropped(square, inner)
    if kind == "ConvNext" and edge and not data.get("do_center_crop"):
        share = data.get("crop_pct", 224 / 256)
        if edge >= LARGE:
            return stretched(edge, edge)
        return cropped(edge, int(edge / share)) if type(share) is float and 0.1 < share <= 1 else None
    if kind == "Levit" and edge and inner and middle:
        return cropped(inner, int(256 / 224 * edge))
    if kind == "CLIP" and edge and inner and middle:
        return cropped(inner, edge)
    return None


def stretched(size: int, both: int) -> Cut:
    return {"size": size, "fit": "stretch", "shorter": None if both == size else both}


def cropped(size: int, shorter: int) -> Cut:
    return {"size": size, "fit": "crop", "shorter": None if shorter == size else shorter}


def limited(shorter: int, longest: int) -> Cut | None:
    """Each keeps its form. Where both are the same, that is what the longer side becomes."""
    if shorter > longest:
        return None
    return {"size": longest, "fit": "within", "shorter": None if shorter == longest else shorter}


def pixel_count(value: object) -> int:
    """0 where it is none."""
    return value if type(value) is int and value >= 0 else 0


def side(value: object) -> int:
    """Of a square, which they tell as one number or as two; 0 where it is none."""
    if isinstance(value, dict):
        return pixel_count(value.get("height")) if value.get("height") == value.get("width") else 0
    return pixel_count(value)


def numbers(mean: object, std: object, channels: int, rest: dict[str, Any]) -> dict[str, Any] | None:
    if not isinstance(mean, list) or not isinstance(std, list):
        return None
    return {"kind": "images", **rest, "channels": channels, "mean": mean, "std": std}


def to_transformers(images: Mapping[str, Any]) -> dict[str, Any] | None:
    """The transformers form, or None: it supports only RGB images with a size."""
    size, both = images["size"], images["shorter"] or images["size"]
    if size is None or images["channels"] != 3:
        return None
    square = {"height": size, "width": size}
    kind: dict[str, Any] = {"image_processor_type": "ViTImageProcessor", "size": square}
    if images["fit"] == "crop":
        kind = {"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": both}}
        kind |= {"do_center_crop": True, "crop_size": square, "do_convert_rgb": True}
    elif images["fit"] == "within":
        kind = {"image_processor_type": "DetrImageProcessor", "format": "coco_detection", "do_pad": True}
        kind |= {"size": {"shortest_edge": both, "longest_edge": size}}
    elif both != size:
        kind = {"image_processor_type": "DeiTImageProcessor", "size": {"height": both, "width": both}}
        kind |= {"do_center_crop": True, "crop_size": square}
    number = next(number for number, name in FILTERS.items() if name == images["filter"])
    return {
        **kind,
        "do_resize": True,
        "resample": number,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": each(images["mean"], 3),
        "image_std": each(images["std"], 3),
    }


def each(values: list[float], channels: int) -> list[float]:
    return list(values) * channels if len(values) == 1 else list(values)


def from_timm(config: Mapping[str, Any], image: int | None = None) -> dict[str, Any] | None:
    """Ours, or None where it does not tell all of it. What is cut off is told as a share, so it can be said for another
    size too, ``image``: that of a net which was made for it, whatever its first weights were trained with."""
    data = config.get("pretrained_cfg", config)  # older folders have its keys in config.json itself
    if "architecture" not in config or not isinstance(data, dict):
        return None
    size, share, name, mode = (data.get(key) for key in ("input_size", "crop_pct", "interpolation", "crop_mode"))
    if not isinstance(size, list) or len(size) != 3 or not pixel_count(size[1]) or size[1] != size[2]:
        return None
    if type(share) not in (int, float) or not 0.1 < float(str(share)) <= 1 or name not in FILTERS.values():
        return None
    fits = {None: cropped, "center": cropped, "squash": stretched}
    if not isinstance(mode, str | None) or mode not in fits:
        return None
    own = image or size[1]
    rest = {**fits[mode](own, floor(own / float(str(share)))), "margin": "round", "filter": name}
    return numbers(data.get("mean"), data.get("std"), pixel_count(size[0]), rest)


def to_timm(images: Mapping[str, Any]) -> dict[str, Any] | None:
    """The timm form (``pretrained_cfg``), or None: it supports only square images."""
    size, both = images["size"], images["shorter"] or images["size"]
    if size is None or images["fit"] == "within" or floor(size / (share := size / both)) != both:
        return None
    return {
        "input_size": [images["channels"], size, size],
        "interpolation": images["filter"],
        "crop_pct": share,
        "crop_mode": "center" if images["fit"] == "crop" else "squash",
        "mean": each(images["mean"], images["channels"]),
        "std": each(images["std"], images["channels"]),
    }
