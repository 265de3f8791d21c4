"""Reversible changes of tensors: what stands between one library's layout of a weight and another's."""

from dataclasses import dataclass
from math import prod
from typing import Protocol

from torch import Tensor


class Op(Protocol):
    """A reversible conversion of tensors, theirs -> ours. It raises a ValueError for tensors that it does not
    support."""

    def __call__(self, tensors: list[Tensor]) -> list[Tensor]: ...

    def reverse(self) -> "Op": ...


@dataclass(frozen=True)
class Same:
    """The tensors as they are."""

    def __call__(self, tensors: list[Tensor]) -> list[Tensor]:
        return tensors

    def reverse(self) -> Op:
        return self


SAME = Same()


@dataclass(frozen=True)
class Transpose:
    """Swap the two axes of a matrix (TensorFlow, Conv1D). A bias has one axis and stays."""

    def __call__(self, tensors: list[Tensor]) -> list[Tensor]:
        if bad := [tuple(x.shape) for x in tensors if x.ndim not in (1, 2)]:
            raise ValueError(f"Transpose takes a matrix, or a bias that it leaves unchanged, got shape {bad[0]}")
        return [x.mT if x.ndim == 2 else x for x in tensors]

    def reverse(self) -> Op:
        return self


@dataclass(frozen=True)
class Permute:
    """Reorder all axes: axis ``i`` of ours is axis ``axes[i]`` of theirs (a convolution stored as HWIO)."""

    axes: tuple[int, ...]

    def __post_init__(self) -> None:
        if sorted(self.axes) != list(range(len(self.axes))):
            raise ValueError(f"Permute needs each axis exactly once, got {self.axes}")

    def __call__(self, tensors: list[Tensor]) -> list[Tensor]:
        if bad := [tuple(x.shape) for x in tensors if x.ndim != len(self.axes)]:
            raise ValueError(f"Permute{self.axes} takes {len(self.axes)} axes, got shape {bad[0]}")
        return [x.permute(self.axes) for x in tensors]

    def reverse(self) -> Op:
        return Permute(tuple(self.axes.index(axis) for axis in range(len(self.axes))))


@dataclass(frozen=True)
class Reshape:
    """One shape of theirs becomes one of ours. Both are stated, so that it can be undone."""

    theirs: tuple[int, ...]
    ours: tuple[int, ...]

    def __post_init__(self) -> None:
        if min((*self.theirs, *self.ours), default=0) < 0 or prod(self.theirs) != prod(self.ours):
            raise ValueError(
                f"Reshape needs two shapes with the same number of elements, got {self.theirs} and {self.ours}"
            )

    def __call__(self, tensors: list[Tensor]) -> list[Tensor]:
        if bad := [tuple(x.shape) for x in tensors if tuple(x.shape) != self.theirs]:
            raise ValueError(f"Reshape takes shape {self.theirs}, got {bad[0]}")
        return [x.reshape(self.ours) for x in tensors]

    def reverse(self) -> Op:
        return Reshape(self.ours, self.theirs)


@dataclass(frozen=True)
class Chunk:
    """One tensor into equal parts along an axis (a fused q, k, v)."""

    parts: int
    axis: int = 0

    def __post_init__(self) -> None:
        if self.parts < 1:
            raise ValueError(f"{self} needs at least one part")

    def __call__(self, tensors: list[Tensor]) -> list[Tensor]:
        if len(tensors) != 1:
            raise ValueError(f"Chunk takes one tensor, got {len(tensors)}")
        (x,) = tensors
        if not -x.ndim <= self.axis < x.ndim or x.shape[self.axis] % self.parts:
            raise ValueError(f"Chunk needs {self.parts} equal parts along axis {self.axis}, got shape {tuple(x.shape)}")
        # Not x.chunk: it gives fewer parts when the axis is empty.
        return list(x.tensor_split(self.parts, self.axis))

    def reverse(self) -> Op:
        return Fuse(self.parts, self.axis)


@dataclass(frozen=True)
class Fuse:
    """Equal tensors, one after the other along an axis, into one."""

    parts: int
    axis: int = 0

    def __post_init__(self) -> None:
        if self.parts < 1:
            raise ValueError(f"{self} needs at least one part")

    def __call__(self, tensors: list[Tensor]) -> list[Tensor]:
        found = [tuple(x.shape) for x in tensors]
        if len(tensors) != self.parts or len(set(found)) != 1:
            raise ValueError(f"Fuse needs {self.parts} tensors of the same shape, got {', '.join(map(str, found))}")
        if not -tensors[0].ndim <= self.axis < tensors[0].ndim:
            raise ValueError(f"Fuse needs an axis {self.axis}, got shape {found[0]}")
        if len({x.dtype for x in tensors}) != 1:  # some would be converted, and the way back is lost
            raise ValueError(f"Fuse needs tensors of the same dtype, got {', '.join(str(x.dtype) for x in tensors)}")
        shape = list(found[0])
        shape[self.axis] *= self.parts
        whole = tensors[0].new_empty(shape)
        for part, x in zip(whole.tensor_split(self.parts, self.axis), tensors, strict=True):
            part.copy_(x)  # not torch.cat: of tensors without memory, it loads PyTorch's compiler
        return [whole]

    def reverse(self) -> Op:
        return Chunk(self.parts, self.axis)


@dataclass(frozen=True)
class HeadByHead:
    """One tensor that has, head after head, some rows for each part (q, k, v), into these parts."""

    heads: int
    widths: tuple[int, ...]  # rows of a head, for each part

    def __call__(self, tensors: list[Tensor]) -> list[Tensor]:
        if len(tensors) != 1 or tensors[0].shape[:1] != (self.heads * sum(self.widths),):
            found = ", ".join(str(tuple(x.shape)) for x in tensors)
            raise ValueError(f"HeadByHead takes one tensor of {self.heads} x {sum(self.widths)} rows, got {found}")
        parts = tensors[0].unflatten(0, (self.heads, -1)).split(self.widths, 1)
        return [part.flatten(0, 1) for part in parts]

    def reverse(self) -> Op:
        return PartByPart(self.heads, self.widths)


@dataclass(frozen=True)
class PartByPart:
    """The way back."""

    heads: int
    widths: tuple[int, ...]

    def __call__(self, tensors: list[Tensor]) -> list[Tensor]:
        wanted = [self.heads * width for width in self.widths]
        if [x.shape[0] for x in tensors] != wanted:
            found = ", ".join(str(tuple(x.shape)) for x in tensors)
            raise ValueError(f"PartByPart takes tensors of {wanted} rows, got {found}")
        whole = tensors[0].new_empty(self.heads, sum(self.widths), *tensors[0].shape[1:])
        for part, x in zip(whole.split(self.widths, 1), tensors, strict=True):
            part.copy_(x.unflatten(0, (self.heads, -1)))  # not torch.cat, as in Fuse
        return [whole.flatten(0, 1)]

    def reverse(self) -> Op:
        return HeadByHead(self.heads, self.widths)


@dataclass(frozen=True, init=False)
class Chain:
    """Several changes, from left to right on the way in and from right to left on the way out."""

    ops: tuple[Op, ...]

    def __init__(self, *ops: Op) -> None:
        object.__setattr__(self, "ops", ops)

    def __call__(self, tensors: list[Tensor]) -> list[Tensor]:
        for op in self.ops:
            tensors = op(tensors)
        return tensors

    def reverse(self) -> Op:
        return Chain(*(op.reverse() for op in reversed(self.ops)))
