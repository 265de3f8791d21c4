"""What a task and its verb ask of a net: the methods that they call, and the keys of its config that they read.

A goal's row says so for each kind of input; `regard.register` and `regard contract` check a family against it.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from regard.models.family import Family

FORWARD = "forward"  # the net itself is called


@dataclass(frozen=True)
class NetCall:
    """A method of a net. ``asked`` are the arguments as they are given: those by name end in "="."""

    name: str
    asked: str
    gives: str
    verb: str = ""  # only of a family with this verb
    when: str = ""  # only with this setting, which a family may do without
    stepwise: bool = False  # only of a net that decodes with a cache: not if it says stepwise = False

    def words(self) -> str:
        place = "net" if self.name == FORWARD else f"net.{self.name}"
        return f"{place}({self.asked}) -> {self.gives}"

    def condition(self) -> str:
        verb = f"for the verb {self.verb}" if self.verb else ""
        unless = "unless the net has stepwise = False" if self.stepwise else ""
        return ", ".join(filter(None, (verb, f"with {self.when}" if self.when else "", unless)))

    def accepted_by(self, method: Callable[..., Any], bound: bool) -> bool:
        """Whether a method takes these arguments; one whose arguments nobody can tell is believed."""
        names = self.asked.split(", ")
        given = [name for name in names if not name.endswith("=")]
        named = {name.removesuffix("="): None for name in names if name.endswith("=")}
        try:
            inspect.signature(method).bind(*([] if bound else [None]), *given, **named)
        except TypeError:
            return False
        except ValueError:
            return True
        return True


@dataclass(frozen=True)
class NetNeeds:
    calls: tuple[NetCall, ...]
    keys: tuple[str, ...] = ()  # of the config


NeedsByMedia = Mapping[tuple[str, ...], NetNeeds]


def unmet_needs(row: "Family", tasks: tuple[str, ...]) -> list[str]:
    """What these tasks ask for and the family has not, each in words. A task that is not known yet asks for nothing."""
    from .goals import GOALS

    return [words for task in tasks if task in GOALS.rows for words in missing(row, task, GOALS[task].needs)]


def missing(row: "Family", task: str, needs: NeedsByMedia) -> Iterator[str]:
    if row.takes not in needs:
        return
    own, subject = needs[row.takes], f"task {task} on {' and '.join(row.takes)}"
    verbs = row.verbs(row.example(), task)
    net = getattr(row.net, "__name__", "the network")
    for call in own.calls:
        whole = call.stepwise and getattr(row.net, "stepwise", True) is False
        if call.when or whole or (call.verb and call.verb not in verbs):
            continue
        found = method_of(row, call.name)
        if found is None:
            yield f"{subject} calls {call.words()}; {net} has none"
        elif not call.accepted_by(*found):
            place = net if call.name == FORWARD else f"{net}.{call.name}"
            yield f"{subject} calls {call.words()}; {place} takes {inspect.signature(found[0])}"
    for key in own.keys:
        if not row.has(key):
            yield f"{subject} reads config.{key}; {row.config.__name__} has no such key"


def method_of(row: "Family", name: str) -> tuple[Callable[..., Any], bool] | None:
    """A method of the class, or a layer of the net where the class has none; and whether it is bound to a net."""
    found = getattr(row.net, name, None)
    if found is not None:
        return found, False
    with torch.random.fork_rng(devices=[]):
        own = getattr(row.net(row.example()), name, None)
    return None if own is None else (own, True)


def needs_table(goals: Any) -> list[str]:
    """Of all tasks, as lines of Markdown."""
    lines = ["| task | inputs | calls | config keys |", "|---|---|---|---|"]
    for task, goal in goals.items():
        for media, own in goal.needs.items():
            calls = [f"`{x.words()}`" + (f" ({x.condition()})" if x.condition() else "") for x in own.calls]
            keys = ", ".join(f"`{key}`" for key in own.keys)
            lines.append(f"| `{task}` | {' and '.join(media)} | {'<br>'.join(calls)} | {keys} |")
    return lines
