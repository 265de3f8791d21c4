"""A teacher that reads and writes the same tokens as its student."""

from pathlib import Path

from regard.errors import InputError
from regard.modalities.inputs import Asked
from regard.modalities.learning import Plan

from .asking import text_of


def same_words(plan: Plan, name: str, student: Asked) -> Asked:
    teacher = plan.load(name)
    if text_of(teacher).to_bytes() != text_of(student).to_bytes():
        raise InputError(
            "teacher and student cut text into different tokens",
            where=name,
            fix=f"set data.vocabulary.file to the teacher's: {Path(name) / 'tokenizer.json'}",
        )
    return teacher
