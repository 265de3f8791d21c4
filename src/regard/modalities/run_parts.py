"""What a run is made of: a kind of data and a goal. Each is a row of a table (``sources``, ``goals``)
that stands in one file of its modality; ``run`` reads these rows and knows no modality by name.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.data.batches import Batches
from regard.data.faults import Fault
from regard.data.rows import Rows
from regard.data.table_reading import TableReading
from regard.decode.settings import Decoding
from regard.decode.symbols import NO_SYMBOLS, Symbols
from regard.models.family import Family
from regard.tasks.task import Task
from regard.train.optimizers import Settings as Optimizer
from regard.train.schedules import Schedule
from regard.train.settings import Train

from .inputs import ModelView
from .net_needs import NeedsByMedia
from .processor import Processor


@dataclass(frozen=True, eq=False)
class RunPlan:
    """What a run file asks for, as a kind of data or a goal sees it."""

    task: Any  # the [task] table
    data: Any  # the [data] table
    seed: int
    steps: int
    base: Path  # where relative paths begin
    family: str
    config: Any  # as the run file names it, before the data has its say
    asked: Mapping[str, Any]  # the keys of the config that the run file itself gives
    start: ModelView | None  # the model that the run starts from
    load: Callable[[str], ModelView]  # a model by its name or its folder
    given: Mapping[str, ModelView] = field(default_factory=dict)  # frozen parts of the task, which [start] gives
    tested: Any = None  # the [data] table by which the test split is read, if it came from elsewhere


@dataclass(frozen=True, eq=False)
class OpenedData:
    """Rows of each split, what was left out of them, and what is known of the processor before anything is learned."""

    splits: dict[str, Rows]
    faults: Sequence[Fault] = ()
    prepared: Any = None  # how images are prepared
    names: tuple[str, ...] = ()  # of labels
    notes: tuple[str, ...] = ()  # what a user should know of the data
    tables: tuple[TableReading, ...] = ()  # how its tables were understood
    facts: Mapping[str, str] = field(default_factory=dict)  # what its inputs are like, and become, each in words


@dataclass(frozen=True, eq=False)
class ReadingLimits:
    """How a model reads: what it takes to make batches for it."""

    processor: Any
    length: int | None  # positions that the model reads, if that is limited
    symbols: Symbols


@dataclass(frozen=True, eq=False)
class SplitBatches:
    """Every split in batches."""

    splits: dict[str, Batches]
    names: tuple[str, ...] = ()
    longest: int | None = None  # tokens of a row that are read
    cut: float = 0.0  # the share of train's tokens, about, that are beyond that
    reached: int | None = None  # tokens of the longest row of train, about, as it is read


@dataclass(frozen=True)
class Size:
    """A key of a config that follows from the data."""

    needed: int
    usual: int  # what it is unless the run file says more
    what: str  # "vocabulary size"


def nothing_learned(plan: RunPlan, opened: OpenedData) -> dict[str, bytes]:
    return {}


def prepared_alone(opened: OpenedData, files: Mapping[str, bytes]) -> Any:
    """A processor that follows from the run file alone."""
    return opened.prepared


def no_sizes(plan: RunPlan, processor: Any) -> dict[str, Size]:
    return {}


def no_symbols(plan: RunPlan, processor: Any) -> Symbols:
    return NO_SYMBOLS


def nothing_begun(plan: RunPlan, model: ModelView, sources: SplitBatches) -> None:
    """Weights begin as they are."""


def as_it_is(data: Any, base: Path) -> Any:
    return data


def no_keys(family: Family) -> dict[str, Any]:
    return {}


def nothing_given(data: Any) -> list[str]:
    return []


@dataclass(frozen=True)
class Preparation:
    """How the processor of a run comes about. What is learned from the data, such as a vocabulary, is learned once, by
    the first process, and stands in the run's folder under these names."""

    learned: tuple[str, ...] = ()  # files
    learn: Callable[[RunPlan, OpenedData], dict[str, bytes]] = nothing_learned
    processor: Callable[[OpenedData, Mapping[str, bytes]], Processor] = prepared_alone
    sizes: Callable[[RunPlan, Any], dict[str, Size]] = no_sizes
    symbols: Callable[[RunPlan, Any], Symbols] = no_symbols
    begin: Callable[[RunPlan, ModelView, SplitBatches], None] = nothing_begun  # weights that follow from the data
    absolute: Callable[[Any, Path], Any] = as_it_is  # the [data] table, with files of the processor found
    not_with_start: Callable[[Any], list[str]] = nothing_given  # settings that the model of [start] decides


def no_problems(task: Any, data: Any) -> list[str]:
    return []


def no_more_files(data: Any) -> list[tuple[str, str]]:
    return []


Texts = Callable[[Rows], Callable[[int], Sequence[str]]]  # of rows, the texts of each by its number


def rows_of_texts(rows: Rows) -> Callable[[int], Sequence[str]]:
    """Rows that are texts and nothing else."""
    return rows.__getitem__


@dataclass(frozen=True)
class TableColumns:
    """The columns that are read of a table, what each is, and how many of the first a model is given in use."""

    columns: tuple[int | str, ...]
    roles: tuple[str, ...]
    inputs: int = 1


@dataclass(frozen=True)
class DataKind:
    """A form that data comes in. ``media`` are what a net must take to learn from it. ``store`` is given data by its
    setting in ``paths``, all other settings, and a folder, and returns the settings that read what it wrote there."""

    settings: type  # the [data] table
    media: tuple[str, ...]
    open: Callable[[RunPlan], OpenedData]
    preparation: Preparation = Preparation()
    texts: Texts = rows_of_texts
    paths: tuple[str, ...] = ()  # settings that name files
    listed: tuple[str, ...] = ()  # of these, folders of which only those files are read that ``more_files`` gives
    more_files: Callable[[Any], list[tuple[str, str]]] = no_more_files  # that no setting names, with fingerprints
    problems: Callable[[Any, Any], list[str]] = no_problems  # of [task] and [data] together
    example: Callable[[Path], dict[str, Any]] | None = None  # writes little data into a folder: the keys of [data]
    columns: Callable[[Any], TableColumns] | None = None  # of its tables, for its settings
    example_for: Callable[[Family], dict[str, Any]] = no_keys  # more keys of [data] that the example needs for a family
    before: Mapping[str, str] = field(default_factory=dict)  # settings of runs that were begun before there were such
    serves: Mapping[str, str] = field(default_factory=dict)  # goals that do not name it, and who makes their batches
    store: str = ""  # who writes data given in Python into a folder, "package.module:function"; empty: only files
    describe: str = ""  # of datasets given in Python by split: its settings, and keys of a new model's config

    @property
    def only_texts(self) -> bool:
        return self.media == ("text",)


@dataclass(frozen=True)
class Scores:
    """What a goal measures beyond its task's metrics, as JSON and as lines of a terminal."""

    data: Mapping[str, Any]
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Template:
    """A run file that `regard init` prints."""

    task: Any
    data: Any
    train: Train
    optimizer: Optimizer
    schedule: Schedule
    model: Mapping[str, Any] = field(default_factory=dict)
    start: str = ""


def no_changes(plan: RunPlan) -> dict[str, Any]:
    return {}


def unchanged(processor: Any) -> Any:
    return processor


def no_remarks(plan: RunPlan, sources: SplitBatches, model: ModelView) -> list[str]:
    return []


@dataclass(frozen=True)
class Goal:
    """What is learned. ``batches`` says for each kind of data that serves it who puts its rows into batches: a place
    such as "package.module:function", so that a run imports its own kind alone; it is given a plan, what was opened,
    and how the model reads."""

    settings: type  # the [task] table
    batches: Mapping[str, str]
    task: Callable[[RunPlan, ModelView, SplitBatches], Task]
    templates: Mapping[str, Template]
    models: tuple[str, ...] = ()  # settings that name models, such as a teacher
    parts: tuple[str, ...] = ("net",)  # what its task trains, each by an optimizer of its own
    kept: str = "net"  # the part that becomes the run's model
    given: tuple[str, ...] = ()  # parts that [start] can give, frozen
    config: Callable[[RunPlan], dict[str, Any]] = no_changes  # keys of the model's config that follow from the goal
    tokens: Callable[[Any], Any] = unchanged  # a vocabulary, with the tokens that the goal needs
    problems: Callable[[Any, Any], list[str]] = no_problems  # of [task] and [data] together
    remarks: Callable[[RunPlan, SplitBatches, ModelView], list[str]] = no_remarks  # what `regard check` tells
    measure: Callable[[ModelView, Rows, Decoding], Scores] | None = None  # of a split, for `regard evaluate`
    in_batch: bool = False  # its loss compares the rows of a batch, so it changes when the batch is split
    needs: NeedsByMedia = field(default_factory=dict)  # of a net, by the media that it takes
    learners: tuple[str, ...] = ()  # families that can learn it although their rows do not name it
    media: tuple[str, ...] = ()  # of its data, where they are not what the net takes: a generator learns from images
    opened: Callable[[OpenedData], OpenedData] = unchanged  # its data, as such a net has to do with it
    processor: Callable[[Any], Any] = unchanged  # what prepares its data, as such a net has to do with it

    def can_read(self, takes: tuple[str, ...], media: tuple[str, ...]) -> bool:
        """Whether a net that takes this learns from data of these media."""
        return set(self.media or takes) == set(media)
