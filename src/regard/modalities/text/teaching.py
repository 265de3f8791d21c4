"""A teacher that reads and writes the same tokens as its student."""

from pathlib import Path

from torch import nn

from regard.errors import InputError
from regard.modalities.inputs import ModelView
from regard.modalities.run_parts import RunPlan

from .runners import text_processor


def same_words(plan: RunPlan, name: str, student: ModelView) -> ModelView:
    teacher = plan.load(name)
    same_tokens(name, teacher, student)
    return teacher


def same_tokens(name: str, teacher: ModelView, student: ModelView) -> nn.Module:
    """The teacher's net, if it reads the student's tokens."""
    if text_processor(teacher).to_bytes() != text_processor(student).to_bytes():
        raise InputError(
            "teacher and student have different tokenizers",
            where=name,
            fix=f"set data.vocabulary.file to the teacher's tokenizer: {Path(name) / 'tokenizer.json'}",
        )
    return teacher.net
