"""Collectives of a group against NumPy: on one machine, on several, and over sockets only."""

from __future__ import annotations

import functools
import itertools
import random
import time
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from fastdist.core.errors import CollectiveLostError
from fastdist.distributed.links import LinksTransport, movement, segment, sums, wire
from fastdist.distributed.links.between import Post
from tests.distributed.links.members import TOPOLOGIES, Member, together

topologies = pytest.mark.parametrize("machines", TOPOLOGIES.values(), ids=TOPOLOGIES)
DTYPES = [
    np.dtype(one)
    for one in (
        *("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"),
        *("complex64", "complex128"),
        ml_dtypes.bfloat16,
    )
]
SIZES = (0, 1, 7, 4096, 70_001)


def drawn(dtype: np.dtype[Any], size: int, seed: int) -> np.ndarray[Any, Any]:
    """Return numbers of a dtype whose sums are exact in any order."""
    numbers = np.random.default_rng(seed).integers(-3 if dtype.kind not in "ub" else 0, 4, size)
    return numbers.astype(dtype)


def expected(op: str, arrays: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    ufunc = {"sum": np.add, "product": np.multiply, "min": np.minimum, "max": np.maximum}[op]
    return np.asarray(functools.reduce(ufunc, arrays), arrays[0].dtype)


Draw = Callable[[random.Random, Member], None]


def all_reduce(draw: random.Random, member: Member) -> None:
    dtype, size, seed = draw.choice(DTYPES), draw.choice(SIZES), draw.randrange(1 << 30)
    op = draw.choice(["sum", "product"] if dtype.kind == "c" else ["sum", "product", "min", "max"])
    arrays = [drawn(dtype, size, seed + rank) for rank in range(member.size)]
    array = arrays[member.rank].copy()
    member.transport.all_reduce(member.call("all_reduce"), array, op)
    np.testing.assert_array_equal(array, expected(op, arrays))


def reduce(draw: random.Random, member: Member) -> None:
    size, seed, root = draw.choice(SIZES), draw.randrange(1 << 30), draw.randrange(member.size)
    arrays = [drawn(np.dtype("int32"), size, seed + rank) for rank in range(member.size)]
    array = arrays[member.rank].copy()
    member.transport.reduce(member.call("reduce"), array, "sum", root)
    wanted = expected("sum", arrays) if member.rank == root else arrays[member.rank]
    np.testing.assert_array_equal(array, wanted)


def reduce_scatter(draw: random.Random, member: Member) -> None:
    size, seed = draw.choice(SIZES) // 3, draw.randrange(1 << 30)
    shape = (member.size, size)
    arrays = [drawn(np.dtype("float64"), size * member.size, seed + r) for r in range(member.size)]
    out = np.full(size, 99.0)
    mine = arrays[member.rank].reshape(shape)
    member.transport.reduce_scatter(member.call("reduce_scatter"), out, mine, "sum")
    np.testing.assert_array_equal(out, expected("sum", arrays).reshape(shape)[member.rank])


def broadcast(draw: random.Random, member: Member) -> None:
    dtype, size, seed = draw.choice(DTYPES), draw.choice(SIZES), draw.randrange(1 << 30)
    root = draw.randrange(member.size)
    array = drawn(dtype, size, seed + member.rank)
    member.transport.broadcast(member.call("broadcast"), array, root)
    np.testing.assert_array_equal(array, drawn(dtype, size, seed + root))


def all_gather(draw: random.Random, member: Member) -> None:
    dtype, size, seed = draw.choice(DTYPES), draw.choice(SIZES), draw.randrange(1 << 30)
    out = np.zeros((member.size, size), dtype)
    mine = drawn(dtype, size, seed + member.rank)
    if in_place := draw.random() < 0.3:
        out[member.rank] = mine
    array = out[member.rank] if in_place else mine
    member.transport.all_gather(member.call("all_gather"), out, array)
    wanted = [drawn(dtype, size, seed + rank) for rank in range(member.size)]
    np.testing.assert_array_equal(out, np.stack(wanted))


def gather(draw: random.Random, member: Member) -> None:
    size, seed, root = draw.choice(SIZES), draw.randrange(1 << 30), draw.randrange(member.size)
    dtype = draw.choice(DTYPES)
    outs = [np.zeros(size, dtype) for _ in range(member.size)] if member.rank == root else None
    array = drawn(dtype, size, seed + member.rank)
    member.transport.gather(member.call("gather"), outs, array, root)
    for rank, out in enumerate(outs or ()):
        np.testing.assert_array_equal(out, drawn(dtype, size, seed + rank))


def scatter(draw: random.Random, member: Member) -> None:
    size, seed, root = draw.choice(SIZES), draw.randrange(1 << 30), draw.randrange(member.size)
    arrays = [drawn(np.dtype("int64"), size, seed + rank) for rank in range(member.size)]
    out = np.zeros(size, np.int64)
    given = arrays if member.rank == root else None
    member.transport.scatter(member.call("scatter"), out, given, root)
    np.testing.assert_array_equal(out, arrays[member.rank])


def all_to_all(draw: random.Random, member: Member) -> None:
    seed = draw.randrange(1 << 30)
    sizes = [[draw.choice(SIZES) for _ in range(member.size)] for _ in range(member.size)]
    dtype, mine = np.dtype("int16"), member.rank
    arrays = [drawn(dtype, size, seed + 7 * mine + to) for to, size in enumerate(sizes[mine])]
    outs = [np.zeros(row[mine], dtype) for row in sizes]
    member.transport.all_to_all(member.call("all_to_all"), outs, arrays)
    for sender, out in enumerate(outs):
        size = sizes[sender][mine]
        np.testing.assert_array_equal(out, drawn(dtype, size, seed + 7 * sender + mine))


def barrier(draw: random.Random, member: Member) -> None:
    del draw
    member.transport.barrier(member.call("barrier"))


DRAWN: list[Draw] = [
    *(all_reduce, all_reduce, reduce, reduce_scatter, broadcast, all_gather, gather, scatter),
    *(all_to_all, barrier),
]


@pytest.mark.one_in(3)
@topologies
def test_random_collectives_equal_numpy(machines: str) -> None:
    def play(member: Member) -> None:
        draw = random.Random(36)
        for _ in range(80):
            draw.choice(DRAWN)(draw, member)

    together(machines, play)


@pytest.mark.one_in(3)
def test_arrays_larger_than_the_board_pass_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, "BOARD_BYTES", 1 << 16)
    monkeypatch.setattr(segment, "BLOCK_BYTES", 1 << 14)
    monkeypatch.setattr(sums, "BLOCK_BYTES", 1 << 14)

    def play(member: Member) -> None:
        draw = random.Random(1)
        for function in DRAWN:
            function(draw, member)
        numbers = np.arange(200_003, dtype=np.int64)
        array = numbers * (member.rank + 1)
        member.transport.all_reduce(member.call(), array, "sum")
        np.testing.assert_array_equal(array, numbers * 10)

    for machines in TOPOLOGIES.values():
        together(machines, play)


@pytest.mark.one_in(3)
def test_every_number_of_members_from_one_to_six() -> None:
    for size in range(1, 7):
        sent = together("a" * size, functools.partial(_sum_of_ranks, 100_003))
        assert sent == [sum(range(size))] * size


def _sum_of_ranks(size: int, member: Member) -> int:
    array = np.full(size, member.rank)
    member.transport.all_reduce(member.call(), array, "sum")
    assert (array == array[0]).all()
    return int(array[0])


@pytest.mark.one_in(3)
@topologies
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16], ids=str)
def test_sums_have_the_same_bits_on_all_members_and_in_every_run(machines: str, dtype: Any) -> None:
    def play(member: Member) -> list[bytes]:
        found = []
        for size in (1000, 100_003):
            numbers = np.random.default_rng(member.rank).standard_normal(size)
            array = (numbers * 10.0 ** np.arange(-3, 4)[np.arange(size) % 7]).astype(dtype)
            member.transport.all_reduce(member.call(), array, "sum")
            found.append(array.tobytes())
        return found

    runs = [together(machines, play) for _ in range(2)]
    alike = list(itertools.chain(*runs))
    assert all(one == alike[0] for one in alike)


def test_short_floats_are_summed_in_float32_and_rounded_once() -> None:
    numbers = [2048.0, 1.0, 1.0, 1.0]  # in float16, 2048 + 1 is 2048

    def play(member: Member) -> float:
        array = np.full(3, numbers[member.rank], np.float16)
        member.transport.all_reduce(member.call(), array, "sum")
        return float(array[0])

    assert together("aaaa", play) == [float(np.float16(2051.0))] * 4


@topologies
def test_special_numbers(machines: str) -> None:
    def play(member: Member) -> None:
        array = np.array([np.inf, -np.inf if member.rank else np.inf, np.nan, -0.0, 1e38 * 3], "f4")
        member.transport.all_reduce(member.call(), array, "sum")
        assert array[0] == np.inf
        assert np.isnan(array[1:3]).all()
        assert array[3] == 0
        assert np.signbit(array[3])
        assert array[4] == np.inf
        array = np.array([np.nan if member.rank == 2 else 1.0])
        member.transport.all_reduce(member.call(), array, "max")
        assert np.isnan(array).all()
        wraps = np.full((), 200, np.uint8)
        member.transport.all_reduce(member.call(), wraps, "sum")
        assert wraps == 800 % 256
        truth = np.array([True, member.rank == 1, False])
        member.transport.all_reduce(member.call(), truth, "sum")
        assert truth.tolist() == [True, True, False]
        bits = np.array([1 << member.rank, 7], np.int32)
        member.transport.all_reduce(member.call(), bits, "bxor")
        assert bits.tolist() == [15, 0]

    together(machines, play)


def test_what_has_no_order_or_no_bits_is_refused_before_anything_is_sent() -> None:
    def play(member: Member) -> None:
        for op, dtype, error in (
            ("max", np.complex64, TypeError),
            ("band", np.float32, TypeError),
            ("mean", np.float32, ValueError),
        ):
            with pytest.raises(error, match=op):
                member.transport.all_reduce(member.call(), np.ones(2, dtype), op)
        member.transport.barrier(member.call())

    together("aa", play)


def test_two_groups_of_one_process_do_not_disturb_each_other() -> None:
    def play(member: Member) -> int:
        return _sum_of_ranks(5000, member)

    def play_both(member: Member) -> None:
        assert play(member) == 1
        assert movement.SMALL_BYTES == segment.SMALL_BYTES
        assert play(member) == 1

    together("ab", play_both)


def test_a_member_that_leaves_reports_no_loss_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds: list[int] = []

    def lose_another(transport: LinksTransport) -> None:
        # While this member waits until its messages are read, a member that left earlier ends.
        transport.peer_lost(transport._members.records[1], "its connection has ended")

    def notify(self: Post, to: int, kind: int, *_: Any, **__: Any) -> bool:
        kinds.append(kind)
        return True

    monkeypatch.setattr(LinksTransport, "_say_goodbye", lose_another)
    monkeypatch.setattr(Post, "notify", notify)
    together("abc", lambda member: member.transport.barrier(member.call()))
    assert wire.FAILED not in kinds


@pytest.mark.parametrize("has_failed", [False, True])
def test_a_goodbye_waits_for_its_connection_unless_the_group_has_failed(
    monkeypatch: pytest.MonkeyPatch, has_failed: bool
) -> None:
    waits: list[float] = []
    notify = Post.notify

    def note(self: Post, to: int, kind: int, *rest: Any, until: float = 0.0, **more: Any) -> bool:
        if kind == wire.BYE:
            waits.append(until - time.monotonic())
        return notify(self, to, kind, *rest, until=until, **more)

    monkeypatch.setattr(Post, "notify", note)

    def live(member: Member) -> None:
        member.transport.barrier(member.call())
        if has_failed:
            member.transport.abort(RuntimeError("it ends"))

    together("ab", live)
    assert len(waits) in (1, 2)  # a member that has already left gets no goodbye
    assert all(wait < 0 if has_failed else wait > 1.0 for wait in waits)


def test_a_member_that_leaves_after_a_failure_reports_the_failure() -> None:
    def live(member: Member) -> None:
        if member.rank == 0:
            # Another thread has just noticed the failure, and has not reported it yet.
            member.transport._alarm.set(CollectiveLostError("rank 7 was lost"))
            member.transport.close()
        else:
            with pytest.raises(CollectiveLostError, match="rank 7 was lost"):
                member.transport.barrier(member.call())

    together("aa", live)
