"""The logit lens: what a net would answer, were each of its layers the last.

interpreting GPT: the logit lens (nostalgebraist, 2020),
https://www.lesswrong.com/posts/AcKRB8wDpdaN6v6ru/interpreting-gpt-the-logit-lens
    logits_l = head(norm(x_l))
with x_l the residual stream after block l, and the net's own last norm and head. After the last block it is the net's
own answer. Of a net that writes, each position tells what it would say; of one that sees, the image has one answer.

It does not tell what a layer knows, only what is already written as the head reads it: Eliciting Latent Predictions
from Transformers with the Tuned Lens (Belrose et al., 2023), https://arxiv.org/abs/2303.08112, shows early layers of
many nets to be biased in it, and learns a map for each layer instead.

Only a stack of blocks that ends in one head has such a lens, and how it ends is a row of ``ENDINGS``. A head reads what
is as wide as the last layer and comes to it by nothing but sums: of a pyramid (Swin, LeViT), the blocks of its last
stage; where a class token comes late (CaiT, VOLO), the layers that it has passed; of latents, every block. What has two
streams, or no head, is refused.

Shapes: b batch, n positions, d width, v vocabulary, c classes.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import InputError
from regard.models.bert import BERT
from regard.models.cait import CaiT
from regard.models.captioner import Captioner
from regard.models.deit import DeiT
from regard.models.gpt import GPT
from regard.models.levit import LeViT
from regard.models.mixer import Mixer
from regard.models.perceiver import Perceiver
from regard.models.swin import Swin
from regard.models.swinv2 import SwinV2
from regard.models.switch import SwitchTransformer
from regard.models.switchlm import SwitchLM
from regard.models.t5 import T5
from regard.models.transformer import Transformer
from regard.models.vit import ViT
from regard.models.volo import VOLO
from regard.nn.tap import listen

from .maps import place

EQUATION = "logits_l = head(norm(x_l))"
LIMIT = "It does not tell what a layer knows: only what already stands there as the last layer's head would read it."


Seer = ViT | DeiT | Mixer | CaiT | VOLO | Swin | SwinV2 | LeViT


@dataclass(frozen=True, eq=False)
class Layer:
    """What the net would answer after one block, before a softmax."""

    name: str  # of the block: "blocks.3"
    logits: Tensor  # (b, n, v), or (b, c) of a net that sees images


@dataclass(frozen=True)
class Ending:
    """How a net goes on from its last block."""

    streams: Callable[[Any], str]  # the net's taps after its blocks
    speaks: Callable[[Any], bool]  # whether the net has such a head
    say: Callable[[Any, Tensor], Tensor]  # the net and a stream, (b, n, d) -> (b, n, v) or (b, c)
    beside: Callable[[Any], str] | None = None  # the tap of what is read after the stream, and no longer changes


def always(_: nn.Module) -> bool:
    return True  # words are held against the embedding, if against no matrix of their own


def headed(net: Seer) -> bool:
    return net.head is not None


def classes(net: ViT | DeiT | Mixer | CaiT | VOLO, stream: Tensor) -> Tensor:
    return net.classified(net.norm(stream))


def blocks(_: nn.Module) -> str:
    return "blocks.*.stream"


def decoder(_: nn.Module) -> str:
    return "decoder.*.stream"


def looks(_: nn.Module) -> str:
    return "looks.*.stream"


def last_block(net: VOLO) -> str:
    return f"blocks.{len(net.blocks) - 1}.stream"


def last_stage(net: Swin | SwinV2 | LeViT) -> str:
    """Earlier ones are of another width, or what follows them is no sum."""
    return f"stages.{len(net.stages) - 1}.blocks.*.stream"


def unbroken(net: SwinV2) -> str:
    """Its last stage, where nothing but sums stands between the blocks."""
    config = net.config
    if config.every is not None and config.depth[-1] >= config.every:
        raise InputError(
            "in the last stage of this net a norm stands after some blocks, which a logit lens would leave out",
            got=f"every = {config.every}, {config.depth[-1]} blocks",
        )
    return last_stage(net)


def normed(norm: nn.Module | None, stream: Tensor) -> Tensor:
    """Post-norm ends in a norm by itself."""
    found: Tensor = stream if norm is None else norm(stream)
    return found


ENDINGS: dict[type[nn.Module], Ending] = {
    GPT: Ending(blocks, always, lambda net, x: net.logits(normed(net.norm, x))),
    SwitchLM: Ending(blocks, always, lambda net, x: GPT.logits(net, normed(net.norm, x))),
    BERT: Ending(blocks, lambda net: net.words is not None, BERT.guessed),
    Transformer: Ending(decoder, always, lambda net, x: net.logits(normed(net.decoder_norm, x))),
    T5: Ending(decoder, always, lambda net, x: net.logits(net.decoder_norm(x))),
    SwitchTransformer: Ending(
        decoder, always, lambda net, x: F.linear(T5.spoken(net, net.decoder_norm(x)), *net.words())
    ),
    Captioner: Ending(decoder, always, lambda net, x: net.logits(net.norm(x))),
    ViT: Ending(blocks, headed, classes),
    DeiT: Ending(blocks, headed, classes),
    Mixer: Ending(blocks, headed, classes),
    CaiT: Ending(looks, headed, classes),
    VOLO: Ending(looks, headed, classes, beside=last_block),
    Swin: Ending(last_stage, headed, lambda net, x: net.classified(net.norm(x).flatten(1, 2))),
    SwinV2: Ending(unbroken, headed, lambda net, x: net.classified(net.norm(x).flatten(1, 2))),
    LeViT: Ending(last_stage, headed, lambda net, x: net.classified(x.flatten(1, 2))),
    Perceiver: Ending(lambda _: "latents.blocks.*.stream", always, Perceiver.classified),
}


def through_lens(net: nn.Module, run: Callable[[], object]) -> Iterator[Layer]:
    """After each block that ``run`` passes, in order: one pass now, and the head once for each block when it is asked
    for, since all words for all positions of all layers would fill the memory.
    """
    net = getattr(net, "_orig_mod", net)  # of a compiled one
    ending, streams, others = ending_of(net), [], list[Tensor]()

    def keep(tap: str, x: Tensor) -> None:
        streams.append((place(tap), torch.cat((x, others[-1]), 1) if others else x))

    with torch.inference_mode(), ExitStack() as listening:
        listening.enter_context(listen(net, ending.streams(net), keep, records=True))
        if ending.beside is not None:
            listening.enter_context(listen(net, ending.beside(net), lambda _, x: others.append(x), records=True))
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
