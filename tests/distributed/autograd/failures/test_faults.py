"""After any failure, passes end soon with the reason, and no pass and no context is left."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import fastdist
import fastdist.distributed.autograd as da
from fastdist import Tensor
from fastdist.core.errors import WorkerLostError
from fastdist.distributed import rpc
from tests.distributed.autograd.on_worker import outside
from tests.distributed.workers import Group

NOTHING = {"num_current_backward_passes": 0, "num_autograd_contexts": 0}
BOUND_S = 5.0


def init(fail: int = 0) -> None:
    kind = rpc.TensorPipeRpcBackendOptions
    options: Any
    if fail:
        rpc.backend_registry.backend_registered("FAULTY_TENSORPIPE")
        options = rpc.backend_registry.construct_rpc_backend_options(
            rpc.BackendType["FAULTY_TENSORPIPE"],
            messages_to_fail=["CLEANUP_AUTOGRAD_CONTEXT_REQ"],
            num_fail_sends=fail,
        )
    else:
        options = kind(rpc_timeout=30, init_timeout=30)
    rpc.init_rpc(f"w{os.environ['RANK']}", rpc_backend_options=options)


def leave(graceful: bool = True) -> None:
    rpc.shutdown(graceful=graceful)


def wait_for_nothing(timeout_s: float = BOUND_S) -> float:
    """Wait until this worker has no pass and no context; return how many seconds that took.

    Raises  AssertionError with the remaining passes and contexts after timeout_s
    """
    began, waiter = time.monotonic(), threading.Event()
    while da._get_debug_info() != NOTHING:
        assert time.monotonic() - began < timeout_s, da._get_debug_info()
        waiter.wait(0.01)
    return time.monotonic() - began


@contextlib.contextmanager
def group_of(size: int, *arguments: Any) -> Iterator[Group]:
    # Pass a secret. Otherwise worker 0 writes a secret to a file, which it leaves behind if killed.
    group = Group(__file__, size, {"FASTDIST_JOB_SECRET": "5e" * 32})
    try:
        group.run_all(init, *arguments)
        yield group
    finally:
        group.kill()


# ---- what runs in workers -----------------------------------------------------------------------

_gate = threading.Event()
_reached = threading.Event()


def leaf() -> Tensor:
    return fastdist.tensor([1.0, 2.0], dtype=fastdist.float64, requires_grad=True)


def double(x: Tensor) -> Tensor:
    return x * 2


def double_at(x: Tensor, *way: str) -> Tensor:
    return rpc.rpc_sync(way[0], double_at, (x * 2, *way[1:])) if way else x * 2


def wait_at_gate(grad: Tensor) -> None:
    _reached.set()
    assert _gate.wait(20)


def double_and_wait(x: Tensor) -> Tensor:
    y = x * 2
    y.register_hook(wait_at_gate)
    return y


def double_and_wait_at(x: Tensor, to: str) -> Tensor:
    return rpc.rpc_sync(to, double_and_wait, (x * 2,)) * 2


def wait_until_reached() -> None:
    assert _reached.wait(20)


def backward_through(*way: str) -> tuple[str, float]:
    """Run a pass whose last worker withholds its gradients; return the error and when it came."""
    x = leaf()
    with da.context() as context_id:
        if len(way) == 1:
            z = rpc.rpc_sync(way[0], double_and_wait, (x,))
        else:
            z = rpc.rpc_sync(way[0], double_and_wait_at, (x, way[1]))
        with pytest.raises(RuntimeError) as caught:
            da.backward(context_id, [z.sum()])
        assert da._get_debug_info()["num_current_backward_passes"] == 0
    return f"{type(caught.value).__name__}: {caught.value}", time.monotonic()


def open_context_at(*way: str) -> None:
    da._new_context()
    double_at(leaf(), *way)


def release_current() -> None:
    da._release_context(da.current_context_id())


def number_of_contexts(worker: str) -> int:
    return outside(rpc.rpc_sync, worker, da._get_debug_info)["num_autograd_contexts"]


def context_inside(worker: str) -> int:
    with da.context():
        rpc.rpc_sync(worker, double, (leaf(),))
        return number_of_contexts(worker)


# ---- tests --------------------------------------------------------------------------------------


@pytest.mark.seed("E38")
@pytest.mark.parametrize("way", [("w1",), ("w1", "w2"), ("w2", "w1")])
def test_a_pass_through_a_worker_that_dies_fails_and_names_it(way: tuple[str, ...]) -> None:
    with group_of(3) as group:
        group[0].start(backward_through, *way)
        group[int(way[-1][1])].run(wait_until_reached)
        killed = group[1].kill()
        text, ended = group[0].result()
        assert text.startswith("WorkerLostError: ") and "'w1'" in text
        assert ended - killed < BOUND_S
        for rank in (0, 2):
            group[rank].run(wait_for_nothing)


@pytest.mark.one_in(3)
@pytest.mark.seed("C20", "C24", "C25", "C30")
def test_a_context_is_released_on_the_living_when_a_worker_in_between_is_dead() -> None:
    with group_of(3) as group:
        group[0].run(open_context_at, "w1", "w2")
        group[1].kill()
        group[0].run(release_current)
        for rank in (0, 2):
            group[rank].run(wait_for_nothing)


def open_context_below_and_hear_of_a_loss() -> None:
    with da.context(), pytest.raises(WorkerLostError):
        rpc.rpc_sync("w1", double_below_and_wait, (leaf(),))


def double_below_and_wait(x: Tensor) -> None:
    rpc.rpc_sync("w2", double, (x,))
    _reached.set()
    assert _gate.wait(20)


@pytest.mark.one_in(4)
def test_a_context_is_released_where_only_the_lost_worker_knew_that_it_is() -> None:
    with group_of(3) as group:
        group[0].start(open_context_below_and_hear_of_a_loss)
        group[1].run(wait_until_reached_at, "w2")
        group[1].kill()
        group[0].result()
        for rank in (0, 2):
            group[rank].run(wait_for_nothing)


def wait_until_reached_at(worker: str) -> None:
    wait_until_reached()
    assert number_of_contexts(worker) == 1


@pytest.mark.one_in(3)
@pytest.mark.seed("C23", "C30")
def test_contexts_of_an_owner_that_dies_are_released() -> None:
    with group_of(3) as group:
        group[0].run(open_context_at, "w1", "w2")
        group[0].kill()
        for rank in (1, 2):
            group[rank].run(wait_for_nothing)


@pytest.mark.one_in(3)
@pytest.mark.seed("E33", "E38")
def test_the_death_of_the_root_ends_the_pass_of_the_others() -> None:
    with group_of(3) as group:
        group[0].start(backward_through, "w1", "w2")
        group[2].run(wait_until_reached)
        group[0].kill(signal.SIGKILL)
        group[2].run(_gate_open)
        for rank in (1, 2):
            group[rank].run(wait_for_nothing)


def _gate_open() -> None:
    _gate.set()


@pytest.mark.one_in(3)
@pytest.mark.seed("C22")
def test_clean_up_succeeds_though_its_first_sends_fail() -> None:
    with group_of(2, 2) as group:
        assert group[0].run(context_inside, "w1") == 1
        assert group[1].run(wait_for_nothing) < BOUND_S
        group.run_all(leave)
        assert group.end() == [0, 0]


@pytest.mark.seed("C23")
def test_an_open_context_does_not_disturb_a_shutdown() -> None:
    with group_of(2) as group:
        group[0].run(open_context_at, "w1")
        group.run_all(leave)
        assert group.end() == [0, 0]


_all_are_here = threading.Barrier(16)


def backward_inside() -> None:
    x = leaf()
    _all_are_here.wait(20)
    with da.context() as context_id:
        z = rpc.rpc_sync("w0", double, (x,)) * rpc.rpc_sync("w2", double, (x,))
        _all_are_here.wait(20)
        da.backward(context_id, [z.sum()])
        assert da.get_gradients(context_id)[x].tolist() == [8.0, 16.0]


def fill_all_threads() -> None:
    """Make every user thread of w1 wait for a separate pass."""
    futures = [rpc.rpc_async("w1", backward_inside) for _ in range(16)]
    for future in futures:
        future.wait()


@pytest.mark.one_in(4)
def test_passes_do_not_wait_behind_the_functions_that_wait_for_them() -> None:
    with group_of(3) as group:
        group[0].run(fill_all_threads)
        group.run_all(leave)
        assert group.end() == [0, 0, 0]
