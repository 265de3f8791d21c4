"""Random numbers by address: what is drawn at one place never depends on what was drawn at another."""

import numpy as np
from numpy.typing import NDArray

ORDER, HOLDOUT, COLLATE, AUGMENT, MIX, SHAPES, IMAGES = range(7)  # each use has its own
WORD = 2**64


def philox(use: int, seed: int, step: int, row: int = 0) -> np.random.Philox:
    """The numbers of one use at one place, made by counting. ``numpy.random.Generator(chance(...))`` has distributions,
    which another version of numpy may draw otherwise; only ``random_raw`` is promised to stay as it is."""
    key = np.array([seed % WORD, step % WORD], np.uint64)
    return np.random.Philox(key=key, counter=np.array([0, 0, row % WORD, use], np.uint64))


def permutation(numbers: np.random.Philox, count: int) -> NDArray[np.int64]:
    """0 to count - 1 in a random order."""
    return np.argsort(numbers.random_raw(count), kind="stable")


def uniform_samples(numbers: np.random.Philox, count: int) -> NDArray[np.float64]:
    """Numbers from 0 to below 1, the same with every version of numpy."""
    return (np.asarray(numbers.random_raw(count)) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def normal_samples(numbers: np.random.Philox, count: int) -> NDArray[np.float64]:
    """Numbers from a normal distribution of mean 0 and deviation 1, each from one fraction."""
    from scipy.special import ndtri

    return np.asarray(ndtri(uniform_samples(numbers, count) + 2.0**-54))  # never 0, whose number is -inf


def beta_samples(numbers: np.random.Philox, a: float) -> float:
    """A share from the distribution Beta(a, a), from one fraction."""
    from scipy.special import betaincinv

    return float(betaincinv(a, a, uniform_samples(numbers, 1)[0]))
