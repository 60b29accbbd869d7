"""Collectives on tensors, between members that are threads."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist import distributed as dist
from fastdist.core.errors import (
    CollectiveLostError,
    CollectiveMismatchError,
    CollectiveTimeoutError,
)
from tests.distributed.process_group.thread_members import run_members
from tests.properties import Properties, in_one_test

SUMMED = ["float16", "bfloat16", "float32", "float64", "int8", "uint8", "int16", "int32", "int64"]
MOVED = [*SUMMED, "bool", "complex64", "complex128"]


def given(dtype: str, rank: int, *shape: int) -> fd.Tensor:
    """Return small integers that differ by member."""
    numbers = (np.arange(int(np.prod(shape))) + 1 + rank) % 5 + 1
    return fd.tensor(numbers.reshape(shape).tolist()).to(getattr(fd, dtype))


@pytest.mark.parametrize("backend", ["threads", "gloo"])
def test_all_reduce_sums_every_dtype_the_same_on_all_members(backend: str) -> None:
    def member(rank: int) -> dict[str, Any]:
        found = {}
        for dtype in [*SUMMED, "complex64", "complex128"]:
            x = given(dtype, rank, 2, 3)
            assert dist.all_reduce(x) is None
            found[dtype] = x.tolist()
        return found

    expected = {dtype: sum(given(dtype, r, 2, 3) for r in range(3)).tolist() for dtype in SUMMED}
    first, *others = run_members(3, member, backend=backend)
    assert all(other == first for other in others)
    assert {dtype: first[dtype] for dtype in SUMMED} == expected
    assert first["complex64"] == expected["float32"]


@pytest.mark.parametrize("op", ["SUM", "AVG", "PRODUCT", "MIN", "MAX"])
def test_reductions_of_floats(op: str) -> None:
    def member(rank: int) -> list[float]:
        x = given("float64", rank, 4)
        dist.all_reduce(x, getattr(dist.ReduceOp, op))
        return x.tolist()

    stacked = np.stack([given("float64", rank, 4).numpy() for rank in range(3)])
    reduce = {"SUM": "sum", "AVG": "mean", "PRODUCT": "prod", "MIN": "min", "MAX": "max"}[op]
    assert run_members(3, member) == [getattr(stacked, reduce)(0).tolist()] * 3


def test_reductions_of_bits_and_booleans() -> None:
    def member(rank: int) -> list[Any]:
        found: list[Any] = []
        for op in (dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR):
            x = fd.tensor([0b110 >> rank, 0b11])
            dist.all_reduce(x, op)
            found.append(x.tolist())
        for name in ("SUM", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"):
            b = fd.tensor([rank == 0, True, False])
            dist.all_reduce(b, getattr(dist.ReduceOp, name))
            found.append(b.tolist())
        return found

    some, all_ = [True, True, False], [False, True, False]
    bits = [[0b110 & 0b11, 3], [0b111, 3], [0b101, 0]]
    booleans = [some, all_, all_, some, all_, some, [True, False, False]]
    assert run_members(2, member) == [bits + booleans] * 2


@in_one_test("backend, dtype", [(one, dtype) for one in ("threads", "gloo") for dtype in MOVED])
def test_every_collective_moves_every_dtype(backend: str, dtype: str) -> None:
    def member(rank: int) -> None:
        x, size = given(dtype, rank, 2, 2), 3
        others = [given(dtype, other, 2, 2) for other in range(size)]
        listed = [fd.zeros_like(x) for _ in range(size)]
        dist.all_gather(listed, x)
        joined = fd.zeros((size * 2, 2), dtype=x.dtype)
        dist.all_gather_into_tensor(joined, x)
        sent = fd.zeros_like(x) if rank != 1 else x.clone()
        dist.broadcast(sent, 1)
        gathered = [fd.zeros_like(x) for _ in range(size)] if rank == 2 else None
        dist.gather(x, gathered, dst=2)
        part = fd.zeros_like(x)
        dist.scatter(part, others if rank == 0 else None, src=0)
        came = [fd.zeros_like(x) for _ in range(size)]
        dist.all_to_all(came, [given(dtype, rank + other, 2, 2) for other in range(size)])
        single = fd.zeros((6, 2), dtype=x.dtype)
        dist.all_to_all_single(single, fd.cat([given(dtype, rank + o, 2, 2) for o in range(size)]))
        assert [one.tolist() for one in listed] == [one.tolist() for one in others]
        assert joined.tolist() == fd.cat(others).tolist()
        assert sent.tolist() == others[1].tolist() and part.tolist() == others[rank].tolist()
        assert gathered is None or [one.tolist() for one in gathered] == [
            one.tolist() for one in others
        ]
        expected = [given(dtype, other + rank, 2, 2) for other in range(size)]
        assert [one.tolist() for one in came] == [one.tolist() for one in expected]
        assert single.tolist() == fd.cat(expected).tolist()

    run_members(3, member, backend=backend)


def test_reductions_that_scatter_and_reduce_to_one() -> None:
    def member(rank: int) -> list[Any]:
        inputs = [given("float32", rank + part, 2) for part in range(3)]
        listed, joined = fd.zeros(2), fd.zeros(2)
        dist.reduce_scatter(listed, inputs)
        dist.reduce_scatter_tensor(joined, fd.cat(inputs), op=dist.ReduceOp.AVG)
        uneven = fd.zeros(rank)
        dist.reduce_scatter(uneven, [fd.ones(part) for part in range(3)])
        x = given("float32", rank, 3)
        dist.reduce(x, dst=1, op=dist.ReduceOp.AVG)
        return [listed.tolist(), (joined * 3).tolist(), uneven.tolist(), x.tolist()]

    found = run_members(3, member)
    for rank, (listed, tripled, uneven, x) in enumerate(found):
        parts = [given("float32", other + rank, 2) for other in range(3)]
        assert listed == sum(parts).tolist()
        assert np.allclose(tripled, listed) and uneven == [3.0] * rank
        mean = sum(given("float32", other, 3) for other in range(3)) / 3
        assert np.allclose(x, mean.tolist() if rank == 1 else given("float32", rank, 3).tolist())


def test_sizes_of_lists_and_splits_may_differ() -> None:
    def member(rank: int) -> list[Any]:
        listed = [fd.zeros(other + 1) for other in range(3)]
        dist.all_gather(listed, fd.full((rank + 1,), float(rank)))
        # Member r sends r + 1 rows to each other member, and none to itself.
        sent = [0 if other == rank else rank + 1 for other in range(3)]
        came = [0 if other == rank else other + 1 for other in range(3)]
        out = fd.zeros(sum(came), 2)
        dist.all_to_all_single(out, fd.full((sum(sent), 2), float(rank)), came, sent)
        return [[one.tolist() for one in listed], out[:, 0].tolist()]

    for rank, (listed, rows) in enumerate(run_members(3, member)):
        assert listed == [[0.0], [1.0] * 2, [2.0] * 3]
        assert rows == [float(o) for o in range(3) if o != rank for _ in range(o + 1)]


def test_strided_empty_and_single_numbers() -> None:
    def member(rank: int) -> list[Any]:
        base = fd.zeros(4, 4)
        dist.all_reduce(base[:, 1].add_(rank + 1))
        dist.all_reduce(base.t()[2:, 2:].add_(1))
        empty, single = fd.zeros(0, 3), fd.tensor(float(rank))
        dist.all_reduce(empty)
        dist.all_reduce(single)
        joined = fd.zeros(0, 3)
        dist.all_gather_into_tensor(joined, empty)
        singles = [fd.tensor(0.0) for _ in range(2)]
        dist.all_gather(singles, fd.tensor(float(rank)))
        out = fd.zeros(0)
        dist.reduce_scatter_tensor(out, fd.zeros(0))
        return [base.tolist(), single.item(), [one.item() for one in singles]]

    base = np.zeros((4, 4))
    base[:, 1], base[2:, 2:] = 3, 2
    assert run_members(2, member) == [[base.tolist(), 1.0, [0.0, 1.0]]] * 2


def test_changes_are_counted_and_outputs_may_be_views_of_inputs() -> None:
    def member(rank: int) -> list[Any]:
        x = fd.ones(2, requires_grad=True)
        y = x * 3
        saved = y.exp()  # exp saves its result for backward
        dist.all_reduce(saved.detach())
        with pytest.raises(RuntimeError, match=r"modified by an inplace operation|was changed"):
            saved.sum().backward()
        room = fd.zeros(4)
        room[rank * 2 : rank * 2 + 2] = rank + 1
        dist.all_gather_into_tensor(room, room[rank * 2 : rank * 2 + 2])
        dist.reduce_scatter_tensor(room[:2], room)
        return room.tolist()

    first, second = run_members(2, member)
    assert first == [2.0, 2.0, 2.0, 2.0] and second == [4.0, 4.0, 2.0, 2.0]


def test_a_premultiplied_sum_and_options_of_methods() -> None:
    def member(rank: int) -> list[Any]:
        x, y = fd.ones(2), fd.ones(2)
        dist.all_reduce(x, dist._make_nccl_premul_sum(0.5 + rank))
        options = dist.distributed_c10d.AllreduceOptions()
        options.reduceOp = dist.ReduceOp.MAX
        work = dist.group.WORLD.allreduce([y.mul_(rank)], options)
        assert work.wait() and work.is_success() and work.result()[0] is y
        with pytest.raises(TypeError, match="has no option 'reduce'"):
            dist.distributed_c10d.AllreduceOptions(reduce=1)
        return [x.tolist(), y.tolist()]

    assert run_members(2, member) == [[[2.0, 2.0], [1.0, 1.0]]] * 2


def test_several_tensors_in_one_message() -> None:
    def member(rank: int) -> list[Any]:
        tensors = [fd.full((n,), float(rank)) for n in (1, 2)]
        with dist._coalescing_manager() as manager:
            for tensor in tensors:
                dist.all_reduce(tensor)
        rows = [fd.full((2,), float(rank)), fd.full((1,), rank + 10.0)]
        outs = [fd.zeros(4), fd.zeros(2)]
        with dist._coalescing_manager(async_ops=True) as manager:
            for out, row in zip(outs, rows):
                dist.all_gather_into_tensor(out, row)
        manager.wait()
        parts = [fd.zeros(1), fd.zeros(2)]
        with dist._coalescing_manager():
            for part in parts:
                dist.reduce_scatter_tensor(part, fd.arange(part.numel() * 2.0))
        names = dist.group.WORLD._carriers["threads"].names
        assert names == ["all_reduce_coalesced", "all_gather_into_tensor", "reduce_scatter_tensor"]
        with dist._coalescing_manager():
            dist.all_gather_into_tensor(outs[0], rows[0])
        mixed = pytest.raises(RuntimeError, match="to be the same type, but got mixed types")
        with mixed, dist._coalescing_manager():
            dist.all_reduce(tensors[0])
            dist.all_gather_into_tensor(outs[0], rows[0])
        return [one.tolist() for one in (*tensors, *outs, *parts)]

    for rank, found in enumerate(run_members(2, member)):
        assert found[:4] == [[1.0], [1.0, 1.0], [0.0, 0.0, 1.0, 1.0], [10.0, 11.0]]
        assert found[4:] == [[2.0 * rank], [4.0 * rank, 4.0 * rank + 2]]


def test_a_mismatch_is_an_error_on_every_member_and_says_who_called_what(
    properties: Properties,
) -> None:
    ops, dtypes = [dist.ReduceOp.SUM, dist.ReduceOp.MAX], [fd.int32, fd.float32]
    calls: dict[str, Any] = {
        "op": lambda rank: dist.all_reduce(fd.ones(2), ops[rank]),
        "shape": lambda rank: dist.all_reduce(fd.ones(2 + rank)),
        "dtype": lambda rank: dist.all_reduce(fd.ones(2, dtype=dtypes[rank])),
        "collective": lambda rank: dist.barrier() if rank else dist.all_reduce(fd.ones(2)),
        "root": lambda rank: dist.broadcast(fd.ones(2), rank),
    }

    def member(rank: int, call: Any) -> str:
        with pytest.raises(CollectiveMismatchError) as found:
            call(rank)
        return str(found.value)

    for what, call in calls.items():
        with properties(what):
            for text in run_members(2, member, call):
                assert text.count("test_collectives.py:") == 2


def test_lists_of_other_sizes_are_a_mismatch_before_anything_is_copied() -> None:
    def member(rank: int) -> str:
        outs = [fd.zeros(1 + rank), fd.zeros(2 - rank)]
        with pytest.raises(CollectiveMismatchError) as found:
            dist.all_gather(outs, fd.ones(1))
        assert not any(one.any() for one in outs)
        return str(found.value)

    for text in run_members(2, member):
        assert "of shapes [(1,), (2,)]" in text and "of shapes [(2,), (1,)]" in text


def test_errors_leave_what_tensors_held() -> None:
    def member(rank: int) -> None:
        x, outs = fd.ones(3), [fd.ones(3) for _ in range(2)]
        if rank == 0:
            with pytest.raises(CollectiveLostError, match="rank 1"):
                dist.all_reduce(x)
            with pytest.raises(CollectiveLostError, match="rank 1"):
                dist.all_gather(outs, x)
            assert x.tolist() == [1.0] * 3 and outs[1].tolist() == [1.0] * 3
        else:
            dist.group.WORLD._carriers["threads"].lose()

    run_members(2, member)


def test_a_member_that_does_not_come_is_named_after_the_timeout() -> None:
    def member(rank: int) -> None:
        if rank == 0:
            with pytest.raises(CollectiveTimeoutError, match=r"\[1\]"):
                dist.barrier()

    run_members(2, member, timeout=timedelta(milliseconds=30))


def test_wrong_arguments_raise_before_anything_is_sent() -> None:
    def member(rank: int) -> None:
        x, y = fd.ones(2), fd.ones(3)
        two = [fd.ones(2) for _ in range(2)]
        wide = fd.ones(2, 1).expand(2, 3)
        cases = [
            (TypeError, "Expected parameter `tensor` of type", lambda: dist.all_reduce(3)),
            (TypeError, "of type List", lambda: dist.all_gather(x, x)),
            (TypeError, "with elements of type", lambda: dist.all_gather([x, 3], x)),
            (ValueError, "invalid tensor size", lambda: dist.all_gather([y, y], x)),
            (ValueError, "expected length 2, got 1", lambda: dist.all_gather([x], x)),
            (ValueError, "tensors with different dtypes", lambda: dist.all_gather(two, x.double())),
            (ValueError, "times input tensor size", lambda: dist.all_gather_into_tensor(y, x)),
            (TypeError, "same type", lambda: dist.all_gather_into_tensor(fd.ones(4), x.double())),
            (ValueError, "output size times world", lambda: dist.reduce_scatter_tensor(y, x)),
            (RuntimeError, "doesn't match total", lambda: dist.all_to_all_single(
                x, x, [2, 1], [1, 1])),
            (RuntimeError, "does not divide equally", lambda: dist.all_to_all_single(y, y)),
            (RuntimeError, "not equal to group size", lambda: dist.all_to_all_single(
                y, y, [3], [3])),
            (ValueError, "specified on dest" if rank == 0 else "NOT be", lambda: dist.gather(
                x, None if rank == 0 else two)),
            (ValueError, "specified on source" if rank == 0 else "NOT be", lambda: dist.scatter(
                x, None if rank == 0 else two)),
            (ValueError, "Must specify", lambda: dist.broadcast(x)),
            (ValueError, "Can't specify both", lambda: dist.broadcast(x, 0, group_src=0)),
            (ValueError, "not part of group", lambda: dist.broadcast(x, 5)),
            (ValueError, "invalid root rank: 5", lambda: dist.broadcast(x, group_src=5)),
            (RuntimeError, "single memory location", lambda: dist.all_reduce(wide)),
            (ValueError, "all_reduce does not support RedOpType.MAX on complex", lambda: (
                dist.all_reduce(x.to(fd.complex64), dist.ReduceOp.MAX))),
            (RuntimeError, "BAND with non-int", lambda: dist.all_reduce(x, dist.ReduceOp.BAND)),
            (RuntimeError, "a mean of int64", lambda: dist.all_reduce(x.long(), dist.ReduceOp.AVG)),
            (TypeError, "expected a ReduceOp", lambda: dist.all_reduce(x, "sum")),
            (TypeError, "List\\[int\\]", lambda: dist.barrier(device_ids=3)),
            (ValueError, "Invalid process group", lambda: dist.all_reduce(x, group=3)),
        ]  # fmt: skip
        for kind, words, call in cases:
            with pytest.raises(kind, match=words):
                call()
        assert dist.group.WORLD._carriers["threads"].names == []

    run_members(2, member)


def test_collectives_that_would_lose_a_tangent_are_refused() -> None:
    def member(rank: int) -> None:
        from fastdist.autograd import forward_ad

        with forward_ad.dual_level():
            dual = forward_ad.make_dual(fd.ones(2), fd.ones(2))
            with pytest.raises(RuntimeError, match="would not carry its tangent"):
                dist.all_gather_into_tensor(fd.ones(2), dual)

    run_members(1, member)


def test_sparse_tensors_are_summed() -> None:
    def member(rank: int) -> list[Any]:
        x = fd.sparse_coo_tensor(fd.tensor([[rank, 2]]), fd.tensor([1.0, 2.0]), (4,))
        dist.all_reduce(x)
        y = fd.sparse_coo_tensor(fd.tensor([[rank]]), fd.tensor([3.0]), (4,))
        dist.all_reduce(y, dist.ReduceOp.AVG)
        with pytest.raises(RuntimeError, match="they have SUM and AVG"):
            dist.all_reduce(x, dist.ReduceOp.MAX)
        with pytest.raises(TypeError, match=r"No support for sparse tensors\."):
            dist.broadcast(x, 0)
        return [x.to_dense().tolist(), y.to_dense().tolist()]

    assert run_members(2, member) == [[[1.0, 1.0, 4.0, 0.0], [1.5, 1.5, 0.0, 0.0]]] * 2
