"""Collectives on dual tensors: values and tangents, at one level and at two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fastdist as fd
from fastdist import distributed as dist
from fastdist.autograd import forward_ad
from tests.distributed.process_group.thread_members import run_members

VALUES = [fd.tensor([1.0, 5.0]), fd.tensor([3.0, 2.0])]
TANGENTS = [fd.tensor([0.5, 7.0]), fd.tensor([0.25, 11.0])]

WANTED: dict[str, tuple[Callable[[fd.Tensor], Any], list[list[float]], list[list[float]]]] = {
    "sum": (dist.all_reduce, [[4.0, 7.0]] * 2, [[0.75, 18.0]] * 2),
    "mean": (
        lambda x: dist.all_reduce(x, dist.ReduceOp.AVG),
        [[2.0, 3.5]] * 2,
        [[0.375, 9.0]] * 2,
    ),
    "reduce": (
        lambda x: dist.reduce(x, 1),
        [[1.0, 5.0], [4.0, 7.0]],
        [[0.5, 7.0], [0.75, 18.0]],
    ),
    "broadcast": (lambda x: dist.broadcast(x, 1), [[3.0, 2.0]] * 2, [[0.25, 11.0]] * 2),
}


@pytest.mark.parametrize("what", WANTED)
def test_values_and_tangents_are_those_of_all_members(what: str) -> None:
    call, values, tangents = WANTED[what]

    def member(rank: int) -> tuple[list[float], list[float]]:
        dual = forward_ad.make_dual(VALUES[rank].clone(), TANGENTS[rank])
        assert call(dual) is None
        found = forward_ad.unpack_dual(dual)
        return found.primal.tolist(), found.tangent.tolist()

    # Members are threads, and all threads of a process share its levels.
    with forward_ad.dual_level():
        assert run_members(2, member) == list(zip(values, tangents, strict=True))


def test_a_view_and_an_async_call_keep_their_tangents() -> None:
    def member(rank: int) -> tuple[list[float], list[float]]:
        whole = forward_ad.make_dual(VALUES[rank].clone(), TANGENTS[rank])
        work = dist.all_reduce(whole[1:], async_op=True)
        assert work is not None
        work.wait()
        found = forward_ad.unpack_dual(whole)
        return found.primal.tolist(), found.tangent.tolist()

    with forward_ad.dual_level():
        assert run_members(2, member) == [([1.0, 7.0], [0.5, 18.0]), ([3.0, 7.0], [0.25, 18.0])]


def test_a_graph_of_a_value_and_its_tangent_is_that_of_all_members() -> None:
    """The sum over ranks of (rank + 1) x^2, whose derivative at 2 is 12."""

    def member(rank: int) -> list[float]:
        x = forward_ad.make_dual(fd.tensor([2.0]), fd.ones(1))
        y = x * x * (rank + 1)
        dist.all_reduce(y)
        z = y * x
        found = forward_ad.unpack_dual(z)
        return [found.primal.item(), found.tangent.item()]

    with forward_ad.dual_level():
        assert run_members(2, member) == [[24.0, 36.0]] * 2


def test_a_tensor_that_cannot_be_written_is_refused_before_anything_is_sent() -> None:
    def member(rank: int) -> None:
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(fd.ones(1), fd.ones(1)).expand(3)
            with pytest.raises(RuntimeError, match=r"single memory location|share memory"):
                dist.all_reduce(dual)

    run_members(1, member)


@pytest.mark.parametrize("op", [dist.ReduceOp.MAX, dist.ReduceOp.PRODUCT])
def test_reductions_that_are_not_linear_are_refused_before_anything_is_sent(op: Any) -> None:
    def member(rank: int) -> None:
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(fd.ones(1), fd.ones(1))
            with pytest.raises(
                RuntimeError, match=r"is not linear: call distributed\.nn\.functional"
            ):
                dist.all_reduce(dual, op)
            assert dual.item() == 1.0

    run_members(1, member)
