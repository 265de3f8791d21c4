"""Series that code makes: a form that comes again, a trend, and noise.

    x_t = level + size * (trend t / n + sum over k of a_k cos(2 pi k t / period + phase_k) + noise e_t)
Level, size, trend, period and form are each series' own, so that what to look back at must be found in the window.
"""

import numpy as np

from regard.data.counter_rng import normal_samples, philox, uniform_samples

from .reading import TimeSeries
from .times import numbered

WAVES = 6  # the use of chance that is theirs, after those of data.draws


def wave(
    seed: int, number: int, length: int, periods: tuple[int, int], harmonics: int, noise: float, trend: float
) -> TimeSeries:
    """The series of a number; its form has the deviation 1."""
    numbers = philox(WAVES, seed, number)
    level, size, slope, place = uniform_samples(numbers, 4)
    sizes, phases = uniform_samples(numbers, harmonics), uniform_samples(numbers, harmonics)
    noises = normal_samples(numbers, length)
    period = periods[0] + place * (periods[1] - periods[0])
    t, order = np.arange(length), np.arange(1, harmonics + 1)
    sizes = (sizes + 0.1) / order
    form = sizes @ np.cos(2 * np.pi * (order[:, None] * t / period + phases[:, None]))
    form /= np.sqrt((sizes**2).sum() / 2)
    values = form + trend * (2 * slope - 1) * t / length + noise * noises
    return TimeSeries(f"wave {number}", 100 * level + 10 ** (2 * size) * values, numbered(length), "generated")
