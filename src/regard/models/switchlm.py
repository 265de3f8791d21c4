"""A language model with switch layers.

Switch Transformers (Fedus et al., 2021), https://arxiv.org/abs/2101.03961
GPT with many feed-forwards in some layers, of which each token takes one. The paper's own models read and write
(``regard.models.switch``); this one only writes, and is what its small experiments need. With one expert it is a GPT
whose feed-forwards have no biases, to the bit.

Shapes: b batch, n tokens, d width, v vocabulary, e experts.
"""

from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from regard.models.family import Family, Lens, apply_norm, block_streams, generator_verbs
from regard.nn.block import AttentionBlock
from regard.nn.cache import Cache
from regard.nn.config import not_shares
from regard.nn.feedforward import activation
from regard.nn.loss import CrossEntropy
from regard.nn.mechanisms import Choice
from regard.nn.switch import Experts, RoutedStates, StackedLinear, SwitchBlock, run_switch_blocks

from . import gpt
from .switch import Routing, SwitchOutput, draw_small, is_switch


@dataclass(frozen=True, kw_only=True)
class Config(Routing, gpt.Config):
    biases: gpt.Biases = "attention"  # which linear maps have one; experts never do
    expert_dropout: float = 0.0  # within experts

    def checks(self) -> list[list[str]]:
        return [*super().checks(), *self.routing_checks(), not_shares(self, "expert_dropout")]


PRESETS = {"switch-lm-tiny": Config(vocab=256, length=256, dim=128, depth=4, heads=4)}

AXES = gpt.AXES


class SwitchLM(gpt.GPT):
    config: Config

    def block(self, layer: int, choice: Choice) -> AttentionBlock:
        """Every other one has experts in place of its feed-forward."""
        config, plain = self.config, super().block(layer, choice)
        if not is_switch(layer, config.every):
            return plain
        act, sizes = activation(config.activation), (config.experts, config.dim, config.hidden or 4 * config.dim)
        experts = Experts(*sizes, act, dropout=config.expert_dropout, gated=config.gated)
        return SwitchBlock(plain.mixer, config.switch(config.dim, experts), self.residual)

    def reset(self) -> None:
        super().reset()
        for name, module in self.named_modules():
            if isinstance(module, nn.Linear | StackedLinear) and name != "head":
                draw_small(module.weight, module.weight.shape[-1] ** -0.5)

    def stack(self, x: Tensor, run: Any) -> RoutedStates:
        found = run_switch_blocks(self.blocks, x, run)
        return found if self.norm is None else replace(found, x=self.norm(found.x))

    def logits(self, states: RoutedStates) -> Tensor:
        return super().logits(states.x)

    def score(
        self, states: RoutedStates, wanted: Tensor, *, real: Tensor | None = None, smoothing: float = 0.0
    ) -> CrossEntropy:
        return super().score(states.x, wanted, real=real, smoothing=smoothing)

    def forward(self, ids: Tensor, *, keys: Tensor | None = None, cache: Cache | None = None) -> SwitchOutput:
        """(b, n) -> (b, n, v) and more; keys is False at padding; with a cache, ids holds only the new tokens"""
        states = self.read(ids, keys=keys, cache=cache)
        return SwitchOutput(self.logits(states), states.load, states.dropped)


FAMILY = Family(
    config=Config,
    net=SwitchLM,
    presets=PRESETS,
    axes=AXES,
    paper="Fedus, Zoph and Shazeer 2021, Switch Transformers",
    link="https://arxiv.org/abs/2101.03961",
    takes=("text",),
    tasks=("language",),
    verbs=generator_verbs,
    example=lambda: Config(vocab=13, length=12, dim=16, depth=2, heads=4, hidden=24, experts=3),
    lens=Lens(block_streams, lambda net, x: gpt.GPT.logits(net, apply_norm(net.norm, x))),
    offered={"switch-lm-tiny": 2_669_440},
    compared="regard.modalities.text.compared:decoder",
)
