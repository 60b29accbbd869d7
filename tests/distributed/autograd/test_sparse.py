"""Sparse tensors stay sparse between workers; gradients of a few rows cost only these rows.

The workers are in strict mode, so messages may only name allowed functions and classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fastdist as fd
import fastdist.autograd.forward_ad as fwAD
import fastdist.distributed.autograd as da
from fastdist import Tensor, optim
from fastdist.core.errors import MessageError
from fastdist.distributed import rpc
from fastdist.distributed.autograd.context import DistAutogradContext
from fastdist.distributed.autograd.outbox import unpack
from fastdist.distributed.autograd.recv_rpc_backward import RecvRpcBackward
from fastdist.distributed.autograd.send_rpc_backward import SendRpcBackward
from fastdist.distributed.optim import DistributedOptimizer
from fastdist.graph.accumulate_grad import accumulator_of
from fastdist.nn import functional as F
from tests.distributed.autograd.fake_agent import FakeAgent
from tests.distributed.autograd.on_worker import on_worker
from tests.distributed.autograd.tasks import begin, inside
from tests.distributed.lives import life
from tests.distributed.members import members
from tests.distributed.workers import Group

ROWS = fd.tensor([1, 4, 1])


@pytest.fixture(scope="module")
def group() -> Iterator[Group]:
    with members(__file__, 3, rpc_timeout=30, init_timeout=30, strict=True) as group:
        group.run_all(let_others)
        yield group


# ---- what workers run for others ----------------------------------------------------------------


def let_others() -> None:
    """Allow a class. A call of this function also loads this file, which exports functions."""
    rpc.allow("fastdist.optim.sparse_adam.SparseAdam")


def table() -> Tensor:
    return fd.arange(20.0).reshape(10, 2).requires_grad_()


_here: dict[str, Tensor] = {}


@rpc.export
def table_here() -> Tensor:
    return _here.setdefault("table", table())


@rpc.export
def reference() -> rpc.RRef[Tensor]:
    return rpc.RRef(table_here())


@rpc.export
def look_up(weight: Tensor, rows: Tensor) -> Tensor:
    return F.embedding(rows, weight, sparse=True)


@rpc.export
def look_up_at_the_next(weight: Tensor, rows: Tensor) -> Tensor:
    return rpc.rpc_sync("w2", look_up, (weight, rows))


@rpc.export
def times(matrix: Tensor, dense: Tensor) -> Tensor:
    assert matrix.is_sparse
    return fd.sparse.mm(matrix, dense)


@rpc.export
def tripled(weight: Tensor) -> Tensor:
    return weight * 3


@rpc.export
def doubled(matrix: Tensor) -> Tensor:
    return matrix * 2


@rpc.export
def gradient_here(context_id: int) -> Any:
    (gradient,) = da.get_gradients(context_id).values()
    return gradient


def matrix(requires_grad: bool = True) -> Tensor:
    return fd.sparse_coo_tensor(
        [[0, 2, 0], [1, 0, 1]], [1.0, 2.0, 3.0], (3, 2), requires_grad=requires_grad
    )


# ---- gradients ----------------------------------------------------------------------------------


@pytest.mark.parametrize("function", ["look_up", "look_up_at_the_next"])
@on_worker(0)
def test_the_gradient_of_a_table_that_was_sent_comes_back_sparse(function: str) -> None:
    weight = table()
    with da.context() as context_id:
        rows = rpc.rpc_sync("w1", globals()[function], (weight, ROWS))
        da.backward(context_id, [(rows**2).sum()])
        gradient = da.get_gradients(context_id)[weight]
    assert gradient.is_sparse and gradient._indices().tolist() == [[1, 4, 1]]
    np.testing.assert_array_equal(gradient._values().numpy(), 2 * weight.detach()[ROWS].numpy())


@on_worker(0)
def test_a_table_that_was_fetched_is_stepped_by_its_touched_rows() -> None:
    rref = rpc.rpc_sync("w1", reference)
    optimizer = DistributedOptimizer(optim.SparseAdam, [rref], lr=0.5)
    before = rpc.rpc_sync("w1", table_here).detach()
    with da.context() as context_id:
        da.backward(context_id, [look_up(rref.to_here(), ROWS).sum()])
        found = rpc.rpc_sync("w1", gradient_here, (context_id,))
        optimizer.step(context_id)
    assert found.is_sparse and found._indices().tolist() == [[1, 4, 1]]
    change = rpc.rpc_sync("w1", table_here).detach() - before
    assert change.any(1).tolist() == [row in (1, 4) for row in range(10)]


@on_worker(0)
def test_gradients_of_both_kinds_for_one_tensor_are_a_dense_one() -> None:
    weight = table()
    with da.context() as context_id:
        rows = rpc.rpc_sync("w1", look_up, (weight, ROWS))
        more = rpc.rpc_sync("w1", tripled, (weight,))
        again = rpc.rpc_sync("w2", look_up, (weight, ROWS[:1]))
        da.backward(context_id, [rows.sum() + more.sum() + again.sum()])
        gradient = da.get_gradients(context_id)[weight]
    assert not gradient.is_sparse
    assert gradient[:, 0].tolist() == [3, 6, 3, 3, 4, 3, 3, 3, 3, 3]


@on_worker(0)
def test_sparse_gradients_of_several_messages_are_joined() -> None:
    weight = table()
    with da.context() as context_id:
        found = [rpc.rpc_sync(to, look_up, (weight, ROWS)) for to in ("w1", "w1", "w2", "w0")]
        for _ in range(2):
            da.backward(context_id, [sum(rows.sum() for rows in found)], retain_graph=True)
        gradient = da.get_gradients(context_id)[weight]
    assert gradient.is_sparse and gradient._nnz() == 24
    assert gradient.to_dense()[:, 0].tolist() == [0, 16, 0, 0, 8, 0, 0, 0, 0, 0]


@on_worker(0)
def test_a_result_that_was_sent_takes_a_dense_gradient() -> None:
    weight = table()
    with da.context() as context_id:
        rows = rpc.rpc_sync("w1", look_up, (weight * 3, ROWS))
        da.backward(context_id, [rows.sum()])
        gradient = da.get_gradients(context_id)[weight]
    assert not gradient.is_sparse and gradient[:, 0].tolist() == [0, 6, 0, 0, 3, 0, 0, 0, 0, 0]


def test_a_sparse_gradient_leaves_as_its_coordinates_and_values(agent: FakeAgent) -> None:
    with da.context():
        context = da._current_context()
        weight = table()
        receive = RecvRpcBackward(context, 7, life(1), (weight._layout, weight._layout))
        gradient = fd.sparse_coo_tensor([[1, 4]], fd.ones(2, 2), (10, 2))
        with inside(begin(context, fd.ones(1, requires_grad=True).sum())):
            receive.apply((fd.ones(10, 2)._array, gradient._array), keep=False)
        ((to, _, words, _),), ((dense, indices, values),) = agent.sent, agent.tensors
    assert to == 1 and words["messages"] == [7, 2] and words["sparse"] == [1, 0, 2, 10, 2]
    assert dense.numel() == 20 and indices.tolist() == [[1, 4]] and values.numel() == 4
    came = unpack([dense, indices, values], {name: (*words[name],) for name in words if name in
                  ("messages", "sparse")}, 1)  # fmt: skip
    assert came[0].tensors is not None
    assert [one.is_sparse for one in came[0].tensors] == [False, True]


@pytest.mark.parametrize(
    "told",
    [
        (0,),
        (0, 1, 2),
        (0, 1, -1),
        (1, 1, 2, 10, 2),
        (0, 1, 2, 10, 3),
        (0, 1, 2, 4, 2),
        (0, 1, 1, 9),
    ],
)
def test_parts_that_do_not_fit_are_refused(told: tuple[int, ...]) -> None:
    parts = [fd.tensor([[1, 4]]), fd.ones(2, 2)]
    with pytest.raises(MessageError, match="worker 3"):
        unpack(parts, {"messages": (7, 1), "sparse": told}, 3)


def test_a_sparse_gradient_of_another_shape_is_refused() -> None:
    gradient = fd.sparse_coo_tensor([[1, 40]], fd.ones(2, 2), (50, 2))
    send = SendRpcBackward((None,), (table()._layout,), life(3))
    with pytest.raises(MessageError, match=r"shape \(50, 2\) arrived from worker 3 .* \(10, 2\)"):
        send.set_grads(begin(DistAutogradContext(1), table().sum()), (gradient,))


# ---- sparse tensors as arguments and results ----------------------------------------------------


@on_worker(0)
def test_a_sparse_tensor_travels_as_it_is() -> None:
    given = matrix(requires_grad=False)
    result = rpc.rpc_sync("w1", doubled, (given,))
    assert result.is_sparse and not result.requires_grad and not result.is_coalesced()
    assert result._indices().tolist() == given._indices().tolist()
    assert result._values().tolist() == [2, 4, 6]
    leaf = rpc.rpc_sync("w1", doubled, (matrix(),))
    assert leaf.requires_grad and leaf.is_leaf


@on_worker(0)
def test_gradients_flow_through_sparse_arguments_and_results() -> None:
    found = []
    for away in (False, True):
        a, b = matrix(), fd.arange(8.0).reshape(2, 4).requires_grad_()
        with da.context() as context_id:
            twice = rpc.rpc_sync("w1", doubled, (a,)) if away else doubled(a)
            product = rpc.rpc_sync("w2", times, (twice, b)) if away else times(twice, b)
            da.backward(context_id, [(product**2).sum()])
            gradients = da.get_gradients(context_id)
            found.append([gradients[a].to_dense().numpy(), gradients[b].numpy()])
    for here, there in zip(*found, strict=True):
        np.testing.assert_array_equal(here, there)


@on_worker(0)
def test_tangents_travel_with_sparse_tensors() -> None:
    with fwAD.dual_level():
        dual = fwAD.make_dual(matrix(requires_grad=False), matrix(requires_grad=False) * 3)
        found = fwAD.unpack_dual(rpc.rpc_sync("w1", doubled, (dual,))).tangent
    assert found is not None and found.is_sparse
    np.testing.assert_array_equal(
        found.to_dense().numpy(), 6 * matrix().detach().to_dense().numpy()
    )


@pytest.mark.one_in(4, each=True)
@pytest.mark.parametrize("place", ["sim:0", "cpu"])
def test_sparse_gradients_of_devices_travel_by_the_host(agent: FakeAgent, place: str) -> None:
    device = fd.device(place)
    weight = table().detach().to(device).requires_grad_()
    gradient = fd.sparse_coo_tensor([[1, 4]], fd.ones(2, 2), (10, 2)).to(device)
    with da.context():
        context = da._current_context()
        receive = RecvRpcBackward(context, 7, life(1), (weight._layout,))
        with inside(part := begin(context, table().sum())):
            receive.apply(gradient._array, keep=False)
    parts = agent.tensors[0]
    assert [part.device for part in parts] == [fd.device("cpu")] * 2
    send = SendRpcBackward((accumulator_of(weight),), (weight._layout,), life(3))
    send.set_grads(part, (gradient.to("cpu"),))
    with inside(part):
        (came,) = send.apply_recorded(None, keep=False)
    assert came.is_sparse and came.device == device
