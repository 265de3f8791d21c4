"""Analyses of a look, by name. What would take longer than a request may is refused before it begins."""

from typing import Any

from regard.errors import InputError
from regard.look.analyses import ANALYSES, AnalysisRequest, attention_stack, check_analysis, patch_side
from regard.look.analyses import run_analysis as compute
from regard.look.document import joined_windows
from regard.look.trace import Trace

from .looks import StoredLook
from .refusals import refusal
from .schema import AnalysisQuery
from .work import still_wanted

FLOWS = 6_000_000  # layers * positions^3 that a flow may cost, some ten seconds
SQUARES = 8  # on a side of an image
LONGEST = {  # positions
    "rollout": 512,
    "spectrum": 1024,
    "gradient": 512,
    "occlusion": 128,
    "importance": 256,
}


def run_stored_analysis(look: StoredLook, name: str, asked: AnalysisQuery) -> dict[str, Any]:
    refuse_dear(look.trace, name, asked)
    head = None if asked.head in (None, "mean") else int(asked.head)
    patch = asked.patch or few_squares(look, name)
    with look.lock:
        return compute(look.trace, name, AnalysisRequest(asked.site, head, asked.output, patch, still_wanted))


def refused_analyses(look: StoredLook, asked: AnalysisQuery) -> dict[str, dict[str, str] | None]:
    """Of each analysis why it is refused for this look, as far as that is known without computing it; else None."""
    found: dict[str, dict[str, str] | None] = {}
    for name in ANALYSES:
        found[name] = None
        try:
            refuse_dear(look.trace, name, asked)
            with look.lock:
                check_analysis(look.trace, name, AnalysisRequest(asked.site))
        except InputError as error:
            found[name] = refusal(error).told
    return found


def few_squares(look: StoredLook, name: str) -> int | None:
    """Pixels a side of what is covered, if the net's own patches would be too many to be covered one by one."""
    shown = look.trace.example
    if name != "occlusion" or shown is None or shown.image is None:
        return None
    side = min(shown.image.shape[-2:])
    return max(-(-side // SQUARES), patch_side(look.trace, shown.inputs[0]))


def longest_axis(trace: Trace[Any], name: str, site: str | None) -> int:
    """How many positions it takes: of a rollout and a flow, those of its stack; else all that there are."""
    if name in ("rollout", "flow"):
        return joined_windows(attention_stack(trace, site)[-1][0].columns).size
    return max((one.columns.size for one in trace.sites.values()), default=0)


def refuse_dear(trace: Trace[Any], name: str, asked: AnalysisQuery) -> None:
    longest = longest_axis(trace, name, asked.site)
    image = trace.example is not None and trace.example.image is not None
    if longest > LONGEST.get(name, longest) and not (image and name == "occlusion"):
        raise InputError(f"too many positions for {name}", got=str(longest), expected=f"at most {LONGEST[name]}")
    if name == "flow":
        stack = attention_stack(trace, asked.site)
        size = joined_windows(stack[-1][0].columns).size
        if len(stack) * size**3 > FLOWS:
            raise InputError("too many positions for flow", got=f"{size} positions in {len(stack)} layers")
