"""The head that a model must have for a goal, where it may have one of several."""

from collections.abc import Callable
from typing import Any

from regard.errors import InputError
from regard.modalities.net_needs import NetCall
from regard.modalities.run_parts import RunPlan
from regard.zoo import FAMILIES

EMBEDDED = NetCall("read", "ids, keys=", "states (b, n, dim)", verb="embed")


def head_changes(plan: RunPlan, head: str) -> dict[str, Any]:
    """Nothing for a model that has no choice; another head that the run file asks for is refused."""
    if not FAMILIES[plan.family].has("head"):
        return {}
    asked = plan.asked.get("head", head)
    if asked != head:
        raise InputError(
            f"the task {plan.task.kind!r} needs a different head", got=f"model.head = {asked!r}", expected=repr(head)
        )
    return {"head": head}


def has_head(head: str) -> Callable[[RunPlan], dict[str, Any]]:
    return lambda plan: head_changes(plan, head)
