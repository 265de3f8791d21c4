"""What a user should know of a run's settings before it is trained: each is allowed, and yet perhaps not meant."""

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from regard.modalities.goals import goal_of
from regard.nn.mechanisms import MECHANISMS, pick_mechanism
from regard.train.optimizers import Adam, AdamW
from regard.train.runfile import Parts, settings_of_part

from .job import PreparedRun
from .settings import RunSettings, alike_template

FAST, SLOW = 30.0, 300.0  # times the template's rate, and below it
ALIKE = (Adam, AdamW)  # optimizers whose rates mean the same


def notes_of_settings(job: PreparedRun) -> list[str]:
    return [*warmup_notes(job.run), *rate_notes(job.run), *window_notes(job)]


def warmup_notes(run: RunSettings) -> Iterator[str]:
    """``run`` has its final number of steps."""
    for name, schedule in of_parts(run, "schedule"):
        if schedule.warmup > run.train.steps:
            share = schedule.factor(run.train.steps - 1, run.train.steps)
            yield (
                f"{name}.warmup = {schedule.warmup:,} is longer than the {run.train.steps:,} steps of training: the "
                f"learning rate never exceeds {share:.0%} of its peak"
            )


def rate_notes(run: RunSettings) -> Iterator[str]:
    """A rate far from that of the task's template, or from the usual one of another optimizer."""
    template = alike_template(run.task.kind, run.data.kind, run.start is not None)
    for part, (name, given) in zip(goal_of(run.task).parts, of_parts(run, "optimizer"), strict=False):
        usual = None if template is None else settings_of_part(template.optimizer, part)
        same = type(usual) is type(given) or (isinstance(usual, ALIKE) and isinstance(given, ALIKE))
        rate = usual.rate if same and usual is not None else type(given)().rate
        whose = f"{rate:g} that is usual for {'this task' if same else given.kind}"
        if given.rate > FAST * rate:
            yield f"{name}.rate = {given.rate:g} is {given.rate / rate:,.0f} times the {whose}: training may diverge"
        elif given.rate * SLOW < rate:
            yield f"{name}.rate = {given.rate:g} is {rate / given.rate:,.0f} times below the {whose}: little is learned"


def of_parts(run: RunSettings, table: str) -> Iterator[tuple[str, Any]]:
    """The settings of each part of the task, and where they stand in a run file."""
    given = getattr(run, table)
    own = given.own if isinstance(given, Parts) else {}
    for part in goal_of(run.task).parts:
        yield (f"{table}.{part}" if part in own else table), settings_of_part(given, part)


def window_notes(job: PreparedRun) -> Iterator[str]:
    """A window of attention that holds all of the longest text: nothing is left out, and nothing saved."""
    config, longest = job.model.config, job.sources.reached
    if longest is None:
        return
    for key in (one.name for one in fields(config) if one.name.endswith("attention")):
        choice = getattr(config, key)
        turns = choice if isinstance(choice, list | tuple) else [] if choice is None else [choice]
        for picked in {one.kind: one for one in map(pick_mechanism, turns)}.values():
            span = MECHANISMS[picked.kind].span
            width = getattr(picked.settings, span) if span else None
            if width is not None and width >= longest:
                yield (
                    f"model.{key}: the {span} of {picked.kind!r} has {width} tokens, and the longest row of train has "
                    f"about {longest}: it attends to all tokens, as softmax would"
                )
