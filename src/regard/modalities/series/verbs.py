"""What can be asked of a model of series."""

from regard.modalities.verb import Verb

FORECAST = Verb(
    "forecast",
    "Forecast the next values of the time series in a csv file: medians and intervals; optionally draw them.",
    {"series": "regard.modalities.series.runners:forecast"},
    answers={"series": "regard.modalities.series.forecaster:SeriesForecast"},
    command="regard.cli.forecast:run",
    cannot="cannot forecast",
    use="forecaster-small, series-lstm or series-linear",
    example="regard.modalities.series.runners:example",
)
