"""Series in csv files."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from regard.data.files import find_file
from regard.modalities.run_parts import DataKind, OpenedData, RunPlan
from regard.modalities.series.processor import Scaling
from regard.modalities.series.reading import SeriesColumns, read_series
from regard.nn.config import refuse
from regard.train.runfile import required_setting, setting

from .common import BATCH, HORIZON, LEAST, PERIOD, ROLLING, SCALING, SHARE, STRIDE, WINDOW, not_cut, opened


@dataclass(frozen=True)
class SeriesFiles:
    """Time series in csv files; the last parts of each series are held out for validation and test."""

    kind: Literal["series"] = "series"
    files: tuple[str, ...] = required_setting("csv files with a header, a time column and value columns")
    time: str = setting("", "name of the time column; empty: the first")
    values: tuple[str, ...] = setting((), "names of the value columns; empty: all others")
    series: str = setting("", "name of the column that identifies the series of each row (long format)")
    times: Literal["regular", "ordered"] = setting(
        "regular", "regular: gaps are errors; ordered: only the order matters, as for trading days"
    )
    window: int = setting(96, WINDOW)
    horizon: int = setting(24, HORIZON)
    least: int = setting(0, LEAST)
    share: float = setting(0.15, SHARE)
    stride: int = setting(1, STRIDE)
    rolling: int = setting(0, ROLLING)
    period: int = setting(0, PERIOD)
    scaling: Scaling = setting("window", SCALING)
    batch: int = setting(64, BATCH)

    def __post_init__(self) -> None:
        refuse(
            not_cut(self),
            [] if self.files or self.files is None else ["files is empty: expected at least one csv file"],
        )


def open_files(plan: RunPlan) -> OpenedData:
    data = plan.data
    columns = SeriesColumns(data.time, tuple(data.values), data.series, data.times)
    found = [one for name in data.files for one in read_series(find_file(name, plan.base), columns)]
    return opened(plan, found, columns)


def example(folder: Path) -> dict[str, Any]:
    lines = [f"{i},{i % 7},{(3 * i) % 11}" for i in range(80)]
    (folder / "series.csv").write_text("\n".join(["time,one,two", *lines, ""]), "utf-8")
    return {"files": [str(folder / "series.csv")], "window": 12, "horizon": 3, "batch": 8, "stride": 4}


KIND = DataKind(
    SeriesFiles,
    ("series",),
    open_files,
    paths=("files",),
    example=example,
    store="regard.modalities.series.storing:store_series",
)
