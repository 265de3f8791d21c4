"""Checkpoint rules: one reversible table reads and writes other people's tensors.

A table is a list of entries. Every tensor of a checkpoint must be named by exactly one of them, so that nothing is
lost, doubled or left at its random start without an error that says so. The order of the entries means nothing.
Everything also runs on meta tensors, so that a conversion is checked from shapes before any data is read.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import torch
from torch import Tensor

from regard.errors import CheckpointError
from regard.storage.untrusted import problem_lines

from .tensor_ops import SAME, Op


@dataclass(frozen=True)
class Rule:
    """``theirs`` becomes ``ours``. ``{name}`` stands for one part of a dotted name, in every template of the rule."""

    theirs: str | tuple[str, ...]
    ours: str | tuple[str, ...]
    op: Op = field(default=SAME)

    def __post_init__(self) -> None:
        if not self.theirs or not self.ours:
            raise ValueError(f"{self} has no names on one side: use Dropped or Ours instead")
        if len({frozenset(places(template)) for template in (*several(self.theirs), *several(self.ours))}) != 1:
            raise ValueError(
                f"{self} must have the same {{placeholders}} in every template, otherwise it cannot be reversed"
            )


@dataclass(frozen=True)
class Tied:
    """A tensor of theirs that, changed by ``op``, equals our ``ours``. It may be absent; unequal, it is an error.

    On the way out it is written again only if ``written``, since some formats store the copy and some do not.
    """

    theirs: str
    ours: str
    written: bool = False
    op: Op = field(default=SAME)

    def __post_init__(self) -> None:
        theirs, ours = set(places(self.theirs)), set(places(self.ours))
        if not ours <= theirs or (self.written and ours != theirs):
            raise ValueError(f"{self} has {{placeholders}} that are missing on the other side")


@dataclass(frozen=True)
class Ours:
    """A tensor of our model that the checkpoint lacks, such as a buffer computed from the config. ``make`` returns its
    value."""

    name: str
    make: Callable[[], Tensor]

    def __post_init__(self) -> None:
        if list(places(self.name)):
            raise ValueError(f"Ours must name one tensor, without {{placeholders}}, got {self.name!r}")


@dataclass(frozen=True)
class Dropped:
    """A tensor of the checkpoint that is not used, with the reason."""

    theirs: str
    why: str

    def __post_init__(self) -> None:
        list(places(self.theirs))
        if not self.why.strip():
            raise ValueError(f"Dropped({self.theirs!r}) needs a reason")


@dataclass(frozen=True)
class Known:
    """A tensor of the checkpoint that can be computed from the config, such as sinusoids: ``make`` computes it for a
    shape.

    It may be absent, unless the other library needs it: then ``shape`` says what is written on the way out. If it holds
    other values, dropping it would change the model, so that is an error.
    """

    theirs: str
    make: Callable[[torch.Size], Tensor]
    shape: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Idle:
    """A tensor of the checkpoint that no output depends on, with the reason; ``make`` returns its value for the export.

    There is one beside each of our tensors that ``beside`` names.
    """

    theirs: str
    beside: str
    make: Callable[[], Tensor]
    why: str

    def __post_init__(self) -> None:
        if set(places(self.theirs)) != set(places(self.beside)):
            raise ValueError(f"{self} must have the same {{placeholders}} on both sides")
        if not self.why.strip():
            raise ValueError(f"Idle({self.theirs!r}) needs a reason")


Entry = Rule | Tied | Ours | Dropped | Known | Idle


def convert(state: Mapping[str, Tensor], rules: Sequence[Entry]) -> dict[str, Tensor]:
    """Convert the tensors of a checkpoint to ours. All problems are raised in one CheckpointError, by tensor name."""
    return converted_tensors(state, rules).finish("the tensors cannot be converted")


def converted_tensors(state: Mapping[str, Tensor], rules: Sequence[Entry]) -> "RulePass":
    """The same pass, with its problems not raised yet."""
    run = RulePass(state)
    for entry in rules:
        match entry:
            case Rule():
                run.rule(several(entry.theirs), several(entry.ours), entry.op)
            case Dropped() | Idle():
                run.claim(entry.theirs, type(entry).__name__)
            case Known():
                run.known(entry)
            case Ours():
                run.write(entry.name, entry.make(), f"Ours({entry.name!r})")
    for entry in rules:
        if isinstance(entry, Tied):  # last, since the original may come from any rule
            run.tied(entry)
    return run


def export(state: Mapping[str, Tensor], rules: Sequence[Entry]) -> dict[str, Tensor]:
    """Our tensors -> theirs, by the same table read backwards. Dropped tensors and unwritten ties are not made up."""
    return export_tensors(state, rules).finish("the tensors cannot be exported")


def export_tensors(state: Mapping[str, Tensor], rules: Sequence[Entry]) -> "RulePass":
    """The same pass, with its problems not raised yet."""
    run = RulePass(state)
    for entry in rules:
        match entry:
            case Rule():
                run.rule(several(entry.ours), several(entry.theirs), entry.op.reverse())
            case Ours():
                run.left_behind(entry)
            case Known() if entry.shape is not None:
                run.write(entry.theirs, entry.make(torch.Size(entry.shape)), entry.theirs)
            case Idle():
                for ours, parts in run.named(entry.beside).items():
                    run.write(fill(entry.theirs, parts), entry.make(), ours)
    for entry in rules:
        if isinstance(entry, Tied) and entry.written:
            run.write_again(entry)
    return run


def shapes(header: Mapping[str, tuple[int, ...]], rules: Sequence[Entry]) -> dict[str, tuple[int, ...]]:
    """Their shapes -> ours, with every check of ``convert`` but the equality of tied values. No data is needed."""
    with torch.device("meta"):
        state = convert({name: torch.empty(shape) for name, shape in header.items()}, rules)
    return {name: tuple(x.shape) for name, x in state.items()}


def needed(ours: Mapping[str, tuple[int, ...]], rules: Sequence[Entry]) -> dict[str, tuple[int, ...]]:
    """Their tensors without which a model of these shapes is not complete."""
    with torch.device("meta"):
        state = export({name: torch.empty(shape) for name, shape in ours.items()}, rules)
    copies = spare(state, rules)
    return {name: tuple(x.shape) for name, x in state.items() if name not in copies}


def spare(names: Iterable[str], rules: Sequence[Entry]) -> set[str]:
    """Which of their tensors may as well be absent: a copy, or what follows from the config."""
    optional = [entry for entry in rules if isinstance(entry, Tied | Dropped | Known | Idle)]
    able = [pattern(x.theirs) for x in optional if not isinstance(x, Known) or x.shape is None]
    return {name for name in names if any(one.fullmatch(name) for one in able)}


Groups = dict[str, list[str]]


def misfits(expected: Mapping[str, tuple[int, ...]], found: Mapping[str, tuple[int, ...]]) -> Groups:
    """Every tensor that is missing, unexpected or of the wrong shape."""
    both = [name for name in expected if name in found and tuple(expected[name]) != tuple(found[name])]
    return {
        "missing": [f"{name} {tuple(expected[name])}" for name in in_order(expected.keys() - found.keys())],
        "unexpected": [f"{name} {tuple(found[name])}" for name in in_order(found.keys() - expected.keys())],
        "of the wrong shape": [f"{x} {tuple(found[x])}, expected {tuple(expected[x])}" for x in in_order(both)],
    }


def counted(groups: Groups) -> str:
    return ", ".join(f"{len(lines)} {kind}" for kind, lines in groups.items() if lines)


def listed(groups: Groups) -> str:
    return "".join(f"\n    {kind}:{problem_lines(lines, 6)}" for kind, lines in groups.items() if lines)


def check_tensors(expected: Mapping[str, tuple[int, ...]], found: Mapping[str, tuple[int, ...]], where: str) -> None:
    """Raise one CheckpointError that lists every tensor that is missing, unexpected or of the wrong shape."""
    groups = misfits(expected, found)
    if any(groups.values()):
        raise CheckpointError(
            f"the tensors do not match the model: {counted(groups)}",
            where=where,
            got=listed(groups),
            expected=f"exactly the model's {len(expected)} tensors, with their shapes",
            fix="use the config of these weights; no tensor is ever skipped or randomly initialized",
        )


class RulePass:
    """One pass of a table over a checkpoint: what was claimed, what was written, and what went wrong."""

    def __init__(self, state: Mapping[str, Tensor]) -> None:
        self.state = state
        self.claims: dict[str, list[str]] = {name: [] for name in state}
        self.out: dict[str, Tensor] = {}
        self.writers: dict[str, str] = {}
        self.problems: list[str] = []
        self.unequal: list[str] = []  # what must be a copy, or follow from the config, and is not

    def named(self, template: str) -> dict[str, dict[str, str]]:
        """The tensors that a template names, each with its parts."""
        matching = pattern(template).fullmatch
        return {name: found.groupdict() for name in self.state if (found := matching(name)) is not None}

    def claim(self, template: str, by: str) -> dict[str, dict[str, str]]:
        """The same, and note that an entry has named them."""
        hits = self.named(template)
        for name in hits:
            self.claims[name].append(f"{by} {template!r}")
        return hits

    def rule(self, sources: tuple[str, ...], targets: tuple[str, ...], op: Op) -> None:
        """Apply one rule to every group of tensors that it names."""
        groups: dict[tuple[str, ...], dict[str, str]] = {}  # ordered, and each set of parts once
        for template in sources:
            for parts in self.claim(template, "Rule").values():
                groups[tuple(parts[key] for key in sorted(parts))] = parts
        for parts in groups.values():
            names, made = [fill(x, parts) for x in sources], [fill(x, parts) for x in targets]
            present, absent = [x for x in names if x in self.state], [x for x in names if x not in self.state]
            if absent:
                self.problems.append(f"{', '.join(absent)}: missing, but {', '.join(present)} found")
                continue
            try:
                tensors = op([self.state[name] for name in names])
                if len(tensors) != len(made):
                    raise ValueError(f"the rule names {len(made)} tensors, its op returned {len(tensors)}")
            except (ValueError, RuntimeError) as error:
                self.problems.append(f"{', '.join(names)}: {error}")
                continue
            for name, tensor in zip(made, tensors, strict=True):
                self.write(name, tensor, ", ".join(names))

    def write(self, name: str, tensor: Tensor, writer: str) -> None:
        if name in self.out:
            self.problems.append(f"{name}: assigned twice, from {self.writers[name]} and from {writer}")
        self.out[name], self.writers[name] = tensor, writer

    def tied(self, entry: Tied) -> None:
        """Check the tensors that must be copies."""
        for name, parts in self.claim(entry.theirs, "Tied").items():
            ours = fill(entry.ours, parts)
            if ours not in self.out:
                self.problems.append(f"{name}: tied to {ours}, to which no tensor was assigned")
                continue
            try:
                (copy,) = entry.op([self.state[name]])
            except (ValueError, RuntimeError) as error:
                self.problems.append(f"{name}: {error}")
                continue
            if not equal(copy, self.out[ours]):
                self.unequal.append(f"{name}: tied to {ours}, but its values differ")

    def known(self, entry: Known) -> None:
        """Check the tensors that could as well be computed; others round differently."""
        for name in self.claim(entry.theirs, "Known"):
            theirs = self.state[name]
            if not theirs.is_meta:
                ours = entry.make(theirs.shape)
                same = theirs.is_floating_point() >= ours.is_floating_point() and ours.shape == theirs.shape
                if not same or not torch.allclose(ours.to(theirs.dtype), theirs, rtol=0, atol=1e-3):
                    self.unequal.append(f"{name}: computable from the config, but its values differ")

    def write_again(self, entry: Tied) -> None:
        for ours, parts in self.named(entry.ours).items():
            try:
                (copy,) = entry.op.reverse()([self.state[ours]])
            except (ValueError, RuntimeError) as error:
                self.problems.append(f"{ours}: {error}")
                continue
            self.write(fill(entry.theirs, parts), copy, ours)

    def left_behind(self, entry: Ours) -> None:
        """Their format has no place for it, which is no loss only while it still has its made value."""
        for name in self.claim(entry.name, "Ours"):
            if not equal(self.state[name], entry.make()):
                self.problems.append(f"{name}: its value has changed, and the target format cannot store it")

    def finish(self, what: str) -> dict[str, Tensor]:
        self.problems += self.unequal
        for name in in_order(self.claims):
            if len(by := self.claims[name]) != 1:
                self.problems.append(f"{name}: matched by {' and by '.join(by) if by else 'no rule'}")
        if self.problems:
            raise CheckpointError(
                f"{what}: {len(self.problems)} problem{'s' if len(self.problems) > 1 else ''}",
                got=problem_lines(self.problems),
                expected="every tensor matched by exactly one rule, with the right shape",
                fix="check that the weights belong to the config; no tensor is skipped",
            )
        return self.out


def several(names: str | tuple[str, ...]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else names


def places(template: str) -> Iterable[str]:
    """The placeholders of a template. A brace anywhere else is a slip of the table, and an error."""
    for part in template.split("."):
        if part[:1] == "{" and part[-1:] == "}" and part[1:-1].isidentifier():
            yield part[1:-1]
        elif "{" in part or "}" in part or not part:
            raise ValueError(f"{template!r}: {part!r} is neither a plain part nor exactly one {{placeholder}}")


@lru_cache(maxsize=1024)
def pattern(template: str) -> re.Pattern[str]:
    """What a template names. Each placeholder takes one whole part and gives nothing back: linear in the name."""
    taken: set[str] = set()

    def one(part: str) -> str:
        name = part[1:-1]
        if not part.startswith("{"):
            return re.escape(part)
        again = name in taken
        taken.add(name)
        return f"(?P={name})" if again else f"(?P<{name}>[^.]++)"

    return re.compile(r"\.".join(map(one, template.split("."))))


def fill(template: str, parts: Mapping[str, str]) -> str:
    return ".".join(parts[x[1:-1]] if x.startswith("{") else x for x in template.split("."))


def equal(one: Tensor, two: Tensor) -> bool:
    """Same shape, dtype and values; a NaN equals a NaN. On the meta device there are no values to compare."""
    if one.shape != two.shape or one.dtype != two.dtype:
        return False
    if one.is_meta or two.is_meta or torch.equal(one, two):
        return True
    return one.is_floating_point() and torch.allclose(one, two, rtol=0, atol=0, equal_nan=True)


def in_order(names: Iterable[str]) -> list[str]:
    """Names sorted as people count: block 2 before block 10."""
    return sorted(sorted(names), key=lambda name: NUMBERS.sub(lambda number: number[0].zfill(9), name))


NUMBERS = re.compile(r"(?<![^.])\d{1,9}(?![^.])")  # whole parts
