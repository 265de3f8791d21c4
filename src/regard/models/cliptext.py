"""The text encoder of CLIP, which also conditions Stable Diffusion.

Learning Transferable Visual Models From Natural Language Supervision (Radford et al., 2021)
https://arxiv.org/abs/2103.00020
A causal pre-norm Transformer; the state at the token that ends a text has read all of it, and stands for the text.

Differs from the paper: classes, for training on labels.

Shapes: b batch, n tokens, d width, e joint width, c classes.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from regard.models.family import Family, classifier_verbs
from regard.nn.axis import Axis
from regard.nn.block import Block
from regard.nn.config import not_above_zero, not_at_least, not_divided, not_one_of, not_positive, not_shares, refuse
from regard.nn.embed import Lookup
from regard.nn.feedforward import ACTIVATIONS, FeedForward, activation
from regard.nn.mask import Mask, fitted_keys
from regard.nn.mechanisms import Choice, build_mixer, layer_choices, unknown_choices
from regard.nn.positions import Learned
from regard.nn.residual import Branch, PreNorm
from regard.nn.site import Site

# The token whose state stands for the text: the first end token; or the one with the largest id, as the paper's code
# finds the end, whose id is the last of its vocabulary.
Ending = Literal["first", "highest"]


@dataclass(frozen=True, kw_only=True)
class Config:
    vocab: int = 49408
    length: int = 77
    dim: int = 512
    depth: int = 12
    heads: int = 8
    hidden: int = 2048
    joint: int | None = None  # width of the space shared with images, if there is a projection into it
    classes: int = 0  # 0: no head
    ending: Ending = "first"
    end: int | None = None  # id of the end token; without one, and in a text without it, the last token is taken
    attention_dropout: float = 0.0
    eps: float = 1e-5
    activation: str = "quick_gelu"
    attention: Choice = "softmax"

    def __post_init__(self) -> None:
        refuse(
            not_positive(self, "vocab", "length", "dim", "depth", "heads", "hidden", "joint"),
            not_at_least(0, self, "classes", "end"),
            not_above_zero(self, "eps"),
            not_shares(self, "attention_dropout"),
            not_divided(self, "dim", "heads"),
            not_one_of(ACTIVATIONS, self, "activation"),
            unknown_choices(self, "attention"),
            not_end(self.end, self.vocab, self.ending),
        )


def not_end(end: int | None, vocab: int, ending: Ending) -> list[str]:
    if end is None or not isinstance(end, int) or not isinstance(vocab, int):
        return []
    beyond = [f"end = {end} is not an id of a vocabulary of {vocab}"] if end >= vocab else []
    return beyond + (["end is not used with ending = 'highest'"] if ending == "highest" else [])


PRESETS = {
    "cliptext-tiny": Config(vocab=256, dim=128, depth=4, heads=4, hidden=512),
    "cliptext-base": Config(ending="highest"),
    "cliptext-large": Config(ending="highest", dim=768, heads=12, hidden=3072),
    # Of Stable Diffusion 2, which leaves out the last of OpenCLIP's 24 layers.
    "cliptext-huge": Config(ending="highest", dim=1024, depth=23, heads=16, hidden=4096, activation="gelu"),
}
PAPERS = {
    "cliptext-huge": (
        "Cherti et al. 2023, Reproducible Scaling Laws for Contrastive Language-Image Learning",
        "https://arxiv.org/abs/2212.07143",
    )
}

AXES = {"blocks.*.mixer": ("tokens", "tokens")}


class CLIPText(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embed = Lookup(config.vocab, config.dim)
        self.positions = Learned(config.length, config.dim)
        self.blocks = nn.ModuleList(map(self.block, layer_choices(config.attention, config.depth)))
        self.norm = nn.LayerNorm(config.dim, config.eps)
        self.projection = None if config.joint is None else nn.Linear(config.dim, config.joint, bias=False)
        self.label = nn.Linear(config.dim, config.classes) if config.classes else None
        self.reset()

    def block(self, choice: Choice) -> Block:
        config = self.config
        site = Site(
            dim=config.dim,
            heads=config.heads,
            length=config.length,
            causal=True,
            dropout=config.attention_dropout,
        )
        return Block(
            build_mixer(choice, site),
            FeedForward(config.dim, config.hidden, activation(config.activation)),
            lambda: PreNorm(nn.LayerNorm(config.dim, config.eps), Branch(config.dim)),
        )

    def reset(self) -> None:
        """As the paper's code: by the width; what ends a residual branch is smaller, since 2 * depth of them add up."""
        reset_blocks(self.blocks, self.config.dim)
        nn.init.normal_(self.embed.weight, std=0.02)
        nn.init.normal_(self.positions.weight, std=0.01)
        for last in (self.projection, self.label):
            if last is not None:
                nn.init.normal_(last.weight, std=self.config.dim**-0.5)

    def features(self, ids: Tensor, keys: Tensor | None = None) -> Tensor:
        """(b, n) -> (b, n, d): the last hidden state, after the final norm; keys is False at padding"""
        mask = Mask(causal=True, keys=fitted_keys(keys, ids))
        x = self.embed(ids) + self.positions(mask.positions(ids.shape[1], ids.device))
        for block in self.blocks:
            x = block(x, mask=mask)
        return self.norm(x)

    def pooled(self, states: Tensor, ids: Tensor, keys: Tensor | None = None) -> Tensor:
        """(b, n, d), (b, n) -> (b, d): the state at the end of each text"""
        if len(ids) and not ids.shape[1]:
            raise ValueError(f"the end of a text is read: got {len(ids)} rows of 0 tokens, expected at least 1 token")
        if not len(ids):
            return states.sum(1)
        return states[torch.arange(len(ids), device=ids.device), self.places(ids, keys)]

    def places(self, ids: Tensor, keys: Tensor | None = None) -> Tensor:
        """(b, n) -> (b,): where each text ends"""
        real = torch.ones_like(ids, dtype=torch.bool) if keys is None else keys
        if self.config.ending == "highest":
            return ids.masked_fill(~real, -1).argmax(1)
        last = (real * torch.arange(ids.shape[1], device=ids.device)).argmax(1)
        if self.config.end is None:
            return last
        ends = (ids == self.config.end) & real
        return torch.where(ends.any(1), ends.int().argmax(1), last)

    def read(self, ids: Tensor, *, keys: Tensor | None = None) -> Tensor:
        """(b, n) -> (b, d), or (b, e) with a projection: one vector for each text"""
        found = self.pooled(self.features(ids, keys), ids, keys)
        return found if self.projection is None else self.projection(found)

    def labelled(self, ids: Tensor, *, segments: Tensor | None = None, keys: Tensor | None = None) -> Tensor:
        """Logits of the classes of a text: (b, n) -> (b, c). It has no segments: two texts are told apart by a
        token."""
        if self.label is None:
            raise ValueError("this model has no classes")
        return self.label(self.pooled(self.features(ids, keys), ids, keys))

    def forward(self, ids: Tensor, *, keys: Tensor | None = None) -> Tensor:
        """(b, n) -> (b, c), or without classes one vector for each text: (b, e) or (b, d)"""
        return self.read(ids, keys=keys) if self.label is None else self.labelled(ids, keys=keys)

    def axes(self, ids: Tensor) -> dict[str, Axis]:
        return {"tokens": Axis("text", ids.shape[1])}


def reset_blocks(blocks: nn.ModuleList, dim: int) -> None:
    """The initial weights of both towers of CLIP."""
    last = (2 * len(blocks)) ** -0.5
    for name, parameter in blocks.named_parameters():
        if name.endswith("bias"):
            nn.init.zeros_(parameter)
        elif name.endswith("up.weight"):
            nn.init.normal_(parameter, std=(2 * dim) ** -0.5)
        elif parameter.ndim == 2:
            ends = name.endswith(("out.weight", "down.weight"))
            nn.init.normal_(parameter, std=dim**-0.5 * (last if ends else 1.0))


FAMILY = Family(
    config=Config,
    net=CLIPText,
    presets=PRESETS,
    axes=AXES,
    paper="Radford et al. 2021, Learning Transferable Visual Models From Natural Language Supervision",
    link="https://arxiv.org/abs/2103.00020",
    takes=("text",),
    tasks=("classify",),
    verbs=classifier_verbs,
    example=lambda: Config(vocab=13, length=12, dim=16, depth=2, heads=4, hidden=24, classes=5),
    papers=PAPERS,
)
