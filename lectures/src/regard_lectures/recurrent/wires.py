"""Who is joined to whom in a recurrent network, found by running it: the diagrams are drawn from this.

Every state is cut off from its past as it passes, and goes on as a thing of its own. What has a slope by it after that,
with all that lies between cut as well, is joined to it by one arrow.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.models.recurrent import RecurrentReader
from regard.models.rnn import RNNTranslator
from regard.nn.recurrent import Recurrent
from regard.nn.tap import listen

CONTEXT = "context"  # what a look at the source brings
CONDITION = "condition"  # what a first state is made from


class Node(NamedTuple):
    """What says it and for which word, from 0. Inputs are "x" and "given" (what was written so far), outputs "y"."""

    name: str
    place: int


Wires = list[tuple[Node, Node]]  # from, to


class Cuts:
    """What was made, and what the others were given in its stead; an LSTM's node has two of each, h and c."""

    def __init__(self) -> None:
        self.made: list[tuple[Node, Tensor]] = []
        self.given: list[tuple[Node, Tensor]] = []

    def cut(self, node: Node, x: Tensor) -> Tensor:
        self.made.append((node, x))
        self.given.append((node, x.detach().requires_grad_()))
        return self.given[-1][1]

    def words(self, name: str, x: Tensor) -> Tensor:
        """(1, n, d): each word by itself"""
        return torch.stack([self.cut(Node(name, i), part) for i, part in enumerate(x.unbind(1))], 1)

    @contextmanager
    def states(self, net: nn.Module, pattern: str, place: Callable[[str, int], Node]) -> Iterator[None]:
        """Within, all that passes the taps of this name is cut; ``place`` tells whose the i-th call is."""
        calls: Counter[str] = Counter()

        def hear(name: str, x: Tensor) -> Tensor:
            calls[name] += 1
            return self.cut(place(name, calls[name] - 1), x)

        with listen(net, pattern, hear):
            yield

    def outputs(self, y: Tensor) -> None:
        """(1, n, v)"""
        self.made += [(Node("y", i), part) for i, part in enumerate(y.unbind(1))]

    def wires(self) -> Wires:
        found = set()
        for node, x in self.made:
            if not x.requires_grad:
                continue
            leaves = [leaf for _, leaf in self.given]
            slopes = torch.autograd.grad(x, leaves, torch.randn_like(x), retain_graph=True, allow_unused=True)
            for (other, _), slope in zip(self.given, slopes, strict=True):
                if other != node and slope is not None and bool(slope.any()):
                    found.add((other, node))
        return sorted(found)


def layer_wires(net: Recurrent, x: Tensor) -> Wires:
    """Of layers over (1, n, d); a state is named by its cell: ahead.0, back.1"""
    cuts, last = Cuts(), x.shape[1] - 1

    def place(name: str, call: int) -> Node:
        return Node(name.rpartition(".")[0], last - call if "back" in name else call)

    with cuts.states(net, "*.[hc]", place):
        cuts.outputs(net(cuts.words("x", x)).outputs)
    return cuts.wires()


def reader_wires(net: RecurrentReader, ids: Tensor, condition: Tensor | None = None) -> Wires:
    """Of a reader over (1, n), and (1, k) if it has a condition; a label is said at the last word."""
    cuts = Cuts()
    hook = net.embed.register_forward_hook(lambda _, __, words: cuts.words("x", words))
    with cuts.states(net, "*.[hc]", lambda name, call: Node(name.split(".", 1)[1].rpartition(".")[0], call)):
        given = None if condition is None else cuts.cut(Node(CONDITION, 0), condition)
        said = net(ids, condition=given)
    hook.remove()
    if said.ndim == 3:
        cuts.outputs(said)
    else:
        cuts.made.append((Node("y", ids.shape[1] - 1), said))
    return cuts.wires()


def translator_wires(net: RNNTranslator, source: Tensor, target: Tensor) -> Wires:
    """Of a translator with two tables of words, over (1, m) and (1, n); states are named by their cells."""
    cuts, last = Cuts(), source.shape[1] - 1

    def place(name: str, call: int) -> Node:
        turned = name.startswith("encoder") and ("back" in name or net.config.backwards)
        return Node(name.rpartition(".")[0], last - call if turned else call)

    assert net.target_embed is not None
    hooks = [
        table.register_forward_hook(lambda _, __, words, name=name: cuts.words(name, words))
        for name, table in (("x", net.embed), ("given", net.target_embed))
    ]
    with ExitStack() as stack:
        stack.enter_context(cuts.states(net, "*.[hc]", place))
        if net.decoder.cross is not None:
            stack.enter_context(cuts.states(net, "*.mixed", lambda _, call: Node(CONTEXT, call)))
        cuts.outputs(net(source, target))
    for hook in hooks:
        hook.remove()
    return cuts.wires()


def shortest(wires: Wires, start: Node, end: Node) -> list[Node]:
    """What stands on the shortest way from one to the other."""
    ways, waiting = {start: [start]}, deque([start])
    while waiting and end not in ways:
        here = waiting.popleft()
        for one, other in wires:
            if one == here and other not in ways:
                ways[other] = [*ways[here], other]
                waiting.append(other)
    if end not in ways:
        raise ValueError(f"nothing leads from {start} to {end}")
    return ways[end][1:-1]
