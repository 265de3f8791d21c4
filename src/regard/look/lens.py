"""The logit lens: what a net would answer, were each of its layers the last.

interpreting GPT: the logit lens (nostalgebraist, 2020),
https://www.lesswrong.com/posts/AcKRB8wDpdaN6v6ru/interpreting-gpt-the-logit-lens
    logits_l = head(norm(x_l))
with x_l the residual stream after block l, and the net's own last norm and head. After the last block it is the net's
own answer. Of a net that writes, each position tells what it would say; of one that sees, the image has one answer.

It does not tell what a layer knows, only what is already written as the head reads it: Eliciting Latent Predictions
from Transformers with the Tuned Lens (Belrose et al., 2023), https://arxiv.org/abs/2303.08112, shows early layers of
many nets to be biased in it, and learns a map for each layer instead.

Only a stack of blocks that ends in one head has such a lens, and how it ends the family's own file tells (``Lens``). A
head reads what is as wide as the last layer and comes to it by nothing but sums: of a pyramid (Swin, LeViT), the blocks
of its last stage; where a class token comes late (CaiT, VOLO), the layers that it has passed; of latents, every block.
What has two streams, or no head, is refused.

Shapes: b batch, n positions, d width, v vocabulary, c classes.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.deprecation import resolve_renamed
from regard.errors import InputError
from regard.models.family import Lens
from regard.nn.tap import listen
from regard.zoo import FAMILIES, family_of

from .maps import attention_name

EQUATION = "logits_l = head(norm(x_l))"
LIMIT = "It does not show all that a layer encodes: only what the output head can already read from it."


@dataclass(frozen=True, eq=False)
class LensLayer:
    """The logits of the output head applied after one block."""

    name: str  # of the block: "blocks.3"
    logits: Tensor  # (b, n, v), or (b, c) of a net that sees images


def logit_lens(net: nn.Module, run: Callable[[], object]) -> Iterator[LensLayer]:
    """Logits after each block, in the order in which ``run`` passes them. The forward pass runs once, at once; the
    output head is applied lazily, block by block, to limit memory.
    """
    net = getattr(net, "_orig_mod", net)  # of a compiled one
    lens, streams, others = lens_of(net), [], list[Tensor]()

    def keep(tap: str, x: Tensor) -> None:
        streams.append((attention_name(tap), torch.cat((x, others[-1]), 1) if others else x))

    with torch.inference_mode(), ExitStack() as listening:
        listening.enter_context(listen(net, lens.streams(net), keep, records=True))
        if lens.beside is not None:
            listening.enter_context(listen(net, lens.beside(net), lambda _, x: others.append(x), records=True))
        run()
    return read_off(net, lens, streams)


@torch.inference_mode()
def read_off(net: nn.Module, lens: Lens, streams: Sequence[tuple[str, Tensor]]) -> Iterator[LensLayer]:
    for name, stream in streams:
        yield LensLayer(name, lens.read(net, stream))


def lens_of(net: nn.Module) -> Lens:
    """That of the family that stands in the net's own file; what is derived from a net may end otherwise."""
    family = family_of(net)
    lens = None if family is None else family.lens
    if lens is None:
        raise InputError(
            "the logit lens does not support this architecture",
            got=type(net).__name__,
            expected=f"one of {', '.join(name for name, row in FAMILIES.items() if row.lens is not None)}",
        )
    if not lens.headed(net):
        raise InputError(
            "the logit lens needs a model with an output head over tokens or classes",
            got=type(net).__name__,
            expected="a masked language model head (BERT), or a classification head (vision models)",
        )
    return lens


def __getattr__(name: str) -> object:
    return resolve_renamed(__name__, name, {"through_lens": "regard.look.lens.logit_lens"})
