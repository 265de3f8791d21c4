"""Time series as a medium."""

from regard.modalities.medium import Medium

SERIES = Medium(
    "series",
    "time series",
    example="regard.modalities.series.runners:example",
    sample="regard.modalities.series.medium:sample",
    argument="file",
)


def sample() -> list[float]:
    return [float(i % 7) for i in range(40)]
