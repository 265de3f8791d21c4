"""What comes over the border: every field known, every number in a range, every text of a length."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from regard.look.changes import Change, Head, Temperature, Token

from .limits import BODY, CHANGES, LETTERS

Letters = Annotated[str, StringConstraints(max_length=LETTERS)]
ModelName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:+-]{0,119}$")]
SiteName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.@]{1,200}$")]
AxisName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_. ]{1,200}$")]
LookId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{20}$")]
HeadNumber = Annotated[str, StringConstraints(pattern=r"^(mean|[0-9]{1,4})$")]
DataAddress = Annotated[
    str, StringConstraints(max_length=BODY, pattern=r"^data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/]*={0,2}$")
]
Size = Annotated[int, Field(ge=1, le=65535)]
Place = Annotated[int, Field(ge=0, le=65535)]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


# Inputs ------------------------------------------------------------------------------------------


class TextInput(Strict):
    kind: Literal["text"]
    text: Letters


class PairInput(Strict):
    """A text and what it became; without a target the model writes it."""

    kind: Literal["pair"]
    source: Letters
    target: Letters | None = None


class ImageInput(Strict):
    """PNG, JPEG, GIF or WebP. Width and height may stand here as in an answer; the file alone counts."""

    kind: Literal["image"]
    png: DataAddress
    width: Size | None = None
    height: Size | None = None


class CaptionInput(Strict):
    """An image and a sentence about it; without a target the model writes it."""

    kind: Literal["caption"]
    image: ImageInput
    target: Letters | None = None


Input = Annotated[TextInput | PairInput | ImageInput | CaptionInput, Field(discriminator="kind")]


# Changes -----------------------------------------------------------------------------------------


class TokenChange(Strict):
    """Crossed out: nobody looks at it."""

    kind: Literal["token"]
    axis: AxisName
    position: Place

    def change(self) -> Change:
        return Token(self.axis, self.position)


class HeadChange(Strict):
    """What a head brings, times a factor."""

    kind: Literal["head"]
    site: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.]{1,200}$")]
    head: Annotated[int, Field(ge=0, le=1023)]
    factor: Annotated[float, Field(ge=-100, le=100)] = 0.0

    def change(self) -> Change:
        return Head(self.site, self.head, float(self.factor))


class TemperatureChange(Strict):
    """softmax(scores / value)"""

    kind: Literal["temperature"]
    value: Annotated[float, Field(ge=0.01, le=100)]
    site: Annotated[str, StringConstraints(pattern=r"^([*]|[A-Za-z0-9_.]{1,200})$")] = "*"

    def change(self) -> Change:
        return Temperature(float(self.value), self.site)


AnyChange = Annotated[TokenChange | HeadChange | TemperatureChange, Field(discriminator="kind")]
Changes = Annotated[list[AnyChange], Field(max_length=CHANGES)]


# Requests ----------------------------------------------------------------------------------------


class Settings(Strict):
    """Of what is written: the likeliest tokens (one beam), a search (several), or draws (a temperature above 0)."""

    beam: Annotated[int, Field(ge=1, le=8)] = 1
    temperature: Annotated[float, Field(ge=0, le=10)] = 0.0
    top_k: Annotated[int, Field(ge=0, le=100_000)] = 0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    longest: Annotated[int | None, Field(ge=1, le=512)] = None


class RunRequest(Strict):
    """A decoder tells the likeliest next tokens; with settings it goes on with the text."""

    model: ModelName
    input: Input
    changes: Changes = []
    settings: Settings | None = None


class StreamRequest(Strict):
    model: ModelName
    input: TextInput | PairInput = Field(discriminator="kind")
    settings: Settings | None = None


class LookRequest(Strict):
    """With ``attention``, the same weights under another mechanism, where they fit."""

    model: ModelName
    input: Input
    changes: Changes = []
    attention: Annotated[str | None, StringConstraints(pattern=r"^[a-z0-9-]{1,40}$")] = None


class CompareRequest(Strict):
    first: LookRequest
    second: LookRequest


# Of a look ---------------------------------------------------------------------------------------


class Query(BaseModel):
    """Numbers in an address are texts, so these models are not strict about it."""

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
    """Which of these an analysis reads stands in its answer to a request that lacks one."""

    site: SiteName | None = None
    head: HeadNumber | None = None
    output: Place | None = None
    patch: Annotated[int, Field(ge=1, le=512)] | None = None


class NoQuery(Query):
    """Nothing is asked for beside the address."""


# Answers, as they are documented -----------------------------------------------------------------


class Problem(BaseModel):
    what: str
    got: str = ""
    expected: str = ""
    fix: str = ""


class Failure(BaseModel):
    error: Problem


class WrittenToken(BaseModel):
    text: str
    logp: float


class WrittenAnswer(BaseModel):
    """Of a translator, a captioner, a decoder that goes on."""

    kind: Literal["text"]
    text: str
    tokens: list[WrittenToken]


class LabelsAnswer(BaseModel):
    kind: Literal["labels"]
    labels: list[tuple[str, float]]


class NextAnswer(BaseModel):
    kind: Literal["next"]
    tokens: list[tuple[str, float]]


class FilledPlace(BaseModel):
    token: int
    tokens: list[tuple[str, float]]


class FilledAnswer(BaseModel):
    kind: Literal["filled"]
    places: list[FilledPlace]


class Box(BaseModel):
    label: str
    score: float
    box: list[float]


class BoxesAnswer(BaseModel):
    """Boxes are left, top, right, bottom, in pixels of the image as the net sees it, of this width and height."""

    kind: Literal["boxes"]
    width: int
    height: int
    boxes: list[Box]


class NoAnswer(BaseModel):
    kind: Literal["none"]


AnyAnswer = WrittenAnswer | LabelsAnswer | NextAnswer | FilledAnswer | BoxesAnswer | NoAnswer


class Ran(BaseModel):
    answer: AnyAnswer


Takes = Literal["text", "pair", "image", "image+text"]


class ModelRow(BaseModel):
    name: str
    title: str
    family: str
    task: str | None
    takes: Takes
    parameters: int
    source: Literal["shipped", "run", "zoo"]
    example: dict[str, Any]
    lectures: list[str]  # sentences of the decks, for a model that reads them


class Document(BaseModel):
    """One look: all but its numbers."""

    format: int
    id: str
    model: dict[str, Any]
    input: dict[str, Any]
    changes: list[dict[str, Any]]
    answer: AnyAnswer
    before: AnyAnswer | None
    axes: dict[str, dict[str, Any]]
    sites: list[dict[str, Any]]


class HeadDifference(BaseModel):
    first: int
    second: int
    divergence: float | None  # mean Jensen-Shannon divergence of the rows, in bits
    largest: float | None  # largest difference of two weights


class SiteDifference(BaseModel):
    first: str
    second: str
    heads: list[HeadDifference]


class Comparison(BaseModel):
    first: Document
    second: Document
    sites: list[SiteDifference]


class FigureRow(BaseModel):
    id: str
    deck: str
    title: str
    claim: str
    command: str
    conclusion: str | None  # of the decks, that it makes a check of
    holds: bool | None
    checks: list[dict[str, Any]]
