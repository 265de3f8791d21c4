"""A teacher: a model that does what a student shall learn, and better. What [task] tables say of one."""

from regard.errors import InputError

from .inputs import ModelView

TEACHER_HELP = (
    "distillation: run or model folder of the teacher, with the same labels and (for text) the same vocabulary"
)
SHARE_HELP = "distillation: weight of the teacher in the loss"
TEMPERATURE_HELP = "distillation temperature of teacher and student"


def not_share(share: float | None) -> list[str]:
    return [f"share = {share} is not between 0 and 1"] if share is not None and not 0 <= share <= 1 else []


def check_teacher(name: str, teacher: ModelView, student: ModelView, heads: tuple[str, ...] = ()) -> None:
    """The same labels; and of a model that may have several heads, one of these, or any if none is named."""
    head, own = (str(x.get("head") or "") for x in (teacher, student))
    if teacher.labels != student.labels or (heads and head not in heads):
        raise InputError(
            "the head or the labels of the teacher differ from those of the student",
            where=name,
            got=f"head = {head!r}, labels {', '.join(teacher.labels) or 'none'}",
            expected=f"head = {own!r}, labels {', '.join(student.labels) or 'none'}",
        )
