"""HAT: images made harder in their finest details while they are learned.

Improving Vision Transformers by Revisiting High-frequency Components (Bai et al., 2022), https://arxiv.org/abs/2204.00993,
algorithm 1
A vision transformer sees coarse structure well and fine structure badly. What an image has to be changed by to be
misjudged is mostly fine, so learning from such images makes it see more of it. In each step the change starts at zero,
and three times it goes a little up the loss, within a box; what the weights learn from the three is added up.

    L_1 = CE(f(x + d), y),  L_2 = L_3 = (3 CE(f(x + d), y) + 0.01 KL(f(x + d), f(x))) / 2
    d <- clip(d + 1/255 sign(dL/dd), -2/255, 2/255)
with KL in both directions, and f(x), of the first pass, fixed.

Differs from the paper: nothing where d is in units of the normalised image, as in the authors' code; with ``std``, what
each channel was divided by, 1/255 and 2/255 are in units of pixels.

Shapes: b batch, c classes.
"""

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from .token import label_loss

PASSES, STEP, BOX = 3, 1 / 255, 2 / 255
RIGHT, ALIKE = 3.0, 0.01  # weights of the two parts of a loss


def adversarial_losses(
    net: Callable[[Tensor], Tensor],
    images: Tensor,
    labels: Tensor,
    *,
    passes: int = PASSES,
    step: float = STEP,
    box: float = BOX,
    std: Tensor | None = None,
) -> Iterator[Tensor]:
    """One sum over the examples for each pass. Whoever asks for the next must have pulled the last one back, into the
    weights, where it is only added up: a task yields ``Loss(..., update=False)`` for all but the last.

    (b, channels, height, width), (b,) or (b, c), std (channels, 1, 1)
    """
    unit = images.new_ones(()) if std is None else 1 / std.to(images)
    change = torch.zeros_like(images, requires_grad=True)
    clean: Tensor | None = None
    for i in range(passes):
        logits = net(images.detach() + change)
        clean = logits.detach() if clean is None else clean
        loss = (
            label_loss(logits, labels)
            if i == 0
            else (RIGHT * label_loss(logits, labels) + ALIKE * apart(logits, clean)) / 2
        )
        yield loss
        if i + 1 < passes:
            change = climbed(change, step * unit, box * unit)


def climbed(change: Tensor, step: Tensor, box: Tensor) -> Tensor:
    """One step up the loss, whose slope was just pulled back."""
    if change.grad is None:
        raise RuntimeError("backward() was not called on the loss of this pass before the next pass")
    with torch.no_grad():
        found = change + step * change.grad.sign()
        return torch.minimum(torch.maximum(found, -box), box).requires_grad_()


def apart(one: Tensor, two: Tensor) -> Tensor:
    """KL(one || two) + KL(two || one), summed.  (b, c), (b, c) -> a number"""
    one, two = one.log_softmax(-1), two.log_softmax(-1)
    return F.kl_div(one, two, reduction="sum", log_target=True) + F.kl_div(two, one, reduction="sum", log_target=True)
