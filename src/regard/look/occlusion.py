"""Occlusion: which part of an image an answer rests on, found by covering it.

Visualizing and Understanding Convolutional Networks (Zeiler and Fergus, 2014), https://arxiv.org/abs/1311.2901
    a(p) = f_c(x) - f_c(x with the square p replaced)
The square slides over the image, and a pixel gets the mean of all squares that covered it. Any classifier will do, for
nothing within it is asked. Two choices are objects: what is read from the answer (``probability`` or ``label_logit``; a
probability near 1 hides what a logit shows), and what covers a square (``grey_image``, ``average`` or ``blur``: grey is
itself something to be seen, a blur only takes away detail).

Shapes: c channels, h rows, w columns, k classes.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, pad

from regard.deprecation import resolve_renamed
from regard.errors import InputError

Net = Callable[[Tensor], Tensor]  # (b, c, h, w) -> (b, k)
Read = Callable[[Tensor], Tensor]  # (b, k) -> (b, k)
Cover = Callable[[Tensor], Tensor]  # (c, h, w) -> (c, h, w)

AT_ONCE = 64  # covered images in one batch

EQUATION = "a(p) = f(x) − f(x with the square p covered)"
LIMIT = "It does not show the effect of redundant regions, and the cover itself is a change of the image."


def probability(logits: Tensor) -> Tensor:
    return logits.softmax(-1)


def label_logit(logits: Tensor) -> Tensor:
    return logits


def grey_image(level: float) -> Cover:
    """Cover with a constant value; 0 is grey for normalised images."""
    return lambda image: torch.full_like(image, level)


def average(image: Tensor) -> Tensor:
    """Cover with the image's mean of each channel."""
    return image.mean((-2, -1), keepdim=True).expand_as(image)


def blur(width: int) -> Cover:
    """Cover with a box blur of ``width`` x ``width`` pixels; edges are replicated."""
    if width < 1 or width % 2 == 0:
        raise InputError("the blur width must be odd", got=f"width {width}", expected="an odd number of pixels")
    side = width // 2
    return lambda image: avg_pool2d(pad(image[None], (side,) * 4, "replicate"), width, 1)[0]


@torch.no_grad()
def occlusion_map(
    net: Net,
    image: Tensor,
    label: int,
    *,
    patch: int,
    stride: int | None = None,
    cover: Cover = average,
    read: Read = probability,
) -> Tensor:
    """Decrease of the answer ``label`` if a square of ``patch`` pixels is covered. Squares are ``stride`` pixels apart,
    by default side by side; the last ones end at the edge.

    (c, h, w) -> (h, w)
    """
    check_image(image)
    height, width = image.shape[-2:]
    stride = patch if stride is None else stride
    if not 1 <= patch <= min(height, width) or not 1 <= stride <= patch:
        raise InputError(
            "invalid patch or stride for this image",
            got=f"patch {patch}, stride {stride}, image {height} x {width}",
            expected="1 <= stride <= patch <= the smaller side of the image",
        )
    corners = [(top, left) for top in starts(height, patch, stride) for left in starts(width, patch, stride)]
    without, under = read(net(image[None]))[0, label], cover(image)
    total, count = image.new_zeros(height, width), image.new_zeros(height, width)
    for some in chunks(corners, AT_ONCE):
        covered = image.repeat(len(some), 1, 1, 1)
        for one, (top, left) in zip(covered, some, strict=True):
            inside = (..., slice(top, top + patch), slice(left, left + patch))
            one[inside] = under[inside]
        lost = without - read(net(covered))[:, label]
        for (top, left), loss in zip(some, lost, strict=True):
            total[top : top + patch, left : left + patch] += loss
            count[top : top + patch, left : left + patch] += 1
    return total / count


@torch.no_grad()
def deletion_curve(
    net: Net, image: Tensor, label: int, worth: Tensor, *, cover: Cover = average, read: Read = probability
) -> Tensor:
    """The answer as more and more cells of the image are covered, those with the highest ``worth`` first. The steeper
    the fall, the better ``worth`` identifies what matters.  (c, h, w), (rows, columns) -> (rows * columns + 1,)
    """
    check_image(image)
    (height, width), (rows, columns) = image.shape[-2:], worth.shape
    if height % rows or width % columns:
        got = f"{rows} x {columns} cells, image {height} x {width}"
        raise InputError("the image size is not a multiple of the number of cells", got=got)
    order = worth.flatten().argsort(descending=True, stable=True)
    rank = torch.empty_like(order)
    rank[order] = torch.arange(len(order), device=order.device)
    when = rank.view(rows, columns).repeat_interleave(height // rows, 0).repeat_interleave(width // columns, 1)
    under, found = cover(image), []
    for some in torch.arange(len(order) + 1, device=order.device).split(AT_ONCE):
        covered = torch.where(when < some[:, None, None, None], under, image)
        found.append(read(net(covered))[:, label])
    return torch.cat(found)


def check_image(image: Tensor) -> None:
    if image.ndim != 3:
        raise InputError("expected a single image", got=f"shape {tuple(image.shape)}", expected="(c, h, w)")


def starts(size: int, patch: int, stride: int) -> list[int]:
    """Where squares begin on a side; the last one ends with it."""
    return sorted({*range(0, size - patch + 1, stride), size - patch})


def chunks(items: list[tuple[int, int]], size: int) -> Iterator[list[tuple[int, int]]]:
    return (items[i : i + size] for i in range(0, len(items), size))


def __getattr__(name: str) -> object:
    return resolve_renamed(__name__, name, {"attribution": "regard.look.occlusion.occlusion_map"})
