"""Derivatives of collectives, which are functions of the inputs of all members."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fastdist as fd
import fastdist.distributed._functional_collectives as functional_collectives
import fastdist.distributed.nn.functional as F
from fastdist import Tensor
from fastdist import distributed as dist
from fastdist.autograd import forward_ad, grad
from fastdist.core.errors import ShapeError
from fastdist.distributed.distributed_c10d import ReduceOp
from fastdist.func import vmap
from tests.distributed.process_group.thread_members import ThreadTransport, run_members

Function = Callable[[Tensor], Tensor]


def members() -> tuple[int, int]:
    return dist.get_rank(), dist.get_world_size()


def uneven_exchange(x: Tensor) -> Tensor:
    rank, size = members()
    # Two rows to the next member, none to this one, and one to each of the others.
    rows = [[0 if to == r else 2 if to == (r + 1) % size else 1 for to in range(size)]
            for r in range(size)]  # fmt: skip
    received = [rows[sender][rank] for sender in range(size)]
    output = x.new_empty(sum(received), x.shape[1])
    return F.all_to_all_single(output, x, received, rows[rank])


def exchanged_lists(x: Tensor) -> Tensor:
    rank, size = members()
    # Even ranks send one number to each member, odd ranks two.
    inputs = [x[to, : 1 + rank % 2] for to in range(size)]
    outputs = [x.new_empty(1 + sender % 2) for sender in range(size)]
    return fd.cat(F.all_to_all(outputs, inputs))


def ring(x: Tensor) -> Tensor:
    rank, size = members()
    sent = F.send(x, (rank + 1) % size)
    return F.recv(x, (rank - 1) % size) + sent.sum()


def scaled_sum(x: Tensor) -> Tensor:
    op = ReduceOp(ReduceOp.PREMUL_SUM)
    op.factor = 1.5 + dist.get_rank()
    return F.all_reduce(x, op)


# By name: a function of a tensor of shape (members, 2), and its number of collectives per call.
LINEAR: dict[str, tuple[Function, int]] = {
    "all_reduce": (F.all_reduce, 1),
    "all_reduce, mean": (lambda x: F.all_reduce(x, ReduceOp.AVG), 1),
    "all_reduce, factors": (scaled_sum, 1),
    "broadcast": (lambda x: F.broadcast(x, 1), 1),
    "reduce": (lambda x: F.reduce(x, 1), 1),
    "reduce, mean": (lambda x: F.reduce(x, 0, ReduceOp.AVG), 1),
    "all_gather": (lambda x: fd.stack(F.all_gather(x)), 1),
    "gather": (lambda x: fd.stack(F.gather(x, 1)), 1),
    "scatter": (lambda x: F.scatter(x.unbind(0), 1), 1),
    "reduce_scatter": (lambda x: F.reduce_scatter(x.new_empty(2), x.unbind(0)), 1),
    "reduce_scatter, mean": (
        lambda x: F.reduce_scatter(x.new_empty(2), x.unbind(0), ReduceOp.AVG), 1,
    ),
    "all_to_all": (exchanged_lists, 1),
    "all_to_all_single": (lambda x: F.all_to_all_single(x.new_empty(x.shape), x), 1),
    "all_to_all_single, uneven": (uneven_exchange, 1),
    "send and recv": (ring, 0),
    "all_gather_single along 1": (
        lambda x: functional_collectives.all_gather_single(x, 1, dist.group.WORLD), 1,
    ),
    "reduce_scatter_single along -1": (
        lambda x: functional_collectives.reduce_scatter_single(x.T, "avg", -1, dist.group.WORLD), 1,
    ),
    "permute_tensor": (
        lambda x: functional_collectives.permute_tensor(
            x, [*range(1, len(x)), 0], dist.group.WORLD
        ), 1,
    ),
}  # fmt: skip
OTHERS: dict[str, Function] = {
    "largest": lambda x: F.all_reduce(x, ReduceOp.MAX),
    "smallest": lambda x: F.all_reduce(x, ReduceOp.MIN),
    "product": lambda x: F.all_reduce(x, ReduceOp.PRODUCT),
    "largest of parts": lambda x: F.reduce_scatter(x.new_empty(2), x.unbind(0), ReduceOp.MAX),
    "of a sum": lambda x: (F.all_reduce(x.exp()) ** 2).sin(),
    "twice": lambda x: F.all_reduce(F.all_reduce(x.sin(), ReduceOp.AVG).exp() * x),
}  # fmt: skip
FUNCTIONS: dict[str, Function] = {**{name: one for name, (one, _) in LINEAR.items()}, **OTHERS}


def inputs(size: int) -> np.ndarray[Any, Any]:
    """Return different inputs for each member."""
    return np.random.default_rng(size).uniform(0.2, 1.0, (size, size, 2))


def by_differences(
    compute: Callable[[Tensor, int], Tensor], given: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """Return the derivatives of all results by all inputs; `compute(x, rank)` runs one member."""

    def member(rank: int) -> list[list[float]]:
        columns = []
        for place in np.ndindex(given.shape):
            step = np.zeros_like(given)
            step[place] = 1e-5
            after, before = (
                compute(fd.tensor((given + way * step)[rank]), rank) for way in (1, -1)
            )
            columns.append(((after - before) / 2e-5).reshape(-1).tolist())
        return columns

    return np.concatenate(run_members(len(given), member), axis=1).T


def by_backward(function: Function, given: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the derivatives row by row, each from a backward whose seeds are 0 but for one 1."""

    def member(rank: int) -> list[list[float]]:
        x = fd.from_numpy(given[rank].copy()).requires_grad_()
        result = function(x)
        counts: list[Any] = [None] * len(given)
        dist.all_gather_object(counts, result.numel())
        rows = []
        for owner, count in enumerate(counts):
            for place in range(count):
                seed = fd.zeros(result.numel(), dtype=fd.float64)
                if owner == rank:
                    seed[place] = 1.0
                (found,) = grad(result, x, seed.reshape(result.shape), retain_graph=True)
                rows.append(found.reshape(-1).tolist())
        return rows

    return np.concatenate(run_members(len(given), member), axis=1)


def by_tangents(function: Function, given: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the derivatives column by column, each from tangents that are 0 but for one 1."""

    def member(rank: int) -> list[list[float]]:
        columns = []
        for place in np.ndindex(given.shape):
            seed = np.zeros(given.shape)
            seed[place] = 1.0
            dual = forward_ad.make_dual(fd.from_numpy(given[rank].copy()), fd.tensor(seed[rank]))
            tangent = forward_ad.unpack_dual(function(dual)).tangent
            assert tangent is not None
            columns.append(tangent.reshape(-1).tolist())
        return columns

    # Levels belong to the process, so all members, which are threads, share this level.
    with forward_ad.dual_level():
        return np.concatenate(run_members(len(given), member), axis=1).T


# Derivatives with four members take two thirds of the total time. An ordinary run only tests
# functions that move numbers differently between four members than between three.
AMONG_FOUR = ("all_to_all_single, uneven", "all_to_all", "send and recv", "permute_tensor")


def functions_and_sizes() -> Iterator[Any]:
    for name in FUNCTIONS:
        for size in (2, 3, 4):
            slow = [pytest.mark.slow] if size == 4 and name not in AMONG_FOUR else []
            yield pytest.param(name, size, marks=slow, id=f"{name}-{size}")


@pytest.mark.one_in(5)
@pytest.mark.parametrize(("name", "size"), [*functions_and_sizes()])
def test_derivatives_are_those_of_all_members_together(name: str, size: int) -> None:
    function, given = FUNCTIONS[name], inputs(size)
    expected = by_differences(lambda x, rank: function(x), given)
    np.testing.assert_allclose(by_backward(function, given), expected, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(by_tangents(function, given), expected, rtol=1e-7, atol=1e-8)


def slope(function: Function, x: Tensor, rank: int, *, recorded: bool = False) -> Tensor:
    """Return the gradient of a weighted sum of cubes of all results; weights differ by member."""
    loss = (function(x.sin()) ** 3).sum() * (1.0 + rank)
    return grad(loss, x, create_graph=recorded)[0]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_derivatives_in_both_ways(name: str) -> None:
    function, given = FUNCTIONS[name], inputs(2)
    direction = np.random.default_rng(9).normal(size=given.shape)
    hessian = by_differences(lambda x, rank: slope(function, x.requires_grad_(), rank), given)
    expected = hessian @ direction.reshape(-1)

    def twice_back(rank: int) -> Any:
        x = fd.from_numpy(given[rank].copy()).requires_grad_()
        first = slope(function, x, rank, recorded=True)
        (found,) = grad((first * fd.tensor(direction[rank])).sum(), x)
        return found.reshape(-1).tolist()

    def forward_over_back(rank: int) -> Any:
        x = fd.from_numpy(given[rank].copy()).requires_grad_()
        dual = forward_ad.make_dual(x, fd.tensor(direction[rank]))
        found = forward_ad.unpack_dual(slope(function, dual, rank, recorded=True)).tangent
        assert found is not None
        return found.reshape(-1).tolist()

    np.testing.assert_allclose(
        np.concatenate(run_members(2, twice_back)), hessian.T @ direction.reshape(-1), rtol=1e-6
    )
    with forward_ad.dual_level():
        found = np.concatenate(run_members(2, forward_over_back))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", LINEAR)
def test_a_batch_is_one_collective(name: str) -> None:
    function, count = LINEAR[name]

    def member(rank: int) -> int:
        batch = fd.tensor(inputs(3)[rank]) * fd.arange(1, 5, dtype=fd.float64)[:, None, None]
        expected = fd.stack([function(one) for one in batch])
        carriers: list[Any] = list(dist.group.WORLD._carriers.values())
        (transport,) = [one for one in carriers if isinstance(one, ThreadTransport)]
        before = len(transport.names)
        found = vmap(function)(batch)
        calls = len(transport.names) - before
        assert fd.equal(found, expected)
        turned = vmap(vmap(function), in_dims=2, out_dims=1)(fd.stack([batch, batch], 2))
        assert fd.equal(turned, fd.stack([expected, expected], 1))
        return calls

    assert run_members(3, member) == [count] * 3


def test_half_types_and_complex_numbers_pass() -> None:
    def member(rank: int) -> None:
        for dtype in (fd.float16, fd.bfloat16, fd.float32):
            x = fd.full((3,), rank + 1.0, dtype=dtype).requires_grad_()
            y = F.all_reduce(x)
            (y * (rank + 1)).sum().backward()
            assert y.dtype is dtype and y.tolist() == [3.0] * 3
            assert x.grad is not None and x.grad.dtype is dtype and x.grad.tolist() == [3.0] * 3
        z = fd.tensor([1 + 2j, 3j]).requires_grad_()
        (found,) = grad(F.all_reduce(z * 1j), z, fd.tensor([1 - 1j, 2 + 0j]))
        assert found.tolist() == [-2 - 2j, -4j]

    run_members(2, member)


def test_integers_have_every_reduction() -> None:
    def member(rank: int) -> list[Any]:
        x = fd.tensor([6, 3]) + rank
        ops = (ReduceOp.SUM, ReduceOp.MAX, ReduceOp.BAND, ReduceOp.BXOR)
        return [F.all_reduce(x, op).tolist() for op in ops]

    assert run_members(2, member) == [[[13, 7], [7, 4], [6, 0], [1, 7]]] * 2


def test_outputs_get_the_numbers_too() -> None:
    def member(rank: int) -> None:
        x = fd.arange(4.0).reshape(2, 2) + 10 * rank
        output = fd.empty(2, 2)
        assert fd.equal(F.all_to_all_single(output, x), output)
        part = fd.empty(2)
        assert fd.equal(F.reduce_scatter(part, list(x)), part)

    run_members(2, member)


def test_mistakes_are_explained() -> None:
    def member(rank: int) -> None:
        world, x = dist.group.WORLD, fd.ones(3, 2)
        with pytest.raises(ShapeError, match="input has 3 rows, which 2 members cannot share"):
            F.all_to_all_single(x, x)
        with pytest.raises(ShapeError, match=r"input_split_sizes is \[1, 1\]; expected 2 sizes"):
            F.all_to_all_single(x, x, [1, 2], [1, 1])
        with pytest.raises(ShapeError, match="there are 3 tensors, expected one for each of 2"):
            F.scatter(list(x))
        with pytest.raises(NotImplementedError, match=r"reduce with RedOpType\.MAX has no deriv"):
            F.reduce(x, 0, ReduceOp.MAX)
        with pytest.raises(ValueError, match="A list of ranks is not a group: call new_group"):
            functional_collectives.all_reduce(x, "sum", [0, 1])
        with pytest.raises(ValueError, match="Invalid reduce operation 'mean'"):
            functional_collectives.all_reduce(x, "mean", world)
        with pytest.raises(ShapeError, match=r"dimension 0 \(3\) must be a multiple of group_size"):
            functional_collectives.reduce_scatter_single(x, "sum", 0, world)

    run_members(2, member)
