"""Switch Transformer.

Switch Transformers: Scaling to Trillion Parameter Models with Simple and Efficient Sparsity (Fedus et al., 2021)
https://arxiv.org/abs/2101.03961
T5 with many feed-forwards in some layers, of which each token takes one: more weights, and not more work.

Differs from the paper: in evaluation no token is dropped, where the paper has a capacity factor of 2, so that what is
said of a text does not hang on the texts beside it; ``capacity_eval`` brings the factor back.

Shapes: b batch, m source tokens, n target tokens, d width, v vocabulary, e experts.
"""

from dataclasses import dataclass, replace

import torch.nn.functional as F
from torch import Tensor, nn

from regard.models.family import Family, Lens, decoder_streams, translator_verbs
from regard.nn.block import AttentionBlock
from regard.nn.cache import Cache
from regard.nn.config import not_above_zero, not_positive, not_shares
from regard.nn.feedforward import activation
from regard.nn.mechanisms import Choice
from regard.nn.switch import Experts, RoutedStates, Switch, SwitchBlock, run_switch_blocks, switch_layers

from . import t5


@dataclass(frozen=True, kw_only=True)
class Routing:
    """The routing settings of a config with switch layers."""

    experts: int = 8
    every: int = 2  # of so many layers the second is a switch; 1: all are
    capacity: float = 1.25  # of an expert in training, times its equal share of the tokens
    capacity_eval: float | None = None  # the same, outside of training; none is dropped unless it is given
    room: int | None = None  # of an expert, in tokens of each text, always; counted by the factors unless given
    jitter: float = 0.01  # of what the router sees in training

    def routing_checks(self) -> list[list[str]]:
        factors = {"capacity": None if self.capacity == Routing.capacity else self.capacity}
        factors["capacity_eval"] = self.capacity_eval
        idle = factors.items() if self.room is not None else []
        return [
            not_positive(self, "experts", "every", "room"),
            not_above_zero(self, "capacity", "capacity_eval"),
            not_shares(self, "jitter"),
            [f"{key} = {value} has no effect when room is set" for key, value in idle if value is not None],
        ]

    def switch(self, dim: int, experts: Experts) -> Switch:
        return Switch(
            dim,
            experts,
            capacity=self.capacity,
            capacity_eval=self.capacity_eval,
            room=self.room,
            jitter=self.jitter,
        )


def is_switch(layer: int, every: int) -> bool:
    """Of the layers, counted from 0."""
    return every == 1 or layer % every == 1


@dataclass(frozen=True, kw_only=True)
class Config(Routing, t5.Config):
    dim: int = 768
    depth: int = 12
    heads: int = 12
    hidden: int = 3072
    decoder_every: int | None = None  # of the decoder, unless it is as in the encoder
    expert_dropout: float | None = None  # within experts, for fine-tuning; as everywhere unless given

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.decoder_every == self.every:  # one way to say it
            object.__setattr__(self, "decoder_every", None)
        if self.expert_dropout == self.dropout:
            object.__setattr__(self, "expert_dropout", None)

    def checks(self) -> list[list[str]]:
        more = [not_positive(self, "decoder_every"), not_shares(self, "expert_dropout")]
        return [*super().checks(), *self.routing_checks(), *more]


XXL = Config(dim=4096, depth=24, heads=64, hidden=10240, gated=True, activation="gelu_tanh", tied=False)
PRESETS = {
    "switch-base-8": Config(),
    "switch-base": Config(experts=128),
    "switch-large": Config(dim=1024, depth=24, heads=16, hidden=4096, experts=128),
    "switch-xxl": replace(XXL, experts=128),  # printed are 64 experts, which 395B do not allow
    "switch-c": Config(dim=2080, depth=15, heads=32, hidden=6144, experts=2048, every=1, tied=False),
}

AXES = t5.AXES


@dataclass(frozen=True, eq=False)
class SwitchOutput:
    """Logits and routing statistics."""

    logits: Tensor  # (b, n, v)
    load: Tensor  # () to be kept small, times 0.01 in the paper: one for each switch layer when all is even
    dropped: Tensor  # () tokens that found no place, in all layers


class SwitchTransformer(t5.T5):
    config: Config

    def block(self, layer: int, choice: Choice, cross: Choice | None = None) -> AttentionBlock:
        """Every other one has experts in place of its feed-forward."""
        config, plain = self.config, super().block(layer, choice, cross)
        every = config.every if cross is None else config.decoder_every or config.every
        if not is_switch(layer, every):
            return plain
        dropout = config.dropout if config.expert_dropout is None else config.expert_dropout
        act, sizes = activation(config.activation), (config.experts, config.dim, config.hidden)
        experts = Experts(*sizes, act, dropout=dropout, gated=config.gated)
        return SwitchBlock(plain.mixer, config.switch(config.dim, experts), self.residual, cross=plain.cross)

    def reset(self) -> None:
        super().reset()
        for switch in switch_layers(self):
            self.draw(switch.router.weight, self.config.dim**-0.5)

    def draw(self, weight: Tensor, std: float) -> None:
        """A tenth of the usual variance, nothing beyond two deviations: large nets are not stable else (section 2.4)"""
        draw_small(weight, std)

    def stack(self, blocks: nn.ModuleList, norm: nn.Module, ids: Tensor, run: t5.Run) -> RoutedStates:
        found = run_switch_blocks(blocks, self.dropout(self.embed(ids)), run)
        return replace(found, x=self.dropout(norm(found.x)))

    def read(
        self,
        target: Tensor,
        memory: RoutedStates,
        *,
        source_keys: Tensor | None = None,
        keys: Tensor | None = None,
        cache: Cache | None = None,
    ) -> RoutedStates:
        """(b, n), encoder output -> (b, n, d), load and dropped tokens of both stacks"""
        found: RoutedStates = super().read(target, memory.x, source_keys=source_keys, keys=keys, cache=cache)
        return found.after(memory)

    def spoken(self, states: RoutedStates) -> Tensor:
        return super().spoken(states.x)

    def forward(
        self, source: Tensor, target: Tensor, *, source_keys: Tensor | None = None, keys: Tensor | None = None
    ) -> SwitchOutput:
        """(b, m), (b, n) -> logits (b, n, v): the target is shifted right by a start token"""
        states = self.read(target, self.encode(source, source_keys), source_keys=source_keys, keys=keys)
        return SwitchOutput(self.logits(states), states.load, states.dropped)


SCALE = 0.1  # of the variance that weights start with


def draw_small(weight: Tensor, std: float) -> None:
    std *= SCALE**0.5
    nn.init.trunc_normal_(weight, std=std, a=-2 * std, b=2 * std)


FAMILY = Family(
    config=Config,
    net=SwitchTransformer,
    presets=PRESETS,
    axes=AXES,
    paper="Fedus, Zoph and Shazeer 2021, Switch Transformers",
    link="https://arxiv.org/abs/2101.03961",
    takes=("text", "text"),
    tasks=("translate", "spans"),
    verbs=translator_verbs,
    example=lambda: Config(vocab=13, dim=16, depth=2, heads=4, head_dim=4, hidden=24, buckets=8, farthest=6, experts=3),
    lens=Lens(decoder_streams, lambda net, x: F.linear(t5.T5.spoken(net, net.decoder_norm(x)), *net.words())),
    compared="regard.modalities.text.compared:pairing",
)
