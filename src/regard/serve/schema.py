"""What comes over the border: every field known, every number in a range, every text of a length."""

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from regard.look.changes import Change, Head, Temperature, Token
from regard.modalities.page_answers import PAGE_ANSWERS
from regard.modalities.page_input import PageGiven, StrictModel, UploadId
from regard.modalities.page_inputs import every_input

from .limits import MOST_CHANGES

ModelName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:+-]{0,119}$")]
SiteName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.@]{1,200}$")]
AxisName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_. ]{1,200}$")]
LookId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{20}$")]
VerbName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,40}$")]
HeadNumber = Annotated[str, StringConstraints(pattern=r"^(mean|[0-9]{1,4})$")]
Place = Annotated[int, Field(ge=0, le=65535)]


# Inputs ------------------------------------------------------------------------------------------

if TYPE_CHECKING:
    Input = PageGiven
    StreamedInput = PageGiven
    AnyAnswer = BaseModel
else:  # what the tables hold, in their order
    Input = Annotated[reduce(or_, every_input()), Field(discriminator="kind")]
    StreamedInput = Annotated[reduce(or_, (one for one in every_input() if one.streamed)), Field(discriminator="kind")]
    AnyAnswer = reduce(or_, PAGE_ANSWERS.values())


# Changes -----------------------------------------------------------------------------------------


class TokenChange(StrictModel):
    """Mask a token: no attention over this axis attends to it."""

    kind: Literal["token"]
    axis: AxisName
    position: Place

    def change(self) -> Change:
        return Token(self.axis, self.position)


class HeadChange(StrictModel):
    """Multiply the output of a head by a factor."""

    kind: Literal["head"]
    site: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.]{1,200}$")]
    head: Annotated[int, Field(ge=0, le=1023)]
    factor: Annotated[float, Field(ge=-100, le=100)] = 0.0

    def change(self) -> Change:
        return Head(self.site, self.head, float(self.factor))


class TemperatureChange(StrictModel):
    """Softmax temperature: softmax(scores / value)."""

    kind: Literal["temperature"]
    value: Annotated[float, Field(ge=0.01, le=100)]
    site: Annotated[str, StringConstraints(pattern=r"^([*]|[A-Za-z0-9_.]{1,200})$")] = "*"

    def change(self) -> Change:
        return Temperature(float(self.value), self.site)


AnyChange = Annotated[TokenChange | HeadChange | TemperatureChange, Field(discriminator="kind")]
Changes = Annotated[list[AnyChange], Field(max_length=MOST_CHANGES)]


# Requests ----------------------------------------------------------------------------------------


class DecodingFields(StrictModel):
    """Text generation: greedy decoding (one beam), beam search (several) or sampling (a temperature above 0)."""

    beam: Annotated[int, Field(ge=1, le=8)] = 1
    temperature: Annotated[float, Field(ge=0, le=10)] = 0.0
    top_k: Annotated[int, Field(ge=0, le=100_000)] = 0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    longest: Annotated[int | None, Field(ge=1, le=512)] = None


class RunRequest(StrictModel):
    """A decoder returns the most likely next tokens; with settings it continues the text. Without ``verb`` a model does
    the first of its verbs."""

    model: ModelName
    input: Input
    verb: VerbName | None = None
    changes: Changes = Field(default_factory=list)
    settings: DecodingFields | None = None


class StreamRequest(StrictModel):
    model: ModelName
    input: StreamedInput
    settings: DecodingFields | None = None


class LookRequest(StrictModel):
    """With ``attention``, the same weights are run with another attention mechanism, if they fit it."""

    model: ModelName
    input: Input
    changes: Changes = Field(default_factory=list)
    attention: Annotated[str | None, StringConstraints(pattern=r"^[a-z0-9-]{1,40}$")] = None


class CompareRequest(StrictModel):
    first: LookRequest
    second: LookRequest


# Of a look ---------------------------------------------------------------------------------------


class Query(BaseModel):
    """Query parameters; numbers are given as text."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class MapQuery(Query):
    head: HeadNumber
    level: Annotated[int | None, Field(ge=0, le=16)] = None


class RowQuery(Query):
    head: HeadNumber
    row: Place


class CellQuery(Query):
    head: Annotated[int, Field(ge=0, le=9999)]
    row: Place
    column: Place


class AnalysisQuery(Query):
    """Parameters of an analysis."""

    site: SiteName | None = None
    head: HeadNumber | None = None
    output: Place | None = None
    patch: Annotated[int, Field(ge=1, le=512)] | None = None


class SiteQuery(Query):
    site: SiteName | None = None


class NoQuery(Query):
    """No query parameters."""


# Answers, as they are documented -----------------------------------------------------------------


class ErrorDocument(BaseModel):
    what: str
    got: str = ""
    expected: str = ""
    fix: str = ""


class Failure(BaseModel):
    error: ErrorDocument


class Ran(BaseModel):
    answer: AnyAnswer


class Uploaded(BaseModel):
    """An uploaded file; inputs refer to it by its id, as ``upload``."""

    id: UploadId
    type: str
    bytes: int


class ModelRow(BaseModel):
    name: str
    title: str
    family: str
    task: str | None
    takes: str  # a word of the table of inputs: "text", "pair", "image", "image+text"
    verbs: list[str]  # what it can be asked, such as "answer"
    parameters: int
    source: Literal["shipped", "run", "zoo"]
    example: dict[str, Any]
    lectures: list[str]  # sentences of the decks, for a model that reads them


class LookTimes(BaseModel):
    """The time steps of a look; a site of one of them has its index as ``time``."""

    unit: str  # "step", "frame", "recycling"
    count: int


class LookDocument(BaseModel):
    """One look without its numbers. Without ``time`` there is one time step."""

    format: int
    id: str
    model: dict[str, Any]
    input: dict[str, Any]
    changes: list[dict[str, Any]]
    answer: AnyAnswer
    before: AnyAnswer | None
    axes: dict[str, dict[str, Any]]
    sites: list[dict[str, Any]]
    time: LookTimes | None = None


class HeadDifference(BaseModel):
    first: int
    second: int
    divergence: float | None  # mean Jensen-Shannon divergence of the rows, in bits
    largest: float | None  # largest difference of two weights


class SiteDifference(BaseModel):
    first: str
    second: str
    heads: list[HeadDifference]


class ComparisonDocument(BaseModel):
    """``second`` is looked at with what the first model wrote; ``answer`` is what the second says by itself."""

    first: LookDocument
    second: LookDocument
    answer: AnyAnswer
    sites: list[SiteDifference]


class FigureRow(BaseModel):
    id: str
    deck: str
    title: str
    claim: str
    command: str
    conclusion: str | None  # of the decks, that it makes a check of
    expected: str  # before the run
    found: str
    verdict: Literal["confirmed", "partly", "contradicted", "quoted"] | None  # None if it was never computed in full
    agreement: str  # "4 of 5" starts, if there were several
    stale: bool  # the file that computed it has changed since
    holds: bool | None
    checks: list[dict[str, Any]]
