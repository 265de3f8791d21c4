"""The logit lens: what a net would answer, were each of its layers the last.

interpreting GPT: the logit lens (nostalgebraist, 2020),
https://www.lesswrong.com/posts/AcKRB8wDpdaN6v6ru/interpreting-gpt-the-logit-lens
    logits_l = head(norm(x_l))
with x_l the residual stream after block l, and the net's own last norm and head. After the last block it is the net's
own answer. Of a net that writes, each position tells what it would say; of one that sees, the image has one answer.

It does not tell what a layer knows, only what is already written as the head reads it: Eliciting Latent Predictions
from Transformers with the Tuned Lens (Belrose et al., 2023), https://arxiv.org/abs/2303.08112, shows early layers of
many nets to be biased in it, and learns a map for each layer instead.

Only a stack of blocks that ends in one head has such a lens, and how it ends is a row of ``ENDINGS``. What changes its
width or its number of positions on the way (a pyramid, latents, two streams), or has no head, is refused.

Shapes: b batch, n positions, d width, v vocabulary, c classes.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import InputError
from regard.models.bert import BERT
from regard.models.captioner import Captioner
from regard.models.deit import DeiT
from regard.models.gpt import GPT
from regard.models.mixer import Mixer
from regard.models.switch import SwitchTransformer
from regard.models.switchlm import SwitchLM
from regard.models.t5 import T5
from regard.models.transformer import Transformer
from regard.models.vit import ViT
from regard.nn.tap import listen

from .maps import place

EQUATION = "logits_l = head(norm(x_l))"
LIMIT = "It does not tell what a layer knows: only what already stands there as the last layer's head would read it."


@dataclass(frozen=True, eq=False)
class Layer:
    """What the net would answer after one block, before a softmax."""

    name: str  # of the block: "blocks.3"
    logits: Tensor  # (b, n, v), or (b, c) of a net that sees images


@dataclass(frozen=True)
class Ending:
    """How a net goes on from its last block."""

    streams: str  # the taps after its blocks
    speaks: Callable[[Any], bool]  # whether the net has such a head
    say: Callable[[Any, Tensor], Tensor]  # the net and a stream, (b, n, d) -> (b, n, v) or (b, c)


def always(_: nn.Module) -> bool:
    return True  # words are held against the embedding, if against no matrix of their own


def headed(net: ViT | DeiT | Mixer) -> bool:
    return net.head is not None


def classes(net: ViT | DeiT | Mixer, stream: Tensor) -> Tensor:
    return net.classified(net.norm(stream))


def normed(norm: nn.Module | None, stream: Tensor) -> Tensor:
    """Post-norm ends in a norm by itself."""
    found: Tensor = stream if norm is None else norm(stream)
    return found


ENDINGS: dict[type[nn.Module], Ending] = {
    GPT: Ending("blocks.*.stream", always, lambda net, x: net.logits(normed(net.norm, x))),
    SwitchLM: Ending("blocks.*.stream", always, lambda net, x: GPT.logits(net, normed(net.norm, x))),
    BERT: Ending("blocks.*.stream", lambda net: net.words is not None, BERT.guessed),
    Transformer: Ending("decoder.*.stream", always, lambda net, x: net.logits(normed(net.decoder_norm, x))),
    T5: Ending("decoder.*.stream", always, lambda net, x: net.logits(net.decoder_norm(x))),
    SwitchTransformer: Ending(
        "decoder.*.stream", always, lambda net, x: F.linear(T5.spoken(net, net.decoder_norm(x)), *net.words())
    ),
    Captioner: Ending("decoder.*.stream", always, lambda net, x: net.logits(net.norm(x))),
    ViT: Ending("blocks.*.stream", headed, classes),
    DeiT: Ending("blocks.*.stream", headed, classes),
    Mixer: Ending("blocks.*.stream", headed, classes),
}


def through_lens(net: nn.Module, run: Callable[[], object]) -> Iterator[Layer]:
    """After each block that ``run`` passes, in order: one pass now, and the head once for each block when it is asked
    for, since all words for all positions of all layers would fill the memory.
    """
    net = getattr(net, "_orig_mod", net)  # of a compiled one
    ending, streams = ending_of(net), []

    def keep(tap: str, x: Tensor) -> None:
        streams.append((place(tap), x))

    with torch.inference_mode(), listen(net, ending.streams, keep, records=True):
        run()
    return read_off(net, ending, streams)


@torch.inference_mode()
def read_off(net: nn.Module, ending: Ending, streams: Sequence[tuple[str, Tensor]]) -> Iterator[Layer]:
    for name, stream in streams:
        yield Layer(name, ending.say(net, stream))


def ending_of(net: nn.Module) -> Ending:
    ending = ENDINGS.get(type(net))  # not of what is derived from it, which may end otherwise
    if ending is None:
        raise InputError(
            "there is no logit lens for such a net",
            got=type(net).__name__,
            expected=f"one of {', '.join(kind.__name__ for kind in ENDINGS)}",
        )
    if not ending.speaks(net):
        raise InputError(
            "a logit lens reads every layer by the net's own head, and this one has none for it",
            got=type(net).__name__,
            expected="words at the end of a BERT, classes at that of a net that sees images",
        )
    return ending
