"""Words of a prompt are swapped, and the image keeps its composition: it is drawn with the attention maps of the prompt
as it was.

Prompt-to-Prompt Image Editing with Cross Attention Control (Hertz et al., 2022), https://arxiv.org/abs/2208.01626,
section 3.1, "word swap"
    M_t = maps of the first prompt in the first share of the steps, after them its own

Differs from the paper: prompts have the same number of tokens, and the maps of self-attention are not kept, which the
paper's code does for a smaller share of the steps.

Both images are drawn side by side, step by step, so that the maps of one step alone are in memory.

Shapes: b the prompt and, with guidance, what it leads away from; h heads, p pixels of a layer, n tokens.
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.nn.tap import capture, listen
from regard.sample.loop import DrawnStep

CROSSING = "denoiser.*cross.weights"


def steps_with_kept_maps(
    net: nn.Module, first: Iterator[DrawnStep], second: Iterator[DrawnStep], count: int
) -> Iterator[DrawnStep]:
    """Those of the second, of which so many take the maps that the first has in the same step."""
    for _ in range(count):
        with capture(net, CROSSING) as maps:
            next(first)

        def replaced(name: str, weights: Tensor, maps: dict[str, list[Tensor]] = maps) -> Tensor:
            """Of the prompt; what guidance leads away from has the same words in both.  (b, h, p, n)"""
            return torch.cat([maps[name][0][:1], weights[1:]])

        with listen(net, CROSSING, replaced):
            step = next(second)
        yield step  # outside, as nobody is listened to while the caller works
    yield from second


def check_as_long(kept: int, own: int) -> None:
    """Tokens, without those that begin and end a prompt."""
    if kept != own:
        raise InputError(
            "the two prompts have different numbers of tokens, so their attention maps do not fit",
            where="keep",
            got=f"{kept} tokens to keep, {own} in the prompt",
            expected="as many tokens in both",
            fix="swap words only for words of as many tokens",
        )
