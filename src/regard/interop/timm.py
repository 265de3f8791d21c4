"""What timm's folders say alike: config.json names the architecture, and in ``model_args`` what differs from it."""

from typing import Any, Protocol

from .foreign import Foreign


class Pictured(Protocol):
    @property
    def image(self) -> int: ...

    @property
    def channels(self) -> int: ...


def table(theirs: Foreign, key: str) -> dict[str, Any]:
    value = theirs.data.get(key, {})
    if isinstance(value, dict):
        return value
    theirs.guess(f"{key} = {value!r}"[:100] + " is not a table")
    return {}


def pictured(data: object, usual: Pictured) -> tuple[int, int]:
    """Channels and side of the images, where ``pretrained_cfg`` tells them: their input_size is (3, 224, 224)."""
    size = data.get("input_size") if isinstance(data, dict) else None
    plain = isinstance(size, list) and len(size) == 3 and all(type(x) is int and x > 0 for x in size)
    return (size[0], size[-1]) if isinstance(size, list) and plain else (usual.channels, usual.image)


def share(hidden: int, dim: int) -> float:
    """How they tell hidden units, by a share of the width: a number from which they get the same whole one."""
    found = hidden / dim
    return found if int(found * dim) == hidden else (hidden + 0.25) / dim


def opened(theirs: Foreign, architectures: list[str], pool: str = "avg") -> Foreign:
    """What all say of the whole, read; what ``model_args`` say is still to be read, and then to be closed."""
    architecture = theirs.take("architecture", str)
    if architecture not in architectures:
        theirs.guess(f"architecture = {architecture[:60]!r} is not supported, only {', '.join(architectures)}")
    theirs.expect("global_pool", pool)
    theirs.ignore("num_features")  # it tells nothing that the tensors do not
    theirs.ignore("label_names", "label_descriptions", "pretrained_cfg", "model_args")
    told = Foreign(table(theirs, "model_args"), theirs.tensors)
    told.expect("global_pool", pool)
    told.expect("drop_rate", 0, 0.0)
    told.expect("num_classes", theirs.data.get("num_classes"))
    return told


def closed(theirs: Foreign, told: Foreign) -> None:
    theirs.problems += [f"model_args: {problem}" for problem in told.finish()]
    theirs.guessed |= told.guessed


def written(architecture: str, classes: int, features: int, args: dict[str, Any], picture: Pictured) -> dict[str, Any]:
    """Their config.json."""
    size = [picture.channels, picture.image, picture.image]
    return {
        "architecture": architecture,
        "num_classes": classes,
        "num_features": features,
        "global_pool": "avg",
        **({"model_args": args} if args else {}),
        "pretrained_cfg": {"input_size": size, "fixed_input_size": True, "num_classes": classes},
    }
