"""Two looks side by side: how far apart their maps are, head by head.

Jensen-Shannon divergence (Lin, 1991), https://doi.org/10.1109/18.61115
    JS(p, q) = H((p + q) / 2) - (H(p) + H(q)) / 2        0 to 1 bit
of two rows that look at the same positions; of a head it is the mean over its rows.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from regard.look.document import map_weights

from .looks import StoredLook
from .schema import CompareRequest, LookRequest
from .work import still_wanted


def with_same_target(asked: CompareRequest, first: StoredLook, own: StoredLook) -> LookRequest:
    """What the second model is looked at with: of one input, the words that the first wrote to it are given to both.
    ``own`` is the second by itself."""
    target = first.document["input"].get("target")
    if target is None or asked.first.input != asked.second.input or first.about.takes != own.about.takes:
        return asked.second
    return asked.second.model_copy(update={"input": asked.second.input.with_target(target)})


def same_axis(one: Mapping[str, Any], two: Mapping[str, Any]) -> bool:
    """Whether two axes, each with its ``name``, hold the same positions of the same thing. Patches of a picture are
    where they are, in whichever layer; all else is what it is called."""
    parts = ("kind", "size", "grid", "special", "labels")
    return all(one[part] == two[part] for part in parts) and (one["grid"] is not None or one["name"] == two["name"])


def axes_of_site(look: StoredLook, name: str) -> list[dict[str, Any]]:
    site = next(site for site in look.document["sites"] if site["name"] == name)
    return [look.document["axes"][site[side]] | {"name": site[side]} for side in ("rows", "columns")]


def compare_looks(first: StoredLook, second: StoredLook) -> list[dict[str, Any]]:
    """Sites of one name, or else those that stand at the same place in their order, if their axes are the same."""
    names = [site["name"] for site in second.document["sites"]]
    found = []
    for number, site in enumerate(first.document["sites"]):
        name = site["name"]
        other = name if name in names else names[number] if number < len(names) else None
        if other is None or not all(map(same_axis, axes_of_site(first, name), axes_of_site(second, other))):
            continue
        still_wanted()
        with first.lock:
            one = map_weights(first.trace, name)
        with second.lock:
            two = map_weights(second.trace, other)
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
