"""DistributedOptimizer updates parameters on their owners, with the results of one process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, ClassVar
from unittest import mock

import numpy as np
import pytest

import fastdist
import fastdist.distributed.autograd as da
from fastdist import Tensor, optim
from fastdist.core.errors import ContextError, RpcError
from fastdist.distributed import rpc
from fastdist.distributed.optim import DistributedOptimizer
from fastdist.distributed.rpc.agent import get_current_agent
from tests.distributed.autograd.on_worker import on_worker
from tests.distributed.members import members
from tests.distributed.remote_parameters import parameter, times, value_of
from tests.distributed.workers import Group


@pytest.fixture(scope="module")
def group() -> Iterator[Group]:
    with members(__file__, 3, rpc_timeout=30, init_timeout=30) as group:
        yield group


# ---- what workers run for others ----------------------------------------------------------------


def loss_of(w: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return ((w * x).sin() * v).sum()


class FailsOnOne(optim.SGD):
    """An SGD whose step raises on worker 1."""

    def step(self, closure: Any = None) -> Any:
        if rpc.get_worker_info().name == "w1":
            raise ArithmeticError("on purpose")
        return super().step(closure)


def train_here(kind: type[optim.Optimizer], **settings: Any) -> list[np.ndarray[Any, Any]]:
    parameters = [parameter(1), parameter(2)]
    optimizer = kind(parameters, **settings)
    x = parameter(3).detach()
    for _ in range(3):
        optimizer.zero_grad()
        loss_of(*parameters, x).backward()
        optimizer.step()
    return [p.detach().numpy() for p in parameters]


def parameters_of_two_workers() -> list[Any]:
    return [rpc.remote(f"w{i}", parameter, (i,)) for i in (1, 2)]


def pass_over(rrefs: list[Any], context_id: int) -> None:
    x = parameter(3).detach()
    products = rpc.rpc_sync("w1", times, (rrefs[0], x)).sin()
    da.backward(context_id, [rpc.rpc_sync("w2", times, (rrefs[1], products)).sum()])


# ---- tests --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (optim.SGD, {"lr": 0.1}),
        (optim.SGD, {"lr": 0.1, "momentum": 0.9}),
        (optim.Adam, {"lr": 0.1}),
        (optim.AdamW, {"lr": 0.1}),
        (optim.Adadelta, {}),
        (optim.Adafactor, {}),
        (optim.Adagrad, {}),
        (optim.Adamax, {}),
        (optim.ASGD, {}),
        (optim.Muon, {}),
        (optim.NAdam, {}),
        (optim.RAdam, {}),
        (optim.RMSprop, {"momentum": 0.9}),
        (optim.Rprop, {}),
    ],
)
@on_worker(0)
def test_training_over_two_workers_is_that_of_one_process(kind: Any, settings: Any) -> None:
    rrefs = parameters_of_two_workers()
    optimizer = DistributedOptimizer(kind, rrefs, **settings)
    for _ in range(3):
        with da.context() as context_id:
            pass_over(rrefs, context_id)
            optimizer.step(context_id)
    found = [rpc.rpc_sync(rref.owner(), value_of, (rref,)) for rref in rrefs]
    for ours, theirs in zip(found, train_here(kind, **settings), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


@on_worker(0)
def test_parameters_of_one_worker_share_one_optimizer() -> None:
    here = [rpc.RRef(parameter(i)) for i in range(2)]
    there = [rpc.remote("w1", parameter, (i,)) for i in range(2)]
    optimizer = DistributedOptimizer(optim.SGD, [*here, *there], lr=0.1)
    owners = sorted(rref.owner_name() for rref in optimizer.remote_optimizers)
    assert owners == ["w0", "w1"]


@on_worker(0)
def test_a_parameter_without_gradient_stays() -> None:
    rrefs = parameters_of_two_workers()
    optimizer = DistributedOptimizer(optim.SGD, rrefs, lr=0.1)
    before = rpc.rpc_sync("w2", value_of, (rrefs[1],))
    with da.context() as context_id:
        x = parameter(3).detach()
        da.backward(context_id, [rpc.rpc_sync("w1", times, (rrefs[0], x)).sum()])
        rpc.rpc_sync("w2", type(None))
        optimizer.step(context_id)
    assert (rpc.rpc_sync("w2", value_of, (rrefs[1],)) == before).all()
    assert (rpc.rpc_sync("w1", value_of, (rrefs[0],)) != parameter(1).detach().numpy()).all()


@on_worker(0)
def test_a_worker_that_fails_does_not_keep_others_from_stepping() -> None:
    rrefs = parameters_of_two_workers()
    optimizer = DistributedOptimizer(FailsOnOne, rrefs, lr=0.1)
    before = rpc.rpc_sync("w2", value_of, (rrefs[1],))
    with da.context() as context_id:
        pass_over(rrefs, context_id)
        with pytest.raises(ArithmeticError, match="on purpose"):
            optimizer.step(context_id)
    assert (rpc.rpc_sync("w2", value_of, (rrefs[1],)) != before).any()


class FailsHere(optim.SGD):
    """An SGD that records the threads of its steps, and raises on worker 0."""

    steppers: ClassVar[list[int]] = []

    def step(self, closure: Any = None) -> Any:
        if rpc.get_worker_info().name == "w0":
            self.steppers.append(threading.get_ident())
            raise ArithmeticError("on purpose")
        return super().step(closure)


@on_worker(0)
def test_what_lives_here_is_stepped_in_the_caller_s_thread_and_may_fail_as_others() -> None:
    here, there = rpc.RRef(parameter(1)), rpc.remote("w1", parameter, (2,))
    optimizer = DistributedOptimizer(FailsHere, [here, there], lr=0.1)
    before = rpc.rpc_sync("w1", value_of, (there,))
    with da.context() as context_id:
        product = rpc.rpc_sync("w1", times, (there, here.local_value())).sum()
        da.backward(context_id, [product])
        with pytest.raises(ArithmeticError, match="on purpose"):
            optimizer.step(context_id)
    assert FailsHere.steppers == [threading.get_ident()]
    assert (rpc.rpc_sync("w1", value_of, (there,)) != before).any()


@on_worker(0)
def test_what_lives_here_is_stepped_once_while_other_owners_step_theirs() -> None:
    w, v = parameter(1), parameter(2)
    optimizer = DistributedOptimizer(optim.SGD, [rpc.RRef(w), *parameters_of_two_workers()])
    agent: Any = get_current_agent()
    for side_effect in (None, RpcError("it cannot be reached")):
        before = w.detach().numpy().copy()
        with da.context() as context_id:
            da.backward(context_id, [(w * v).sum()])
            if side_effect is None:
                optimizer.step(context_id)
            else:
                with (
                    mock.patch.object(agent.client, "begin", side_effect=side_effect),
                    pytest.raises(RpcError, match="it cannot be reached"),
                ):
                    optimizer.step(context_id)
        np.testing.assert_allclose(w.detach().numpy(), before - 1e-3 * v.detach().numpy())


@on_worker(0)
def test_an_unknown_context_is_an_error_that_names_it() -> None:
    optimizer = DistributedOptimizer(optim.SGD, parameters_of_two_workers(), lr=0.1)
    with pytest.raises(ContextError, match=r"^Could not find autograd context with id: 77"):
        optimizer.step(77)


@on_worker(0)
def test_what_an_optimizer_refuses_is_raised_to_who_made_it() -> None:
    with pytest.raises(ValueError, match="learning rate"):
        DistributedOptimizer(optim.SGD, parameters_of_two_workers(), lr=-1.0)


@on_worker(0)
def test_arguments_of_the_wrong_kind_are_refused() -> None:
    with pytest.raises(TypeError, match=r"expected a class of fastdist.optim, got 'SGD'"):
        DistributedOptimizer("SGD", parameters_of_two_workers())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"expected RRefs of parameters, got Tensor"):
        DistributedOptimizer(optim.SGD, [parameter(1)], lr=0.1)  # type: ignore[list-item]
    with pytest.raises(ValueError, match=r"^optimizer got an empty parameter list"):
        DistributedOptimizer(optim.SGD, [], lr=0.1)
    with pytest.raises(TypeError, match=r"LBFGS looks at all parameters at once"):
        DistributedOptimizer(optim.LBFGS, parameters_of_two_workers())
    with pytest.raises(TypeError, match=r"expected a list of RRefs, got one RRef"):
        DistributedOptimizer(optim.SGD, rpc.RRef(parameter(1)), lr=0.1)  # type: ignore[arg-type]


# ---- tables whose gradients are sparse ----------------------------------------------------------


def sparse_table() -> Tensor:
    return fastdist.arange(20.0).reshape(10, 2).requires_grad_()


def looked_up(rref: Any, rows: Tensor) -> Tensor:
    return fastdist.nn.functional.embedding(rows, rref.local_value(), sparse=True)


def is_sparse_there(context_id: int) -> list[bool]:
    return [g.is_sparse for g in da.get_gradients(context_id).values()]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", [optim.SGD, optim.Adagrad, optim.SparseAdam])
@on_worker(0)
def test_a_table_on_another_worker_is_stepped_by_its_touched_rows(kind: Any) -> None:
    rref = rpc.remote("w1", sparse_table)
    optimizer = DistributedOptimizer(kind, [rref], lr=0.5)
    with da.context() as context_id:
        rows = rpc.rpc_sync("w1", looked_up, (rref, fastdist.tensor([1, 4, 1])))
        more = rpc.rpc_sync("w1", looked_up, (rref, fastdist.tensor([4])))
        da.backward(context_id, [rows.sum() + more.sum()])
        assert rpc.rpc_sync("w1", is_sparse_there, (context_id,)) == [True]
        optimizer.step(context_id)
    expected = np.arange(20.0).reshape(10, 2)
    # The other optimizers move each element by `lr` in the first step, whatever its gradient is.
    expected[[1, 4]] -= 1.0 if kind is optim.SGD else 0.5
    np.testing.assert_allclose(rpc.rpc_sync("w1", value_of, (rref,)), expected, rtol=1e-5)
