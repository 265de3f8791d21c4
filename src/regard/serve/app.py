"""The HTTP API under /api/v1, and the page that uses it.

Each endpoint reads what it is asked, hands the work to the queue, and gives what comes back.
"""

import re
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response

from regard import __version__
from regard.errors import InputError
from regard.look.analyses import ANALYSES
from regard.look.changes import Change
from regard.look.document import explain_weight
from regard.modalities.page_input import InputContext, LookInput, PageGiven
from regard.modalities.page_inputs import look_inputs
from regard.model import Model

from .analyses import refused_analyses, run_stored_analysis
from .comparing import compare_looks, with_same_target
from .exporting import export_look
from .gallery import Gallery
from .guard import TOLD, Application, Guard, Raw, fault
from .limits import LARGEST_UPLOAD, Limits
from .looks import Looks, StoredLook
from .model_list import ModelShelf
from .pages import NO_PAGE, known
from .reference import POLICY, page
from .refusals import RefusedError, json_response, refusal
from .responses import answer, answers
from .schema import (
    AnalysisQuery,
    CellQuery,
    CompareRequest,
    ComparisonDocument,
    ErrorDocument,
    Failure,
    FigureRow,
    LookDocument,
    LookId,
    LookRequest,
    MapQuery,
    ModelName,
    ModelRow,
    NoQuery,
    Ran,
    RowQuery,
    RunRequest,
    SiteName,
    SiteQuery,
    StreamRequest,
    Uploaded,
)
from .streaming import Streamed, Writing
from .uploads import ADDRESS, Uploads, sent_as, type_of
from .work import Batch, JobQueue, crowded

T = TypeVar("T")

ABOUT = "Runs models by name and returns their answers and the attention maps of every head. All indices start at 0."
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "QUERY"]
REFUSED: dict[int | str, dict[str, Any]] = {
    400: {"model": Failure, "description": "malformed or rejected request"},
    404: {"model": Failure, "description": "not found"},
    408: {"model": Failure, "description": "timeout"},
    413: {"model": Failure, "description": "request larger than 8 MB"},
    422: {"model": Failure, "description": "invalid value in the request"},
    429: {"model": Failure, "description": "too many requests; retry after Retry-After"},
    503: {"model": Failure, "description": "server error"},
}
DROPPED: dict[int | str, dict[str, Any]] = {410: {"model": Failure, "description": "expired: post it again"}}
UNREAD: dict[int | str, dict[str, Any]] = {415: {"model": Failure, "description": "unsupported file type"}}
RAW_BODY = {
    "requestBody": {
        "required": True,
        "content": {kind: {"schema": {"type": "string", "format": "binary"}} for kind in sent_as()},
    }
}
KEPT = {"Cache-Control": "private, max-age=600"}  # the numbers of a look never change
SVG_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox"


def raw(what: str, kind: str = "application/octet-stream") -> dict[int | str, dict[str, Any]]:
    return {200: {"description": what, "content": {kind: {"schema": {"type": "string", "format": "binary"}}}}}


class Service:
    """All that the endpoints share."""

    def __init__(self, shelf: ModelShelf, limits: Limits) -> None:
        self.shelf, self.limits = shelf, limits
        self.work = JobQueue(limits)
        self.drawing = JobQueue(limits)  # of figures: a gallery of them takes seconds, for which no look shall wait
        self.uploads = Uploads(limits.uploads)
        self.looks = Looks(shelf, limits.looks, self.uploads)
        self.gallery = Gallery()
        self.streams: set[Writing] = set()  # that are being written

    def shown(self, model: Model, asked: PageGiven, changes: Sequence[Change] = ()) -> LookInput:
        return look_inputs(asked, InputContext(model, changes, uploaded=self.uploads.get))

    async def computed(self, request: Request, run: Callable[[], T], batch: Batch[T] | None = None) -> T:
        return await self.work.do(run, request.receive, batch=batch)

    async def of_look(self, request: Request, name: str, run: Callable[[StoredLook], T]) -> T:
        """Of a look that is kept; what it has grown by is made room for."""
        look = self.looks.get(name)

        def compute() -> T:
            found = run(look)
            self.looks.trim()
            return found

        return await self.computed(request, compute)


def application(shelf: ModelShelf, limits: Limits | None = None) -> Application:
    """The whole of it, behind its guard."""
    limits = Limits() if limits is None else limits
    service = Service(shelf, limits)

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        yield
        service.work.close()
        service.drawing.close()

    app = FastAPI(
        title="regard",
        version=__version__,
        description=ABOUT,
        openapi_url="/api/v1/openapi.json",
        docs_url=None,  # FastAPI's own page loads scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        lifespan=life,
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    app.include_router(answering(service), prefix="/api/v1")
    app.include_router(looking(service), prefix="/api/v1")
    app.include_router(showing(service, app), prefix="/api/v1")
    add_page(app)
    add_refusals(app)
    return Guard(app, limits, {ADDRESS: Raw(sent_as(), LARGEST_UPLOAD)})


# What models answer ------------------------------------------------------------------------------


def answering(service: Service) -> APIRouter:
    routes = APIRouter(responses=REFUSED)

    @routes.get("/models", response_model=list[ModelRow])
    async def models(request: Request, asked: Annotated[NoQuery, Query()]) -> Response:
        """List all models: shipped models, finished runs, and small models with random weights."""
        rows = await service.computed(request, service.shelf.rows)
        return json_response([row.model_dump() for row in rows])

    @routes.get("/models/{name}/attentions", response_model=list[str])
    async def attentions(request: Request, name: ModelName, asked: Annotated[NoQuery, Query()]) -> Response:
        """List the attention mechanisms that the weights of this model fit; a look may use any of them."""
        return json_response(await service.computed(request, lambda: service.shelf.attentions(name)))

    @routes.post("/run", response_model=Ran)
    async def run(request: Request, asked: RunRequest) -> Response:
        """Return the answer of a model. Simultaneous requests to one model are computed as one batch."""
        changes = [one.change() for one in asked.changes]

        def alone() -> dict[str, Any]:
            with service.shelf.using(asked.model) as loaded:
                shown = service.shown(loaded.model, asked.input, changes)
                return answer(loaded.model, shown, changes, asked.settings, asked.verb)

        def together(items: Any) -> list[dict[str, Any]]:
            with service.shelf.using(asked.model) as loaded:
                shown = [service.shown(loaded.model, item) for item in items]
                return answers(loaded.model, shown, asked.settings, asked.verb)

        key = (asked.model, asked.settings, asked.verb, asked.input.kind)
        drawn = asked.settings is not None and asked.settings.temperature > 0  # chance goes by places in a batch
        batch = None if changes or drawn else Batch(key, asked.input, together)
        return json_response({"answer": await service.computed(request, alone, batch)})

    @routes.post("/upload", response_model=Uploaded, responses=UNREAD, openapi_extra=RAW_BODY)
    async def upload(request: Request, asked: Annotated[NoQuery, Query()]) -> Response:
        """Upload the bytes of a file. Its type is detected from its first bytes. Inputs refer to it by its id; the
        oldest uploads are dropped when space runs out."""
        body = await request.body()
        found = type_of(body, request.headers["content-type"].partition(";")[0].strip().lower())
        return json_response({"id": service.uploads.put(body), "type": found, "bytes": len(body)})

    @routes.post("/stream", responses=raw("server-sent events", "text/event-stream"))
    async def stream(request: Request, asked: StreamRequest) -> Any:
        """Stream a generated text: events `data: {"text": piece}`, at the end
        `data: {"done": true, "answer": ...}`, or `data: {"error": ...}`."""
        until = time.monotonic() + service.limits.seconds
        writing = Writing(service.shelf, asked)
        if len(service.streams) >= service.limits.queue:
            raise crowded(len(service.streams))
        await service.work.do(writing.begin, request.receive, until=until)
        service.streams.add(writing)
        return Events(Streamed(service.work, writing, until, lambda: service.streams.discard(writing)))

    return routes


class Events(Response):
    """What FastAPI takes for an answer; the application within sends it."""

    def __init__(self, streamed: Streamed) -> None:
        super().__init__()
        self.streamed = streamed

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.streamed(scope, receive, send)


# What models look at -----------------------------------------------------------------------------


def looking(service: Service) -> APIRouter:
    routes = APIRouter(responses=REFUSED)
    numbers = raw("numbers, little endian") | DROPPED

    @routes.post("/look", response_model=LookDocument)
    async def look(request: Request, asked: LookRequest) -> Response:
        """Run one forward pass over an input and record every layer that mixes positions."""
        found = await service.computed(request, lambda: service.looks.look(asked))
        return json_response(found.document)

    @routes.post("/compare", response_model=ComparisonDocument)
    async def compare(request: Request, asked: CompareRequest) -> Response:
        """Compare two looks: the difference of their maps, where both have the same rows and columns. A text that
        the first model wrote is given to the second, too; its own is ``answer``."""

        def compute() -> dict[str, Any]:
            first, own = service.looks.look(asked.first), service.looks.look(asked.second)
            second = service.looks.look(with_same_target(asked, first, own))
            sites = compare_looks(first, second)
            service.looks.trim()
            told = {"first": first.document, "second": second.document, "answer": own.document["answer"]}
            return told | {"sites": sites}

        return json_response(await service.computed(request, compute))

    @routes.get("/looks/{id}/maps/{site}", response_class=Response, responses=numbers)
    async def maps(request: Request, id: LookId, site: SiteName, asked: Annotated[MapQuery, Query()]) -> Response:
        """Return the map of a head or the mean of heads: float32; with a level, uint8, halved so many times, as
        255 * sqrt(weight)."""
        head = None if asked.head == "mean" else int(asked.head)
        return binary(await service.of_look(request, id, lambda look: look.map(site, head, asked.level)))

    @routes.get("/looks/{id}/rows/{site}", response_class=Response, responses=numbers)
    async def rows(request: Request, id: LookId, site: SiteName, asked: Annotated[RowQuery, Query()]) -> Response:
        """Return one row of a map, float32."""
        head = None if asked.head == "mean" else int(asked.head)
        return binary(await service.of_look(request, id, lambda look: look.row(site, head, asked.row)))

    @routes.get("/looks/{id}/thumbnails", response_class=Response, responses=numbers)
    async def thumbnails(request: Request, id: LookId, asked: Annotated[NoQuery, Query()]) -> Response:
        """Return thumbnails of all maps, one after the other: uint8, each halved until both sides are at most 64."""
        return binary(await service.of_look(request, id, lambda look: look.thumbnails()))

    @routes.get("/looks/{id}/cell/{site}", responses=DROPPED)
    async def one_cell(request: Request, id: LookId, site: SiteName, asked: Annotated[CellQuery, Query()]) -> Response:
        """Return the computation of one weight: query, key, scores, softmax and value."""

        def compute(look: StoredLook) -> dict[str, Any]:
            with look.lock:
                found = explain_weight(look.trace, site, asked.head, asked.row, asked.column)
            return found if "query" in found else found | {"equation": equation(look, site)}

        return json_response(await service.of_look(request, id, compute), headers=KEPT)

    @routes.get("/looks/{id}/analyses", response_model=dict[str, ErrorDocument | None], responses=DROPPED)
    async def offered(request: Request, id: LookId, asked: Annotated[SiteQuery, Query()]) -> Response:
        """List the analyses of a look: null, or why the maps of this look do not allow it. ``site`` chooses the stack
        of layers for rollout and flow."""

        def compute(look: StoredLook) -> dict[str, Any]:
            return refused_analyses(look, AnalysisQuery(site=asked.site))

        return json_response(await service.of_look(request, id, compute), headers=KEPT)

    @routes.get("/looks/{id}/analyses/{name}", responses=DROPPED)
    async def analyses(
        request: Request,
        id: LookId,
        name: Annotated[str, Path(pattern=f"^({'|'.join(map(re.escape, ANALYSES))})$")],
        asked: Annotated[AnalysisQuery, Query()],
    ) -> Response:
        """Run an analysis of a look; the result includes its equation and what it does not show."""
        return json_response(
            await service.of_look(request, id, lambda look: run_stored_analysis(look, name, asked)), headers=KEPT
        )

    @routes.get(
        "/looks/{id}/export.html", response_class=Response, responses=raw("an HTML page", "text/html") | DROPPED
    )
    async def export(request: Request, id: LookId, asked: Annotated[NoQuery, Query()]) -> Response:
        """Return the look as one self-contained HTML file."""
        made = await service.of_look(request, id, export_look)
        headers = {"Content-Disposition": f'attachment; filename="look-{id}.html"'}
        return Response(made, headers=headers, media_type="text/html; charset=utf-8")

    return routes


def equation(look: StoredLook, site: str) -> str:
    row: dict[str, Any] = next((row for row in look.document["sites"] if row["name"] == site), {})
    return "|∂y_i / ∂x_j|" if row.get("kind") == "influence" else f"the weights of {row.get('mechanism') or site}"


def binary(body: bytes) -> Response:
    return Response(body, headers=KEPT, media_type="application/octet-stream")


# What is shown besides ---------------------------------------------------------------------------


def showing(service: Service, app: FastAPI) -> APIRouter:
    routes = APIRouter(responses=REFUSED)

    @routes.get("/figures", response_model=list[FigureRow])
    async def figures(request: Request, asked: Annotated[NoQuery, Query()]) -> Response:
        """List the lectures' figures: the expected result, the measured result and the verdict."""
        return json_response(await service.drawing.do(service.gallery.rows, request.receive))

    @routes.get("/figures/{id}.svg", response_class=Response, responses=raw("a picture", "image/svg+xml"))
    async def figure(
        request: Request, id: Annotated[str, Path(pattern="^[0-9a-z.]{1,8}$")], asked: Annotated[NoQuery, Query()]
    ) -> Response:
        """Return one figure, drawn from its recorded result."""
        drawn = await service.drawing.do(lambda: service.gallery.picture(id), request.receive)
        headers = {"Content-Security-Policy": SVG_POLICY, "Cache-Control": "private, max-age=600"}
        return Response(drawn, headers=headers, media_type="image/svg+xml")

    @routes.get("/docs", include_in_schema=False)
    async def reference() -> Response:
        headers = {"Content-Security-Policy": POLICY}
        return Response(page(app.openapi()), headers=headers, media_type="text/html; charset=utf-8")

    return routes


def add_page(app: FastAPI) -> None:
    """Every other address is a file of the page, by its name, or nothing."""
    files = known()

    @app.api_route("/{name:path}", methods=METHODS, include_in_schema=False)
    def file(request: Request, name: str) -> Response:
        found = files.get(name or "index.html") if request.method == "GET" else None
        if found is None and not name and request.method == "GET":
            return Response(NO_PAGE, media_type="text/html; charset=utf-8")
        if found is None:
            raise RefusedError(404, "unknown address")
        return Response(found.path.read_bytes(), headers={"Cache-Control": "no-cache"}, media_type=found.kind)


# What is refused ---------------------------------------------------------------------------------


def add_refusals(app: FastAPI) -> None:
    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, RefusedError)
        return error.response()

    async def bad_input(request: Request, error: Exception) -> Response:
        assert isinstance(error, InputError)
        return refusal(error).response()

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return misread(error).response()

    async def plain(request: Request, error: Exception) -> Response:
        status = getattr(error, "status_code", 400)
        what = {404: "unknown address", 405: "unknown address"}.get(status, "the request cannot be read")
        return RefusedError(400 if status == 400 else 404, what).response()

    async def unforeseen(request: Request, error: Exception) -> Response:
        request.scope[TOLD] = True
        return fault(error).response()

    app.add_exception_handler(RefusedError, refused)
    app.add_exception_handler(InputError, bad_input)
    app.add_exception_handler(RequestValidationError, invalid)
    for status in (400, 404, 405):
        app.add_exception_handler(status, plain)
    app.add_exception_handler(Exception, unforeseen)


def misread(error: RequestValidationError) -> RefusedError:
    """Which field, and what is expected of it; what was sent is not sent back."""
    first: dict[str, Any] = next(iter(error.errors()), {})
    place = [str(part) for part in first.get("loc", ())]
    if place[:1] == ["path"]:
        return RefusedError(404, "unknown address")
    if first.get("type") == "json_invalid":
        return RefusedError(400, "invalid JSON", fix="see openapi.json for the accepted fields")
    field = ".".join(part for part in place[1:] if part.isidentifier() or part.isdecimal())
    if first.get("type") == "extra_forbidden":
        return RefusedError(422, f"no such field: {field[:100]}", fix="see openapi.json for the accepted fields")
    what = f"invalid value of the field {field[:100]}" if field else "invalid request"
    return RefusedError(
        422, what, expected=str(first.get("msg", ""))[:200], fix="see openapi.json for the accepted fields"
    )
