"""The steps of a program of collectives, drawn by a seed, and each member's expected results."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import fastdist
from fastdist.distributed import distributed_c10d as dist

_DTYPES = ("float32", "float64", "int32", "int64", "bfloat16", "uint8")
_SIZES = (0, 1, 5, 40, 90, 300, 1000)
_OPS = ("sum", "max", "min", "avg")
_REDUCTIONS: dict[str, Callable[..., Any]] = {"max": np.max, "min": np.min, "sum": np.sum}
_COLLECTIVES = (
    "all_reduce",
    "all_reduce",
    "broadcast",
    "reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "gather",
    "scatter",
    "barrier",
    "message",
    "ring",
    "objects",
)
_MISTAKES = ("name", "dtype", "size", "op")


@dataclass
class Step:
    """One collective of all members of a group."""

    number: int
    kind: str
    # 0 is the default group; new groups are numbered in order.
    group: int = 0
    dtype: str = "float32"
    size: int = 1
    op: str = "sum"
    # Ranks in the group.
    root: int = 0
    other: int = 1
    # Global ranks of a new group.
    ranks: tuple[int, ...] = ()
    is_async: bool = False
    # The rank in the group that makes a different call, and the difference.
    wrong: int = -1
    mistake: str = ""
    # Delay in seconds by global rank.
    late: dict[int, float] = field(default_factory=dict)


def draw_plan(rng: random.Random, size: int) -> list[Step]:
    """Return random steps of a program."""
    plan: list[Step] = []
    groups: dict[int, tuple[int, ...]] = {0: tuple(range(size))}
    for number in range(rng.randint(2, 9)):
        drawn = rng.random()
        if drawn < 0.16 and len(groups) < 4:
            ranks = tuple(sorted(rng.sample(range(size), rng.randint(min(2, size), size))))
            groups[1 + sum(one.kind == "new_group" for one in plan)] = ranks
            plan.append(Step(number, "new_group", ranks=ranks))
        elif drawn < 0.21 and len(groups) > 1:
            group = rng.choice(sorted(groups)[1:])
            del groups[group]
            plan.append(Step(number, "destroy", group))
        elif drawn < 0.25:
            plan.append(Step(number, "monitored_barrier"))
        else:
            plan.append(_draw_collective(rng, number, groups))
        if rng.random() < 0.3:
            seconds = rng.choice((0.001, 0.02, 0.2, 0.6))
            plan[-1].late[rng.randrange(size)] = seconds
    return plan


def _draw_collective(rng: random.Random, number: int, groups: dict[int, Any]) -> Step:
    group = rng.choice(sorted(groups))
    size = len(groups[group])
    root, other = rng.sample(range(size), 2)
    step = Step(number, rng.choice(_COLLECTIVES), group, root=root, other=other)
    step.dtype, step.size, step.op = rng.choice(_DTYPES), rng.choice(_SIZES), rng.choice(_OPS)
    if step.op == "avg" and step.dtype in ("int32", "int64", "uint8"):
        step.op = "sum"
    step.is_async = rng.random() < 0.3 and step.kind not in ("message", "ring", "objects")
    if step.kind == "message" and rng.random() < 0.12:
        step.wrong, step.mistake = rng.choice((root, other)), "size"
    elif rng.random() < 0.12 and step.kind not in ("message", "ring", "objects", "barrier"):
        step.wrong = rng.randrange(size)
        step.mistake = rng.choice(_MISTAKES)
        if step.mistake == "op" and step.kind not in ("all_reduce", "reduce", "reduce_scatter"):
            step.mistake = "name"
    return step


class Buffers:
    """The tensors of one member in one step, and their expected contents."""

    def __init__(self, step: Step, rank: int, size: int, generation: int) -> None:
        self._step, self._rank, self._size, self._generation = step, rank, size, generation
        self.outs: list[Any] = []
        self.expected: list[Any] = []
        self._before: list[bytes] = []
        # Whether all members must get the same bits.
        self.is_shared = step.kind in ("all_reduce", "broadcast", "all_gather")

    def given(self, rank: int, part: int = 0, length: int | None = None) -> Any:
        """Return the input of a rank."""
        step = self._step
        length = step.size if length is None else length
        numbers = np.arange(length) * 3 + 5 * rank + 7 * step.number + 11 * self._generation + part
        numbers = numbers % 13
        if step.dtype in ("float32", "float64", "bfloat16"):
            # The rounding errors of sums of these numbers depend on the order of addition.
            return numbers / 3 * (1 + 0.37 * rank)
        return numbers

    def tensor(self, numbers: Any) -> Any:
        return fastdist.tensor(numbers.tolist(), dtype=getattr(fastdist, self._step.dtype))

    def out(self, numbers: Any, expected: Any) -> Any:
        """Register and return an output tensor of a collective."""
        tensor = self.tensor(numbers)
        self.outs.append(tensor)
        self.expected.append(expected)
        self._before.append(bits_of(tensor))
        return tensor

    def reduced(self, rows: list[Any]) -> Any:
        rows = [np.asarray(self.tensor(row).to(fastdist.float64).tolist()) for row in rows]
        if self._step.op == "avg":
            return np.mean(rows, axis=0)
        return _REDUCTIONS[self._step.op](rows, axis=0)

    def require_unchanged(self) -> None:
        if self._step.kind == "ring" and bits_of(self.outs[0]) != self._before[0]:
            # The receive may have completed although the send failed.
            self.require_expected()
            return
        for tensor, before in zip(self.outs, self._before, strict=True):
            assert bits_of(tensor) == before, f"step {self._step.number}: a buffer has changed"

    def require_expected(self) -> None:
        for tensor, expected in zip(self.outs, self.expected, strict=True):
            found = np.asarray(tensor.to(fastdist.float64).tolist())
            if self._step.dtype == "uint8":
                expected = np.asarray(expected) % 256
            near = np.allclose(
                found, expected, rtol=0.02 if self._step.dtype == "bfloat16" else 1e-5
            )
            assert near, f"step {self._step}: {found} for {expected}"


def bits_of(tensor: Any) -> bytes:
    """Return the bytes of a tensor."""
    array = tensor.contiguous()._array if hasattr(tensor, "_array") else None
    if array is None:
        return bytes(tensor.contiguous().view(fastdist.uint8).numpy().tobytes())
    return bytes(np.ascontiguousarray(array).tobytes())


def call_step(step: Step, group: Any, buffers: Buffers, rank: int, size: int) -> Any:
    """Call a collective; return its Work if it is asynchronous."""
    mine, names = buffers.given(rank), {"group": group, "async_op": step.is_async}
    op, rows = getattr(dist.ReduceOp, step.op.upper()), [buffers.given(r) for r in range(size)]
    if step.kind == "barrier":
        return dist.barrier(**names)
    if step.kind == "all_reduce":
        return dist.all_reduce(buffers.out(mine, buffers.reduced(rows)), op, **names)
    if step.kind == "reduce":
        total = buffers.reduced(rows) if rank == step.root else mine
        return dist.reduce(buffers.out(mine, total), group_dst=step.root, op=op, **names)
    if step.kind == "broadcast":
        return dist.broadcast(buffers.out(mine, rows[step.root]), group_src=step.root, **names)
    if step.kind == "all_gather":
        outs = [buffers.out(mine, rows[one]) for one in range(size)]
        return dist.all_gather(outs, buffers.tensor(mine), **names)
    if step.kind == "reduce_scatter":
        whole = [buffers.given(r, length=step.size * size) for r in range(size)]
        there = slice(rank * step.size, (rank + 1) * step.size)
        out = buffers.out(mine, buffers.reduced([row[there] for row in whole]))
        return dist.reduce_scatter_tensor(out, buffers.tensor(whole[rank]), op, **names)
    if step.kind == "all_to_all":
        outs = [buffers.out(mine, buffers.given(one, part=rank)) for one in range(size)]
        parts = [buffers.tensor(buffers.given(rank, part=one)) for one in range(size)]
        return dist.all_to_all(outs, parts, **names)
    if step.kind == "gather":
        outs = [buffers.out(mine, row) for row in rows] if rank == step.root else None
        return dist.gather(buffers.tensor(mine), outs, group_dst=step.root, **names)
    if step.kind == "scatter":
        out = buffers.out(mine, buffers.given(step.root, part=rank))
        parts = [buffers.tensor(buffers.given(rank, part=one)) for one in range(size)]
        given = parts if rank == step.root else None
        return dist.scatter(out, given, group_src=step.root, **names)
    return _call_messages(step, group, buffers, rank, size)


def _call_messages(step: Step, group: Any, buffers: Buffers, rank: int, size: int) -> None:
    mine = buffers.given(rank)
    if step.kind == "message":
        if rank == step.root:
            dist.send(buffers.tensor(mine), group=group, tag=step.number, group_dst=step.other)
        elif rank == step.other:
            out = buffers.out(mine, buffers.given(step.root))
            dist.recv(out, group=group, tag=step.number, group_src=step.root)
    elif step.kind == "ring":
        before, after = (rank - 1) % size, (rank + 1) % size
        out = buffers.out(mine, buffers.given(before))
        works = [
            dist.isend(buffers.tensor(mine), group=group, group_dst=after),
            dist.irecv(out, group=group, group_src=before),
        ]
        for work in works:
            assert work is not None
            work.wait()
    else:
        found: list[Any] = [None] * size
        dist.all_gather_object(found, {"of": rank, "numbers": mine.tolist()}, group=group)
        rows = [{"of": r, "numbers": buffers.given(r).tolist()} for r in range(size)]
        assert found == rows, f"{found} for {rows}"


def with_mistake(step: Step) -> Step:
    """Return the call of the member that makes the step's mistake."""
    wrong = Step(**vars(step))
    if step.mistake == "name":
        wrong.kind = "barrier" if step.kind != "barrier" else "all_reduce"
    elif step.mistake == "dtype":
        wrong.dtype = "int32" if step.dtype != "int32" else "float32"
        wrong.op = "sum" if step.op == "avg" else step.op
    elif step.mistake == "size":
        wrong.size = step.size + 3
    else:
        wrong.op = "min" if step.op != "min" else "max"
    return wrong
