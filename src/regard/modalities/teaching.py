"""A teacher: a model that does what a student shall learn, and better. What [task] tables say of one."""

from regard.errors import InputError

from .inputs import ModelView

TEACHER = "a run's or model's folder to learn from too; it must read the same tokens and know the same labels"
SHARE = "of the loss, for the teacher"
TEMPERATURE = "at which teacher and student are compared"


def not_share(share: float | None) -> list[str]:
    return [f"share = {share} is not from 0 to 1"] if share is not None and not 0 <= share <= 1 else []


def check_teacher(name: str, teacher: ModelView, student: ModelView, heads: tuple[str, ...] = ()) -> None:
    """The same labels; and of a model that may have several heads, one of these, or any if none is named."""
    head, own = (str(x.get("head") or "") for x in (teacher, student))
    if teacher.labels != student.labels or (heads and head not in heads):
        raise InputError(
            "this teacher does not do what the student shall learn",
            where=name,
            got=f"head = {head!r}, labels {', '.join(teacher.labels) or 'none'}",
            expected=f"head = {own!r}, labels {', '.join(student.labels) or 'none'}",
        )
