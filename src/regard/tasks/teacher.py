"""What a student learns from a teacher beside what is right: see Hinton, Vinyals and Dean (2015), in distil.py.

Shapes: n examples or places, v classes or words.
"""

from dataclasses import dataclass
from typing import Any, Literal

import torch.nn.functional as F
from torch import Tensor

from .task import Term


@dataclass(frozen=True, eq=False)
class Teacher:
    """A frozen teacher net, and the weight of its loss."""

    net: Any
    share: float
    temperature: float
    lesson: Literal["soft", "hard"] = "soft"  # all of its probabilities, or only its most likely class

    def __post_init__(self) -> None:
        self.net.eval().requires_grad_(False)

    def terms(self, right: Tensor, student: Tensor, teacher: Tensor, count: str) -> dict[str, Term]:
        """A number, (n, v), (n, v): what is right, and how far the student is from the teacher"""
        if self.lesson == "hard":
            near = best_guess(student, teacher)
        else:
            near = distillation_divergence(student, teacher, self.temperature)
        return {"loss": Term(right, count, 1 - self.share), "teacher": Term(near, count, self.share)}


def best_guess(student: Tensor, teacher: Tensor) -> Tensor:
    """Cross entropy to what the teacher thinks likeliest: nothing is to be tuned.  (n, v), (n, v) -> a number"""
    return F.cross_entropy(student, teacher.argmax(-1), reduction="sum")


def distillation_divergence(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """T^2 KL(teacher || student), summed over places.  (n, v), (n, v) -> a number

    The gradient falls as 1 / T^2, which the factor makes up for.
    """
    likely, said = (teacher / temperature).log_softmax(-1), (student / temperature).log_softmax(-1)
    return temperature**2 * F.kl_div(said, likely, reduction="sum", log_target=True)
