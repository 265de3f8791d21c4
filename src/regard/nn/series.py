"""What nets that forecast a series share: windows of different lengths side by side, and quantiles.

Shapes: b batch, n places of a window, m steps ahead, k quantiles.
"""

from itertools import pairwise

from torch import Tensor

from .mask import fitted_keys


def move_padding_left(values: Tensor, keys: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Move padding to the left and set it to zero, so that the last position is the last known value.

    (b, n), bool (b, n) -> (b, n), bool (b, n)
    """
    if values.shape[1] == 0:
        raise ValueError(f"each window needs at least 1 value, got {values.shape[0]} windows of 0")
    keys = fitted_keys(keys, values)
    if keys is None:
        return values, None
    order = keys.byte().argsort(stable=True, dim=1)  # in each part, places keep their order
    keys = keys.take_along_dim(order, 1)
    return values.take_along_dim(order, 1).masked_fill(~keys, 0.0), keys


def quantile_losses(said: Tensor, wanted: Tensor, quantiles: Tensor) -> Tensor:
    """Quantile (pinball) loss, Koenker and Bassett (1978), https://doi.org/10.2307/1913643: max(q e, (q - 1) e) with e
    = target - forecast. Its mean is minimal at the q-quantile of the target.

    (..., k), (...), (k,) -> (..., k)
    """
    error = wanted[..., None] - said
    return (quantiles * error).maximum((quantiles - 1) * error)


def not_quantiles(config: object) -> list[str]:
    """For a config: the problems of its quantiles, which must increase between 0 and 1 and contain the median."""
    found = getattr(config, "quantiles", None)
    if found is None:
        return []
    told = f"quantiles = {list(found)}"
    rising = all(one < other for one, other in pairwise(found))
    if not found or not rising or not 0 < found[0] <= found[-1] < 1:
        return [f"{told} must increase and lie between 0 and 1"]
    return [] if 0.5 in found else [f"{told} must contain 0.5, the median, which is the point forecast"]
