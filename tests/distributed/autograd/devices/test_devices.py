"""A pass over devices runs on their streams, and continues on the CPU in a single thread."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest

import fastdist
import fastdist.distributed.autograd as da
from fastdist import Tensor
from fastdist.core.errors import KernelError
from fastdist.devices.backend import Backend, backend_of
from fastdist.devices.sim import SimBackend
from fastdist.distributed.autograd import outbox
from fastdist.distributed.autograd.context import DistAutogradContext
from fastdist.distributed.autograd.engine import dist_engine
from fastdist.distributed.autograd.global_cpu_thread import GlobalCpuThread
from fastdist.distributed.autograd.recv_rpc_backward import RecvRpcBackward
from fastdist.distributed.autograd.send_rpc_backward import SendRpcBackward
from fastdist.distributed.rpc.message.types import MessageType
from fastdist.engine.input_buffer import InputBuffer
from fastdist.engine.ready_queue import NodeTask
from fastdist.graph.node import Edge
from tests.device_kinds import KINDS, Waits, backend_on
from tests.distributed.autograd.fake_agent import FakeAgent
from tests.distributed.autograd.tasks import begin, inside, leaf, task_of
from tests.distributed.lives import life

BACKWARD = MessageType.BACKWARD_AUTOGRAD_REQ


@pytest.fixture(params=KINDS)
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Backend]:
    """Yield the backend of one kind of device."""
    yield from backend_on(request.param, monkeypatch)


@pytest.fixture
def late(backend: Backend) -> Backend:
    """Return a backend that defers its work until a wait, so that a missing wait is detected.

    The CUDA shim always works immediately. With it, tests show that the same CuPy calls are made.
    """
    if isinstance(backend, SimBackend):
        backend.behaviour.lazy = True
    return backend


def threads_of_a_pass(context_id: int, x: Tensor, kind: str) -> list[str]:
    names: list[str] = []

    def note(grad: Tensor) -> None:
        assert da.current_context_id() == context_id
        names.append(threading.current_thread().name)

    on_cpu = x * 2
    on_device = on_cpu.to(f"{kind}:0") * 3
    back = on_device.to("cpu") * 4
    for tensor in (back, on_device, on_cpu):
        tensor.register_hook(note)
    da.backward(context_id, [back.sum()])
    return names


@pytest.mark.seed("E2", "E3", "E4", "E18")
def test_what_a_device_hands_back_goes_through_the_one_cpu_thread(
    agent: FakeAgent, backend: Backend
) -> None:
    x = leaf()
    with da.context() as context_id:
        names = threads_of_a_pass(context_id, x, backend.type)
        assert da.get_gradients(context_id)[x].tolist() == [24.0, 24.0]
    here = threading.current_thread().name
    # The fake agent has no thread pool, so the engine's CPU thread runs the continuation.
    assert names == [here, f"fastdist-engine-{backend.type}:0", "fastdist-cpu-continuations"]


@pytest.mark.seed("E16")
def test_nodes_of_a_device_run_on_the_streams_of_the_calling_thread(
    agent: FakeAgent, backend: Backend
) -> None:
    stream, seen = backend.stream(0), []
    with da.context() as context_id, stream:
        y = leaf().to(f"{backend.type}:0") * 2
        y.register_hook(lambda grad: seen.append(backend.current_stream(0)))
        da.backward(context_id, [y.sum()])
        stream.synchronize()
    assert seen == [stream]


@pytest.mark.seed("E21")
def test_gradients_can_be_taken_on_another_stream(agent: FakeAgent, late: Backend) -> None:
    x = fastdist.ones(100, device=f"{late.type}:0", requires_grad=True)
    late.synchronize(0)
    with da.context() as context_id:
        with late.stream(0):
            da.backward(context_id, [(x * 3.0).sum()])
        assert da.get_gradients(context_id)[x].to("cpu").tolist() == [3.0] * 100


@pytest.mark.seed("E21")
def test_passes_on_several_streams_add_up(agent: FakeAgent, late: Backend) -> None:
    x = fastdist.ones(100, device=f"{late.type}:0", requires_grad=True)
    late.synchronize(0)
    with da.context() as context_id:
        for _ in range(3):
            with late.stream(0):
                da.backward(context_id, [(x * 3.0).sum()])
        with late.stream(0):
            assert da.get_gradients(context_id)[x].to("cpu").tolist() == [9.0] * 100


def test_a_gradient_of_a_message_on_two_devices_is_sent_when_it_is_there(
    agent: FakeAgent, late: Backend
) -> None:
    first, second = (
        fastdist.ones(100, device=place) for place in (f"{late.type}:0", f"{late.type}:1")
    )
    late.synchronize(0), late.synchronize(1)
    with da.context() as context_id:
        context = da._current_context()
        receive = RecvRpcBackward(context, 5, life(2), (first._layout, second._layout))
        first._edge, second._edge = Edge(receive, 0), Edge(receive, 1)
        with late.stream(1):
            loss = (second * 3.0).sum().to("cpu")
        da.backward(context_id, [loss])
    (sent,) = [t for t, message in zip(agent.tensors, agent.sent) if message[1] == BACKWARD]
    assert [grad.tolist() for grad in sent] == [[0.0] * 100, [3.0] * 100]


class SlowCopies:
    """Holds up copies from a device to the CPU until `release`; records the threads that wait."""

    def __init__(self, backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self._released = threading.Event(), threading.Event()
        self.threads: list[str] = []
        if isinstance(backend, SimBackend):
            self._hang = backend.behaviour.hang_kernel("copy_to_host")

        def note_and_wait(copies: Any) -> None:
            self.threads.append(threading.current_thread().name)
            self.begun.set()
            assert isinstance(backend, SimBackend) or self._released.wait(20)
            wait_for(copies)

        wait_for = outbox.wait_for
        monkeypatch.setattr(outbox, "wait_for", note_and_wait)

    def release(self) -> None:
        self._released.set()
        if hasattr(self, "_hang"):
            self._hang.release()


@pytest.mark.seed("E3", "E4")
def test_a_receive_that_waits_for_its_copy_holds_up_no_other_node_of_the_device(
    agent: FakeAgent, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    came, mine = (fastdist.ones(3, device=f"{backend.type}:0") for _ in range(2))
    mine.requires_grad_(True)
    with da.context() as context_id:
        receive = RecvRpcBackward(da._current_context(), 5, life(2), (came._layout,))
        came._edge = Edge(receive, 0)
        copies = SlowCopies(backend, monkeypatch)
        passing = threading.Thread(
            target=da.backward, args=(context_id, [(came * 3.0).sum()]), name="the root"
        )
        passing.start()
        try:
            assert copies.begun.wait(20)
            names: list[str] = []
            loss = mine * 2.0
            loss.register_hook(lambda g: names.append(threading.current_thread().name))
            loss.sum().backward()
            assert names == [f"fastdist-engine-{backend.type}:0"] and not agent.sent
        finally:
            copies.release()
            passing.join(20)
    # The fake agent has no thread pool, so the engine's CPU thread runs the continuation.
    assert copies.threads == ["fastdist-cpu-continuations"]
    (sent,) = [t for t, message in zip(agent.tensors, agent.sent) if message[1] == BACKWARD]
    assert [grad.tolist() for grad in sent] == [[3.0] * 3]


@pytest.mark.seed("E16")
def test_gradients_that_leave_together_are_waited_for_together(
    agent: FakeAgent, late: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = DistAutogradContext(1)
    g = fastdist.full((3,), 2.0, device=f"{late.type}:0")
    layouts = (g._layout, g._layout, leaf()._layout)
    receives = [RecvRpcBackward(context, i, life(2), layouts) for i in (5, 6)]
    part = begin(context, leaf().sum())
    before = outbox.set_current_outbox(mine := outbox.Outbox(part))
    waits = Waits(monkeypatch)
    with inside(part):
        for receive in receives:
            receive.apply((g._array, (g * 2.0)._array, None), False)
    outbox.set_current_outbox(before)
    (batch,) = mine.batches.values()
    assert waits.count == 0
    tensors, _ = batch.content()
    assert waits.count == 1
    assert [each.tolist() for each in tensors] == [[2.0] * 3, [4.0] * 3, [0.0] * 2] * 2


@pytest.mark.seed("E16")
def test_gradients_with_a_history_are_waited_for_together(
    agent: FakeAgent, late: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = fastdist.full((3,), 2.0, device=f"{late.type}:0", requires_grad=True)
    grads = (x * 1.0, x * 2.0, None)
    context = DistAutogradContext(1)
    receive = RecvRpcBackward(context, 5, life(2), (x._layout, x._layout, leaf()._layout))
    part = begin(context, leaf().sum())
    part.record = lambda sent, to, device_map: len(sent)
    sent, count = sent_by(receive, part, grads, monkeypatch)
    assert count == 1
    assert [each.tolist() for each in sent] == [[2.0] * 3, [4.0] * 3, [0.0] * 2]
    fastdist.autograd.backward([each.sum() for each in sent[:2]])
    assert x.grad is not None and x.grad.tolist() == [3.0] * 3


@pytest.mark.seed("E16")
def test_sparse_gradients_are_waited_for_together(
    agent: FakeAgent, late: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = fastdist.tensor([[0, 2]])
    of_cpu = [fastdist.sparse_coo_tensor(places, [1.0 + i, 5.0], (4,)) for i in range(2)]
    grads = tuple([each.to(f"{late.type}:0") for each in of_cpu])
    layouts = tuple([fastdist.zeros(4, device=f"{late.type}:0")._layout for _ in grads])
    context = DistAutogradContext(1)
    receive = RecvRpcBackward(context, 5, life(2), layouts)
    part = begin(context, leaf().sum())
    sent, count = sent_by(receive, part, grads, monkeypatch)
    assert count == 1 and len(sent) == 4
    assert [each.tolist() for each in sent] == [[[0, 2]], [1.0, 5.0], [[0, 2]], [2.0, 5.0]]


def sent_by(
    receive: RecvRpcBackward, part: Any, grads: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> tuple[list[Tensor], int]:
    """Return the gradients that a receive sends, and how often a thread waited for them."""
    before = outbox.set_current_outbox(mine := outbox.Outbox(part))
    waits = Waits(monkeypatch)
    with inside(part):
        receive.apply_recorded(grads, True)
    outbox.set_current_outbox(before)
    assert waits.count == 0
    (batch,) = mine.batches.values()
    tensors, _ = batch.content()
    return tensors, waits.count


def test_what_fails_on_the_way_to_the_cpu_ends_the_pass(agent: FakeAgent) -> None:
    sim = cast(SimBackend, backend_of("sim"))
    came = fastdist.ones(3, device="sim:0")
    sim.synchronize(0)
    with da.context() as context_id:
        receive = RecvRpcBackward(da._current_context(), 5, life(2), (came._layout,))
        came._edge = Edge(receive, 0)
        loss = (came * 3.0).sum()
        sim.behaviour.fail_kernel("copy_to_host")
        with pytest.raises(KernelError, match="copy_to_host"):
            da.backward(context_id, [loss])
    sim.set_device_count(2)


def test_gradients_that_came_are_copied_on_the_stream_of_the_pass(late: Backend) -> None:
    x = fastdist.ones(3, device=f"{late.type}:0", requires_grad=True)
    late.synchronize(0)
    function = SendRpcBackward((x._edge,), (x._layout,), life(2))
    part = begin(DistAutogradContext(1), x.sum())
    function.set_grads(part, (fastdist.tensor([1.0, 2.0, 3.0]),))
    with late.stream(0), inside(part):
        (g,) = function.apply_recorded(None, False)
        assert g.to("cpu").tolist() == [1.0, 2.0, 3.0]


@pytest.mark.seed("E3", "E5")
def test_the_cpu_thread_ends_when_told_and_can_begin_again(agent: FakeAgent) -> None:
    thread = dist_engine().global_cpu_thread
    for _ in range(2):
        thread.start(), thread.start()
        names = [t.name for t in threading.enumerate()]
        assert names.count("fastdist-cpu-continuations") == 1
        thread.stop()
        assert "fastdist-cpu-continuations" not in [t.name for t in threading.enumerate()]


@pytest.mark.seed("E3")
def test_the_cpu_thread_skips_what_has_expired(caplog: pytest.LogCaptureFixture) -> None:
    ran, last_ran = list[Any](), threading.Event()

    def run(item: NodeTask) -> None:
        ran.append(item.graph_task)
        if item.graph_task is task:
            last_ran.set()

    thread = GlobalCpuThread(run)
    task = task_of(DistAutogradContext(1), leaf().sum())
    expired = NodeTask(task_of(DistAutogradContext(2), leaf().sum()), None, None)
    gc.collect()
    thread.queue.push(expired, increment_outstanding=False)
    thread.queue.push(NodeTask(task, leaf().sum().grad_fn, InputBuffer(1)))
    thread.start()
    assert last_ran.wait(5)
    thread.stop()
    assert ran == [task] and "GraphTask has expired for NodeTask" in caplog.text


def test_what_the_cpu_thread_cannot_run_ends_its_pass_and_not_the_thread() -> None:
    failures = iter([ValueError("mine"), None])

    def run(item: NodeTask) -> None:
        if (failure := next(failures)) is not None:
            raise failure
        item.graph_task.future.set_result([])

    thread = GlobalCpuThread(run)
    thread.start()
    loss = leaf().sum()
    for error in (ValueError, None):
        task = task_of(DistAutogradContext(1), loss)
        thread.queue.push(NodeTask(task, loss.grad_fn, InputBuffer(1)))
        if error is None:
            assert task.future.wait(5) == []
        else:
            with pytest.raises(error, match="mine"):
                task.future.wait(5)
    thread.stop()


def test_a_cpu_thread_that_could_not_start_starts_at_the_next_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    ran = threading.Event()
    thread = GlobalCpuThread(lambda item: ran.set())
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        with pytest.raises(RuntimeError, match="can't start"):
            thread.start()
    thread.start()
    task = task_of(DistAutogradContext(1), leaf().sum())
    thread.queue.push(NodeTask(task, leaf().sum().grad_fn, InputBuffer(1)))
    assert ran.wait(5)
    thread.stop()


def test_a_cpu_thread_that_begins_again_begins_with_an_empty_queue() -> None:
    left, ran = task_of(DistAutogradContext(1), leaf().sum()), threading.Event()
    thread = GlobalCpuThread(lambda item: ran.set() if item.graph_task is not left else None)
    queue = thread.queue
    thread.stop()
    # No thread handles tasks pushed after stop(), not even after the next start().
    queue.push_shutdown()
    queue.push(NodeTask(left, leaf().sum().grad_fn, InputBuffer(1)))
    thread.start()
    task = task_of(DistAutogradContext(2), leaf().sum())
    thread.queue.push(NodeTask(task, leaf().sum().grad_fn, InputBuffer(1)))
    assert ran.wait(5)
    thread.stop()


@pytest.mark.seed("E5")
def test_an_idle_engine_does_not_keep_the_interpreter() -> None:
    program = (
        "import fastdist.distributed.autograd as da\n"
        "from fastdist.distributed.autograd.engine import dist_engine\n"
        "da._init(1)\n"
        "dist_engine().global_cpu_thread.start()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=20)
