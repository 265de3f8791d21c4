"""A medium: one of the things that models are given, such as texts or images.

Rows are light, as those of verbs: functions stand there as "package.module:name".
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Medium:
    """``example`` looks at an input where no verb of the model has a way of its own: a function of a model and its
    inputs. ``sample`` makes a small input, with which contracts ask models."""

    name: str
    plural: str  # in a sentence: "this model classifies images"
    example: str
    sample: str
    argument: Literal["text", "file"]  # what an argument of the command line is: the input itself, or its file
    recognize: str = ""  # whether data given in Python is of this medium; empty: whatever is of no other
    endings: tuple[str, ...] = ()  # of the names of its files, by which those of a folder are found
    student: str = ""  # of a teacher's name, the teacher and the student: the net that teaches; empty: none can
