"""Many feed-forwards, of which each token takes one.

Switch Transformers (Fedus, Zoph and Shazeer, 2021), https://arxiv.org/abs/2101.03961, section 2
    p = softmax(W x),  i = argmax p,  y = p_i E_i(x)

Shapes: b batch, n positions, m positions of the context, t real tokens, d width, h hidden width, e experts.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from .attention import Mixer
from .block import AttentionBlock
from .cache import Cache
from .dropout import Dropout
from .exchange import abroad, total
from .feedforward import Activation
from .mask import ALL, Bias, Mask
from .residual import Residual
from .tap import Tap


@dataclass(frozen=True, eq=False)
class RoutedStates:
    """Hidden states and routing statistics."""

    x: Tensor  # (b, n, d)
    load: Tensor  # for each layer that routes 1 where all experts have equal shares, e where one has all; summed
    dropped: Tensor  # how often a token's expert had no place left

    def after(self, earlier: "RoutedStates") -> "RoutedStates":
        """What was routed before counts too."""
        return RoutedStates(self.x, earlier.load + self.load, earlier.dropped + self.dropped)

    def index_select(self, axis: int, rows: Tensor) -> "RoutedStates":
        return replace(self, x=self.x.index_select(axis, rows))


class StackedLinear(nn.Module):
    """Several linear layers of the same size, stored as one tensor."""

    def __init__(self, maps: int, dim: int, out: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(maps, out, dim))
        nn.init.uniform_(self.weight, -(dim**-0.5), dim**-0.5)

    def forward(self, x: Tensor, counts: list[int]) -> Tensor:
        """(t, d) -> (t, h): the first counts[0] rows by the first layer, the next counts[1] rows by the second, and so
        on"""
        weight = self.weight.to_local() if hasattr(self.weight, "to_local") else self.weight  # this process's share
        return torch.cat([F.linear(part, own) for part, own in zip(x.split(counts), weight, strict=True)])


class Experts(nn.Module):
    """Experts: feed-forwards of the same size without biases, W2 act(W1 x), or gated W2 (act(G x) * W1 x)."""

    def __init__(
        self, experts: int, dim: int, hidden: int, act: Activation, *, dropout: float = 0.0, gated: bool = False
    ) -> None:
        super().__init__()
        self.gate = StackedLinear(experts, dim, hidden) if gated else None
        self.up = StackedLinear(experts, dim, hidden)
        self.down = StackedLinear(experts, hidden, dim)
        self.act, self.dropout = act, Dropout(dropout)

    def forward(self, x: Tensor, counts: list[int]) -> Tensor:
        """(t, d), sorted by expert -> (t, d)"""
        up = self.up(x, counts)
        hidden = self.act(up) if self.gate is None else self.act(self.gate(x, counts)) * up
        return self.down(self.dropout(hidden), counts)


class Switch(nn.Module):
    """Switch layer: each token is routed to its most probable expert, up to the expert capacity.

    An expert takes ceil(factor * t / e) tokens, the first ones of the batch; the others get zeros, so that a residual
    carries them on as they are. ``capacity`` is the factor in training and ``capacity_eval`` in evaluation; where it is
    None, all are taken. With ``room``, it takes that many tokens of each text instead. Padding takes no place and is
    never counted. Rows of the batch may be dealt to ``groups``, each with an expert's places of its own, as the
    processes of a large run have. ``jitter`` moves what the router sees in training, and not what the expert sees.
    """

    def __init__(
        self,
        dim: int,
        experts: Experts,
        *,
        capacity: float | None = 1.25,
        capacity_eval: float | None = None,
        room: int | None = None,
        jitter: float = 0.01,
        groups: int = 1,
    ) -> None:
        super().__init__()
        self.router = nn.Linear(dim, len(experts.up.weight), bias=False)
        self.experts = experts
        self.capacity, self.capacity_eval, self.room = capacity, capacity_eval, room
        self.jitter, self.groups = jitter, groups
        self.processes = 1  # that share out the experts: see ``spread_experts``
        self.routes = Tap()  # (t, e): how likely each expert is for each real token

    def forward(self, x: Tensor, real: Tensor | None = None) -> RoutedStates:
        """(b, n, d), (b, n) False at padding -> (b, n, d)"""
        flat = x.flatten(0, 1)
        places = torch.arange(len(flat), device=x.device) if real is None else real.flatten().nonzero()[:, 0]
        tokens = flat[places]
        likely = self.routes(self.probabilities(tokens))
        gate, expert = likely.max(-1)
        kept = self.admitted(expert, places // max(x.shape[1], 1), len(x)).nonzero()[:, 0]
        order = kept[expert[kept].argsort(stable=True)]
        counts = torch.bincount(expert[order], minlength=self.router.out_features).tolist()
        own = self.processes == 1
        y = self.experts(tokens[order], counts) if own else abroad(self.experts, tokens[order], counts, self.processes)
        y = (y * gate[order, None]).to(flat.dtype)  # without the gate, the router would learn nothing from the task
        y = torch.zeros_like(flat).index_copy(0, places[order], y)
        dropped = torch.tensor(len(places) - len(kept), device=x.device)
        return RoutedStates(y.view_as(x), self.load(likely, expert), dropped)

    def probabilities(self, tokens: Tensor) -> Tensor:
        """(t, d) -> (t, e), in float32 at least: with less, training is unstable (section 2.4)"""
        precise = torch.promote_types(tokens.dtype, torch.float32)
        with torch.autocast(tokens.device.type, enabled=False):
            seen = tokens.to(precise)
            if self.training and self.jitter:
                seen = seen * torch.empty_like(seen).uniform_(1 - self.jitter, 1 + self.jitter)
            return F.linear(seen, self.router.weight.to(precise)).softmax(-1)

    def admitted(self, expert: Tensor, row: Tensor, rows: int) -> Tensor:
        """(t,), (t,) -> (t,): whether the expert of a token has capacity left for it"""
        factor = self.capacity if self.training else self.capacity_eval
        if self.room is None and factor is None:
            return torch.ones_like(expert, dtype=torch.bool)
        if rows % self.groups:
            raise ValueError(f"{rows} rows cannot be divided into {self.groups} equal groups")
        groups, group = (rows, row) if self.room is not None else (self.groups, row // max(rows // self.groups, 1))
        before = standing_before(expert * groups + group)
        if self.room is not None or factor is None:
            return before < (self.room or 0)
        tokens = torch.bincount(group, minlength=groups)
        return before < (factor * tokens.double() / self.router.out_features).ceil()[group]

    def load(self, likely: Tensor, expert: Tensor) -> Tensor:
        """(t, e), (t,) -> e * sum f_i P_i (section 2.2): f is the share of tokens that want expert i, dropped or not,
        which has no gradient; P is how likely it is in the mean. Processes that share out experts count together."""
        experts = self.router.out_features
        wanted, sums = torch.bincount(expert, minlength=experts).to(likely.dtype), likely.sum(0)
        if self.processes > 1:
            wanted, sums = total(wanted), total(sums)
        tokens = wanted.sum().clamp(min=1)
        return experts * (wanted / tokens * sums / tokens).sum()


def standing_before(line: Tensor) -> Tensor:
    """(t,), the line that each one stands in -> (t,): how many of the same line came earlier"""
    order = line.argsort(stable=True)
    in_order = line[order]
    places = torch.arange(len(line), device=line.device) - torch.searchsorted(in_order, in_order)
    return torch.empty_like(line).index_copy(0, order, places)


class SwitchBlock(AttentionBlock):
    """Transformer block whose feed-forward is a switch layer; it also returns the routing statistics."""

    def __init__(
        self, mixer: Mixer, ffn: Switch, residual: Callable[[], Residual], *, cross: Mixer | None = None
    ) -> None:
        super().__init__(mixer, residual, cross)
        self.ffn, self.ffn_residual = ffn, residual()
        self.stream = Tap()

    def forward(
        self,
        x: Tensor,
        context: Tensor | None = None,
        *,
        mask: Mask = ALL,
        context_mask: Mask = ALL,
        bias: Bias | None = None,
        cache: Cache | None = None,
    ) -> RoutedStates:
        """(b, n, d), (b, m, d) -> (b, n, d)"""

        def run(x: Tensor, context: Tensor | None) -> RoutedStates:
            x = self.attend(x, context, mask, context_mask, bias, cache)
            found: list[RoutedStates] = []

            def share_out(y: Tensor) -> Tensor:
                found.append(self.ffn(y, mask.real(y.shape[1], y.device)))
                return found[0].x

            x = self.stream(self.ffn_residual(x, share_out))
            return replace(found[0], x=x)

        return self.perform(run, x, context, cache)


def run_switch_blocks(
    blocks: Iterable[nn.Module], x: Tensor, run: Callable[[nn.Module, Tensor], Tensor | RoutedStates]
) -> RoutedStates:
    """Run all blocks, with and without switch layers, and add up their routing statistics."""
    state = RoutedStates(x, torch.zeros((), device=x.device), torch.zeros((), dtype=torch.long, device=x.device))
    for block in blocks:
        y = run(block, state.x)
        state = y.after(state) if isinstance(y, RoutedStates) else replace(state, x=y)
    return state


def switch_layers(net: nn.Module) -> list[Switch]:
    """The switch layers of a net."""
    return [module for module in net.modules() if isinstance(module, Switch)]


def expert_weights(net: nn.Module) -> list[nn.Parameter]:
    """The expert weights, which differ between processes once the experts are distributed."""
    return [weight for switch in switch_layers(net) for weight in switch.experts.parameters()]


@torch.no_grad()
def spread_experts(net: nn.Module, rank: int, size: int) -> None:
    """Expert parallelism: this process keeps one of ``size`` equal parts of the experts of each switch layer.

    From here on each process routes its own tokens, sends each to the process that has its expert, and gets it back.
    All processes call the net alike and as often, forward and backward, whatever they have to read. The loss is the sum
    over processes; the gradient of an expert is then whole where the expert is, and that of any other weight has to be
    added up over processes. The training engine does so (``train.distribution = "experts"``); whoever trains otherwise
    leaves ``expert_weights`` out of that sum, and gives optimizers the weights as they are after this call.
    """
    for switch in switch_layers(net):
        experts = len(switch.experts.up.weight)
        if switch.processes > 1:
            raise ValueError("the experts are already distributed over processes")
        if experts % size:
            raise ValueError(f"{experts} experts cannot be divided equally among {size} processes")
        switch.processes = size
        for stack in stacks(switch):
            stack.weight = nn.Parameter(stack.weight.chunk(size)[rank].clone())


@torch.no_grad()
def gather_experts(net: nn.Module) -> None:
    """Gather all experts in every process again, for saving the net."""
    for switch in switch_layers(net):
        for stack in stacks(switch) if switch.processes > 1 else []:
            parts = [torch.empty_like(stack.weight) for _ in range(switch.processes)]
            dist.all_gather(parts, stack.weight.contiguous())
            stack.weight = nn.Parameter(torch.cat(parts))
        switch.processes = 1


def stacks(switch: Switch) -> list[StackedLinear]:
    return [module for module in switch.experts.modules() if isinstance(module, StackedLinear)]
