"""In a dynamic group, a context survives a worker whose rank a new worker takes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import pytest

import fastdist
import fastdist.distributed.autograd as da
from fastdist.core.errors import WorkerLostError
from fastdist.distributed import rpc
from tests.distributed.workers import run_group


def join() -> None:
    # Groups are numbered in the store; reset the counter so that the worker rejoins the same group.
    rpc.init._init_counter = 0  # type: ignore[attr-defined]
    store = f"tcp://127.0.0.1:{os.environ['MASTER_PORT']}"
    options = rpc.TensorPipeRpcBackendOptions(init_method=store)
    rank = int(os.environ["RANK"])
    rpc.init_rpc(f"w{rank}", rank=rank, rpc_backend_options=options)


def live_twice() -> None:
    for _ in range(2):
        may_leave.clear()
        join()
        rpc.rpc_sync("w0", take_note_that_one_came)
        assert may_leave.wait(30)
        rpc.shutdown()


may_leave = threading.Event()
has_come = threading.Semaphore(0)


def set_may_leave() -> None:
    may_leave.set()


def take_note_that_one_came() -> None:
    has_come.release()


def double(x: Any) -> Any:
    return x * 2


def differentiate_what_the_second_made(x: Any, first: Any, context_id: int) -> None:
    loss = (rpc.rpc_sync("w1", double, (x,)) * 3).sum()
    da.backward(context_id, [loss])
    assert da.get_gradients(context_id)[x].tolist() == [6.0, 6.0]


def differentiate_what_the_first_made(x: Any, first: Any, context_id: int) -> None:
    rpc.rpc_sync("w1", double, (x,))
    with pytest.raises(
        WorkerLostError, match=r"worker 'w1' \(rank 1\), which sent tensors that the pass of"
    ):
        da.backward(context_id, [first.sum()])


def use_both(differentiate: Callable[[Any, Any, int], None]) -> None:
    if os.environ["RANK"] == "1":
        live_twice()
        return
    join()
    x = fastdist.tensor([1.0, 2.0], requires_grad=True)
    assert has_come.acquire(timeout=30)
    with da.context() as context_id:
        first = rpc.rpc_sync("w1", double, (x,))
        rpc.rpc_sync("w1", set_may_leave)
        assert has_come.acquire(timeout=30)
        differentiate(x, first, context_id)
    rpc.rpc_sync("w1", set_may_leave)
    rpc.shutdown()


def pass_through_the_second() -> None:
    use_both(differentiate_what_the_second_made)


def pass_through_the_first() -> None:
    use_both(differentiate_what_the_first_made)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("use", [pass_through_the_second, pass_through_the_first])
def test_a_pass_knows_who_had_a_rank_from_who_has_it(use: Callable[[], None]) -> None:
    run_group(use, 2)
