"""All that can be asked about a trace, each by one word, with its equation and what it does not tell.

An analysis that needs an answer asks about the log-probability of what the model said; of a text that it wrote, of all
its words; of things that it found, of the surest one, or of what the query of a row took for the likeliest. Changes
that a trace was made with hold for what is computed anew, too.

Shapes: b batch, h heads, n positions, q rows, k columns.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from regard.errors import InputError
from regard.tables import Table

from . import distance, exclusion, flow, gradient, importance, lens, occlusion, rollout, spectrum
from .changes import apply_changes
from .document import example_of_trace, find_site, head_map, joined_windows, map_weights, model_title, sites
from .examples import Example
from .maps import Map, axes_of
from .trace import Trace, TracedSite
from .windows import joined_map

LIKELIEST = 3  # words that a lens tells at each position
DEEPEST = 48  # positions whose words it tells, the last ones


@dataclass(frozen=True)
class AnalysisRequest:
    """What is asked about; None is all of it, or what the analysis takes by itself."""

    site: str | None = None
    head: int | None = None
    row: int | None = None  # the output that a flow starts from; the query of a detector that an answer is asked of
    patch: int | None = None  # pixels a side of what is covered
    pause: Callable[[], None] = flow.go_on  # called between steps that no net runs in; may raise, to stop


@dataclass(frozen=True)
class Analysis:
    equation: str
    limit: str  # what it does not tell
    ask: Callable[[Trace[Any], AnalysisRequest], dict[str, Any]]


def run_analysis(found: Trace[Any], name: str, asked: AnalysisRequest) -> dict[str, Any]:
    """What JSON can hold."""
    if name not in ANALYSES:
        raise InputError("unknown analysis", got=name[:100], expected=", ".join(ANALYSES))
    one = ANALYSES[name]
    return {"name": name, "equation": one.equation, "limit": one.limit, **one.ask(found, asked)}


def check_analysis(found: Trace[Any], name: str, asked: AnalysisRequest) -> None:
    """Raises why an analysis is refused for this trace, as far as its maps tell."""
    if name in ("rollout", "flow"):
        rollout.with_residual([own_map(found, layer) for layer in attention_stack(found, asked.site)])
    if name == "distance" and not own_layers(found):
        raise nothing_own(found)


# From maps --------------------------------------------------------------------------------------


def itself(site: TracedSite) -> bool:
    """Whether it looks at its own positions; a decoder's rows are named by what it wrote there."""
    rows, columns = site.axes
    return rows == columns or (rows, columns) == ("written", "target")


Layer = tuple[TracedSite, int]  # and which of its calls


def own_map(found: Trace[Any], layer: Layer) -> Map:
    site, call = layer
    one = found.maps[site.name] if call == len(site.records) - 1 else site.map(call)
    return replace(one, rows=one.columns) if one.rows.windows is None else joined_map(one)


def own_layers(found: Trace[Any]) -> list[Layer]:
    """All that look at their own positions, each as often as it ran."""
    return [(site, i) for site in found.sites.values() if itself(site) for i in range(len(site.records))]


def attention_stack(found: Trace[Any], site: str | None) -> list[Layer]:
    """The self-attentions of one stack, up to the one that is asked about, or the last."""
    several = own_layers(found)
    if not several:
        raise nothing_own(found)
    last = several[-1] if site is None else find_site(found, site)
    if not itself(last[0]):
        raise InputError("this analysis needs a self-attention layer", got=last[0].name)
    stack = [layer for layer in several if same_places(layer[0], last[0])]
    return stack[: stack.index(last) + 1]


def nothing_own(found: Trace[Any]) -> InputError:
    return InputError("this model has no self-attention layer", got=", ".join(list(found.sites)[:3]))


def same_places(one: TracedSite, other: TracedSite) -> bool:
    """Whether two layers look at the same positions; where each has axes of its own, as windows do, by their grids."""
    alone = all(site.axes[0] == site.name for site in (one, other))
    return one.axes == other.axes or (alone and joined_windows(one.rows) == joined_windows(other.rows))


def told_as(layer: Layer) -> str:
    return model_title(layer[0].name, layer[1], layer[0])


def rolled(found: Trace[Any], asked: AnalysisRequest) -> dict[str, Any]:
    stack = attention_stack(found, asked.site)
    total = rollout.rolled_out([own_map(found, layer) for layer in stack])
    return {"site": told_as(stack[-1]), "layers": list(map(told_as, stack)), "map": total.weights[0, 0].tolist()}


def poured(found: Trace[Any], asked: AnalysisRequest) -> dict[str, Any]:
    """Unless told otherwise, out of the last position of a text, and of the first of an image, a class token."""
    stack = attention_stack(found, asked.site)
    maps = [own_map(found, layer) for layer in stack]
    size = maps[-1].weights.shape[-2]
    output = asked.row if asked.row is not None else 0 if maps[-1].rows.grid is not None else size - 1
    if not 0 <= output < size:
        raise InputError("row index out of range", got=str(output), expected=f"0 to {size - 1}")
    total = flow.attention_flow(maps, output, asked.pause)
    told = {"site": told_as(stack[-1]), "layers": list(map(told_as, stack)), "row": output}
    return told | {"flow": total.weights[0, 0, 0].tolist()}


def far(found: Trace[Any], asked: AnalysisRequest) -> dict[str, Any]:
    """Of all layers that have a distance; a detector's queries have none, its patches do."""
    sites, reasons = dict[str, list[float]](), list[InputError]()
    unit = "tokens"
    for layer in own_layers(found):
        one = own_map(found, layer)
        try:
            sites[told_as(layer)] = distance.mean_distance(one)[0].tolist()
            unit = "tokens" if one.rows.grid is None else "patches"
        except InputError as reason:
            reasons.append(reason)
    if not sites:
        raise reasons[0] if reasons else nothing_own(found)
    return {"unit": unit, "sites": sites}


def ranked(found: Trace[Any], asked: AnalysisRequest) -> dict[str, Any]:
    name = asked.site or model_title(*sites(found)[0], next(iter(found.sites.values())))
    site, _ = find_site(found, name)
    weights = head_map(map_weights(found, name), asked.head)
    told = spectrum.spectrum_of(Map(site.name, weights[None, None], site.rows, site.columns, site.kind))
    return {
        "site": name,
        "head": asked.head,
        "singular": told.singular[0, 0].tolist(),
        "mass": told.mass[0, 0].tolist(),
        "rank": float(told.rank[0, 0]),
        "moduli": None if told.moduli is None else told.moduli[0, 0].tolist(),
    }


# From the answer --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class AnswerScore:
    """The model's score for its own answer."""

    example: Example
    what: str
    run: Callable[[], Any]  # the net once more, as it was
    sure: Callable[[Any], Tensor]  # of an output, (b,)


def question(found: Trace[Any], asked: AnalysisRequest) -> AnswerScore:
    example = example_of_trace(found)
    if asked.row is not None and example.alone is not None:
        example = example.alone(asked.row)
    sure, first, answer = example.sure, found.output, example.tell(found.output)
    if answer is None:
        raise InputError("the model gives no answer for this input, so there is nothing to explain")
    if sure is None:
        raise InputError(
            "this analysis explains the log-probability of an answer, and this answer has none",
            got=answer.subject(),
            expected="a label, a token, a text or an object as the answer",
        )

    def run() -> Any:
        with apply_changes(found.net, found.changes, found.table, found.axes):
            return example.run(found.net)

    return AnswerScore(example, answer.subject(), run, lambda output: sure(output, first))


def covered(found: Trace[Any], asked: AnalysisRequest) -> dict[str, Any]:
    """Parts of an image are covered; of a text, nobody looks at one token after the other."""
    about = question(found, asked)
    if about.example.image is not None and len(about.example.inputs) == 1:
        (images,) = about.example.inputs
        side = asked.patch or patch_side(found, images)

        def answers(some: Tensor) -> Tensor:
            with apply_changes(found.net, found.changes, found.table, found.axes):
                return about.sure(found.net(some))[:, None]

        worth = occlusion.occlusion_map(answers, images[0], 0, patch=side, read=occlusion.label_logit)
        if not any(size % side for size in worth.shape):  # squares side by side: one number for each
            worth = worth[::side, ::side]
        words = {"equation": occlusion.EQUATION, "limit": occlusion.LIMIT}
        return {**words, "what": about.what, "patch": side, "worth": worth.tolist()}
    axis = next((name for name in ("source", "tokens") if name in about.example.words), None)
    if axis is None:
        raise InputError("occlusion needs a text or an image as input")
    size = len(about.example.words[axis])
    lost = exclusion.unseen(found.net, lambda: about.sure(about.run()), axis, size, found.table)
    return {"what": about.what, "axis": axis, "worth": lost[0].tolist()}


def patch_side(found: Trace[Any], images: Tensor) -> int:
    """Pixels a side: of the net's own patches, or an eighth of the image."""
    grids = [
        site.rows.grid for site in found.sites.values() if site.rows.grid is not None and site.rows.windows is None
    ]
    size = min(images.shape[-2:])
    return max(size // (max(grids[0]) if grids else 8), 1)


def sloped(found: Trace[Any], asked: AnalysisRequest) -> dict[str, Any]:
    about, (last, call) = question(found, asked), sites(found)[-1]
    name = asked.site or model_title(last, call, found.sites[last])
    site, call = find_site(found, name)
    axes = dict(zip(axes_of(site.name, found.table), (site.rows, site.columns), strict=True))
    one = gradient.graded(found.net, site.name, about.run, about.sure, table=found.table, axes=axes)[site.name][call]
    one = one if site.rows.windows is None else gradient.joined_gradient(one)
    told = {"what": about.what, "site": name, "head": asked.head}
    if asked.head is None:
        return told | {"map": one.relevance[0].tolist()}
    return told | {"equation": gradient.OF_ONE, "map": head_map(one.signed[0], asked.head).tolist()}


def silenced(found: Trace[Any], asked: AnalysisRequest) -> dict[str, Any]:
    about = question(found, asked)
    lost = importance.ablated(found.net, lambda: about.sure(about.run()), importance.fall)
    return {"what": about.what, "sites": {name: worth[0].tolist() for name, worth in lost.items()}}


def read_early(found: Trace[Any], asked: AnalysisRequest) -> dict[str, Any]:
    about = example_of_trace(found)

    def run() -> None:
        with apply_changes(found.net, found.changes, found.table, found.axes):
            about.run(found.net)

    layers = []
    for layer in lens.logit_lens(found.net, run):
        logits = layer.logits[0] if layer.logits.ndim == 3 else layer.logits
        chances, ids = logits[-DEEPEST:].softmax(-1).topk(min(LIKELIEST, logits.shape[-1]))
        rows = [
            [list(pair) for pair in zip(about.names(own.tolist()), sure.tolist(), strict=True)]
            for own, sure in zip(ids, chances, strict=True)
        ]
        layers.append({"site": layer.name, "first": max(len(logits) - DEEPEST, 0), "tokens": rows})
    axis = next((name for name in ("written", "tokens") if name in about.words), None)
    return {"axis": axis, "layers": layers}


ANALYSES = Table[Analysis](
    "analysis",
    {
        "rollout": Analysis(rollout.EQUATION, rollout.LIMIT, rolled),
        "flow": Analysis(flow.EQUATION, flow.LIMIT, poured),
        "distance": Analysis(distance.EQUATION, distance.LIMIT, far),
        "spectrum": Analysis(spectrum.EQUATION, spectrum.LIMIT, ranked),
        "occlusion": Analysis(exclusion.EQUATION, exclusion.LIMIT, covered),
        "gradient": Analysis(gradient.EQUATION, gradient.LIMIT, sloped),
        "importance": Analysis(importance.EQUATION, importance.LIMIT, silenced),
        "lens": Analysis(lens.EQUATION, lens.LIMIT, read_early),
    },
)
