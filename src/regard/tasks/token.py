"""What a DeiT learns: its class token the labels, its distillation token what a teacher says.

Training data-efficient image transformers & distillation through attention (Touvron et al., 2021),
https://arxiv.org/abs/2012.12877, section 4
    hard: (CE(label, y) + CE(token, argmax teacher)) / 2
    soft: (1 - a) CE(label, y) + a T^2 KL(softmax(teacher / T) || softmax(token / T)),  a = 0.1, T = 3
The teacher is shown the very image that the student is, as it was cut, changed and mixed. y may be numbers of classes,
or a share for each class, as mixup and label smoothing make them.

All are sums over the examples, as a ``Term`` of a task wants them. A run has them from ``Teacher``, whose share and
temperature stand in its file; here they are whole, for figures and tests.

Shapes: b batch, c classes.
"""

import torch.nn.functional as F
from torch import Tensor

from .teacher import best_guess, distillation_divergence

SHARE, TEMPERATURE = 0.1, 3.0


def label_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross entropy.  (b, c), (b,) or (b, c) -> a number"""
    return F.cross_entropy(logits, labels, reduction="sum")


def hard_distillation(label: Tensor, token: Tensor, labels: Tensor, teacher: Tensor) -> Tensor:
    """What the two heads say, the labels, what the teacher says.  (b, c), (b, c), (b,) or (b, c), (b, c) -> a number

    Half of each; of the teacher only its best guess counts.
    """
    return (label_loss(label, labels) + best_guess(token, teacher)) / 2


def soft_distillation(
    label: Tensor,
    token: Tensor,
    labels: Tensor,
    teacher: Tensor,
    *,
    share: float = SHARE,
    temperature: float = TEMPERATURE,
) -> Tensor:
    """As above, but the token learns all that the teacher thinks.  -> a number"""
    return (1 - share) * label_loss(label, labels) + share * distillation_divergence(
        token, teacher.detach(), temperature
    )
