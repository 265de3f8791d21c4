"""Two looks side by side: how far apart their maps are, head by head.

Jensen-Shannon divergence (Lin, 1991), https://doi.org/10.1109/18.61115
    JS(p, q) = H((p + q) / 2) - (H(p) + H(q)) / 2        0 to 1 bit
of two rows that look at the same positions; of a head it is the mean over its rows.
"""

from typing import Any

import torch
from torch import Tensor

from regard.look.document import map_weights

from .looks import StoredLook
from .work import still_wanted


def compared(first: StoredLook, second: StoredLook) -> list[dict[str, Any]]:
    """Sites of one name, or else those that stand at the same place in their order, if their maps have one shape."""
    names = [site["name"] for site in second.document["sites"]]
    found = []
    for number, site in enumerate(first.document["sites"]):
        name = site["name"]
        other = name if name in names else names[number] if number < len(names) else None
        if other is None:
            continue
        still_wanted()
        with first.lock:
            one = map_weights(first.trace, name)
        with second.lock:
            two = map_weights(second.trace, other)
        if one.shape[1:] == two.shape[1:]:
            heads = [difference(one[h], two[h]) | {"first": h, "second": h} for h in range(min(len(one), len(two)))]
            found.append({"first": name, "second": other, "heads": heads})
    return found


def difference(one: Tensor, two: Tensor) -> dict[str, Any]:
    """(q, k) each"""
    still_wanted()
    return {"divergence": divergence(one, two), "largest": float((one - two).abs().max())}


def divergence(one: Tensor, two: Tensor) -> float | None:
    """In bits; rows without any weight have none, and weights below 0 are no shares."""
    if bool((one < 0).any()) or bool((two < 0).any()):
        return None
    sums = one.sum(-1), two.sum(-1)
    there = (sums[0] > 0) & (sums[1] > 0)
    if not bool(there.any()):
        return None
    p, q = ((x[there] / total[there, None]).double() for x, total in zip((one, two), sums, strict=True))
    found = entropy((p + q) / 2) - (entropy(p) + entropy(q)) / 2
    return float(found.clamp(min=0).mean())


def entropy(shares: Tensor) -> Tensor:
    return -torch.special.xlogy(shares, shares).sum(-1) / torch.log(torch.tensor(2.0, dtype=shares.dtype))
