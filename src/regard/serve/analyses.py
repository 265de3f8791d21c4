"""What can be computed from a look, by name: one row each, with its equation and what it does not tell."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from regard.errors import InputError
from regard.look.changes import Change, Token
from regard.look.distance import between
from regard.look.flow import flowed
from regard.look.maps import Map
from regard.look.occlusion import attribution
from regard.look.rollout import rolled_out
from regard.look.trace import Site, Trace
from regard.look.windows import whole
from regard.nn.axis import Axis
from regard.tasks.seeing import Picture
from regard.tasks.telling import Answer, Filled, Labels, Next, Wrote

from .looks import Look
from .schema import AnalysisQuery
from .work import still_wanted

WRITTEN = 768  # positions of a map in JSON
FLOWS = 6_000_000  # depth * positions^3 that a flow may cost, some ten seconds
SQUARES = 8  # on a side of an image, that are covered one after the other
OCCLUDED = 128  # tokens that are crossed out, one after the other


@dataclass(frozen=True)
class Analysis:
    """``compute`` gets a look and the settings; what it gives stands beside the words in the answer."""

    equation: str
    limit: str
    compute: Callable[[Look, AnalysisQuery], dict[str, Any]]


def analysed(look: Look, name: str, asked: AnalysisQuery) -> dict[str, Any]:
    analysis = ANALYSES[name]
    with look.lock:
        numbers = analysis.compute(look, asked)
    return {"name": name, "equation": analysis.equation, "limit": analysis.limit, **numbers}


# Along the layers --------------------------------------------------------------------------------


def rollout(look: Look, asked: AnalysisQuery) -> dict[str, Any]:
    last, maps = stack(look.trace, asked.site)
    if (size := maps[0].weights.shape[-1]) > WRITTEN:
        raise InputError("a map of so many positions is not written out", got=str(size), expected=f"at most {WRITTEN}")
    return {"site": last, "map": rolled_out(maps).weights[0, 0].tolist()}


def flow(look: Look, asked: AnalysisQuery) -> dict[str, Any]:
    """To one output, by default the last of a text, the first of an image."""
    last, maps = stack(look.trace, asked.site)
    size = maps[0].weights.shape[-1]
    if len(maps) * size**3 > FLOWS:
        raise InputError("a flow through so many positions takes too long", got=f"{size} in {len(maps)} layers")
    output = asked.output if asked.output is not None else 0 if maps[-1].rows.grid else size - 1
    found = flowed(maps, output)
    return {"site": last, "output": output, "flow": found.weights[0, 0, 0].tolist()}


def stack(trace: Trace[Any], asked: str | None) -> tuple[str, list[Map]]:
    """The self-attentions of one part, from its first layer up to the one that is asked for, or to the last of all."""
    own = [site for site in trace.sites.values() if looks_at_itself(site)]
    if not own:
        raise InputError("nothing in this model looks at itself by weights")
    last = own[-1] if asked is None else next((site for site in own if site.name == asked), None)
    if last is None:
        raise InputError(
            "this goes through layers that look at themselves",
            got=str(asked),
            expected=", ".join(x.name for x in own[:6]),
        )
    alike = [site for site in own if part(site) == part(last) and site.axes == last.axes]
    maps = [trace.maps[site.name] for site in alike[: alike.index(last) + 1]]
    return last.name, [whole(one) if one.rows.cut is not None else one for one in maps]


def looks_at_itself(site: Site) -> bool:
    rows, columns = site.axes
    return site.kind == "weights" and columns == ("target" if rows == "written" else rows)


def part(site: Site) -> str:
    first = site.name.partition(".")[0]
    return first if first in ("encoder", "decoder") else ""


# Of single heads ---------------------------------------------------------------------------------


def distance(look: Look, asked: AnalysisQuery) -> dict[str, Any]:
    """Of all sites that look at themselves; in patches of an image, else in tokens."""
    found, gridded = {}, False
    for site in look.trace.sites.values():
        if not looks_at_itself(site):
            continue
        one = look.trace.maps[site.name]
        one = whole(one) if one.rows.cut is not None else one
        gridded = gridded or one.rows.grid is not None
        found[site.name] = mean_distances(one).tolist()
        still_wanted()
    if not found:
        raise InputError("nothing in this model looks at itself by weights")
    return {"sites": found, "unit": "patches" if gridded else "tokens"}


def mean_distances(found: Map) -> Tensor:
    """As ``look.distance`` has it, of a text too, which is a grid of one axis.  (b, h, n, n) -> (h,)"""
    axis = found.rows
    grid, special = (axis.grid, axis.special) if axis.grid is not None else ((axis.size,), 0)
    weights = found.weights[0, :, special:, special:]
    total = weights.sum(-1)
    placed = total > 0
    far = (weights * between(grid).to(weights)).sum(-1) / total.where(placed, 1)
    return (far * placed).sum(-1) / placed.sum(-1).clamp(min=1)


# By trying ---------------------------------------------------------------------------------------


def occlusion(look: Look, asked: AnalysisQuery) -> dict[str, Any]:
    """What an answer loses: of an image, where squares of a patch are covered; of a text, where a token is unseen."""
    shown, answer = look.trace.shown, look.trace.answer
    if shown is None or answer is None:
        raise InputError("this model gives no answer that could be lost")
    if isinstance(answer, Labels) and shown.image is not None:
        return covered(look)
    axis = first_axis(look.trace)
    if axis[1].size > OCCLUDED:
        raise InputError(
            "too many tokens to try them one by one", got=str(axis[1].size), expected=f"at most {OCCLUDED}"
        )
    before, worth = chance(look, ()), []
    for position in range(axis[1].size):
        still_wanted()
        worth.append(before - chance(look, (Token(axis[0], position),)))
    return {"worth": worth, "what": headline(answer)}


def covered(look: Look) -> dict[str, Any]:
    shown, answer = look.trace.shown, look.trace.answer
    assert shown is not None
    assert isinstance(answer, Labels)
    image = shown.inputs[0][0]
    with torch.inference_mode():
        label = int(look.model.net(image[None])[0].argmax())
        grid = next((x.rows.grid for x in look.trace.sites.values() if x.rows.grid and len(x.rows.grid) == 2), None)
        height, width = image.shape[-2:]
        side = next(n for n in range(SQUARES, 0, -1) if (grid[0] if grid else height) % n == 0)
        patch = max(min(height // side, width), 1)
        found = attribution(look.model.net, image, label, patch=patch)
    cells = found.unfold(0, patch, patch).unfold(1, patch, patch).mean((-2, -1))
    return {"worth": cells.tolist(), "what": answer.choices[0][0]}


def first_axis(trace: Trace[Any]) -> tuple[str, Axis]:
    """What the first site looks at: the source of a translator, the tokens of all others."""
    for site in trace.sites.values():
        if site.kind == "weights":
            return site.axes[1], site.columns
    raise InputError("what mixes without weights cannot be made to look past a token")


def headline(answer: Answer) -> str:
    """What is asked about."""
    match answer:
        case Wrote(text):
            return text
        case Labels(choices) | Next(choices) | Filled(((_, choices), *_)):
            return choices[0][0]
    raise InputError("this model gives no answer that could be lost")


def chance(look: Look, more: Sequence[Change]) -> float:
    """How likely the same answer is with these changes too: of a text that was written, the mean over its tokens."""
    trace, shown = look.trace, look.trace.shown
    assert shown is not None
    if isinstance(trace.answer, Wrote):
        given: list[Picture] = [*([] if shown.image is None else [seen(shown.image)]), *shown.texts]
        found = look.model.look(*given, pattern=next(iter(trace.sites)), changes=(*trace.changes, *more)).answer
        assert isinstance(found, Wrote)
        return float(torch.tensor([logp for _, logp in found.tokens]).mean().exp())
    assert trace.again is not None
    chances = [scores(one).softmax(-1) for one in (trace, trace.again((*trace.changes, *more)))]
    return float(chances[1][chances[0].argmax()])


def scores(trace: Trace[Any]) -> Tensor:
    """Those that the first choice of the answer is from.  -> (classes,) or (words,)"""
    match trace.answer:
        case Next():
            return trace.output[0, -1]
        case Filled(((place, _), *_)):
            return trace.output.words[0, place]
        case Labels() if isinstance(trace.output, Tensor):
            return trace.output[0]
        case Labels():
            return trace.output.label[0]
    raise InputError("this model gives no answer that could be lost")


def seen(image: Tensor) -> Image.Image:
    """(c, h, w), uint8"""
    pixels = image.permute(1, 2, 0).numpy()
    return Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)


ANALYSES: dict[str, Analysis] = {
    "rollout": Analysis(
        "R = Ã_L … Ã_1, Ã = (mean_h A + 1) / 2",
        "It does not tell what was made of what was seen: values, feed-forward layers and signs are left out.",
        rollout,
    ),
    "flow": Analysis(
        "F_j = max flow from the output to input j, through pipes as wide as Ã = (mean_h A + 1) / 2",
        "It does not tell what an output used: only what could have passed, had all passed that could.",
        flow,
    ),
    "distance": Analysis(
        "D = mean_q Σ_k A_qk · |g_q − g_k|",
        "It does not tell what is looked at, nor whether it is used: even weights are far, whatever is there.",
        distance,
    ),
    "occlusion": Analysis(
        "a(p) = f(x) − f(x without p)",
        "It does not tell of parts that stand in for each other, and what is put in their place is itself seen.",
        occlusion,
    ),
}
