"""Passes over several devices: the thread of each Node, and the gradients."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import pytest

import fastdist as fd
from fastdist import Tensor
from fastdist.autograd import Function, backward, grad
from fastdist.devices import backend_of
from fastdist.devices.sim import SimBackend
from fastdist.engine.device_threads import DeviceThreads
from fastdist.engine.engine import engine, queue_callback

ENGINE_THREAD = "fastdist-engine-sim:0"


@pytest.fixture(params=["eager", "lazy", "late"], autouse=True)
def device(request: pytest.FixtureRequest) -> Iterator[SimBackend]:
    """Run each test on devices that work at once, only when waited for, or with delays."""
    sim = cast(SimBackend, backend_of("sim"))
    sim.behaviour.lazy = request.param == "lazy"
    if request.param == "late":
        with sim.behaviour.delays(seed=5, longest_s=0.0005):
            yield sim
    else:
        yield sim
    sim.set_device_count(2)


def leaf(*values: float) -> Tensor:
    return fd.tensor(values or (1.0, 2.0, 3.0), dtype=fd.float64, requires_grad=True)


class Where(Function):
    """Records the thread of its backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, seen: list[str]) -> Tensor:
        ctx.seen = seen
        return x * 1.0

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        ctx.seen.append(threading.current_thread().name)
        return g, None


def test_devices_run_on_their_threads_and_cpu_nodes_in_the_waiting_caller() -> None:
    x, first, middle, last = leaf(), [], [], []
    y = Where.apply(x * 2.0, first)
    y = Where.apply(y.to("sim:0") * y.to("sim:0"), middle)
    Where.apply(y.to("cpu"), last).sum().backward()
    caller = threading.current_thread().name
    assert (first, middle, last) == ([caller], [ENGINE_THREAD], [caller])
    assert x.grad.tolist() == [8.0, 16.0, 24.0]


def test_two_devices_have_a_thread_each() -> None:
    x, first, second = leaf(), [], []
    a = Where.apply(x.to("sim:0"), first)
    b = Where.apply(x.to("sim:1"), second)
    (a.to("cpu") + b.to("cpu")).sum().backward()
    assert (first, second) == ([ENGINE_THREAD], ["fastdist-engine-sim:1"])
    assert x.grad.tolist() == [2.0] * 3


def test_leaf_on_a_device_accumulates_there() -> None:
    x = fd.ones(3, device="sim:0", requires_grad=True)
    for _ in range(2):
        (x * 3.0).sum().backward()
    assert str(x.grad.device) == "sim:0" and x.grad.to("cpu").tolist() == [6.0] * 3


def test_second_derivative_crosses_devices() -> None:
    x = leaf()
    y = x.to("sim:0")
    (first,) = grad((y * y * y).to("cpu").sum(), x, create_graph=True)
    (second,) = grad(first.sum(), x)
    assert np.allclose(second.numpy(), 6 * x.detach().numpy())


def test_error_on_a_device_thread_reaches_the_caller() -> None:
    class Fails(Where):
        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Any:
            raise ArithmeticError(threading.current_thread().name)

    x = leaf()
    with pytest.raises(ArithmeticError, match=ENGINE_THREAD) as caught:
        Fails.apply(x.to("sim:0"), []).to("cpu").sum().backward()
    assert caught.traceback[-1].name == "backward" and x.grad is None


def test_device_thread_goes_on_after_an_error() -> None:
    test_error_on_a_device_thread_reaches_the_caller()
    test_leaf_on_a_device_accumulates_there()


def test_pass_inside_a_device_thread_serves_its_device() -> None:
    x, w = leaf(), leaf()

    class Nests(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            with fd.enable_grad():
                inner = w.to("sim:0")
                (inner * inner).to("cpu").sum().backward()
            return g * w.grad.to("sim:0")

    Nests.apply(x.to("sim:0")).to("cpu").sum().backward()
    assert (x.grad.tolist(), w.grad.tolist()) == ([2.0, 4.0, 6.0], [2.0, 4.0, 6.0])


def test_pass_inside_a_device_thread_that_fails_leaves_the_outer_error() -> None:
    class Nests(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            with fd.enable_grad():
                leaf().to("sim:0").to("cpu").backward()
            return g

    with pytest.raises(RuntimeError, match=r"^grad can be implicitly created only for scalar"):
        Nests.apply(leaf().to("sim:0")).to("cpu").sum().backward()


def test_device_whose_thread_could_not_start_gets_one_at_the_next_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    began, device = threading.Event(), fd.device("sim:7")
    threads = DeviceThreads(lambda queue: (began.set(), queue.pop())[0])
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_more_threads)
        with pytest.raises(RuntimeError, match="can't start"):
            threads.queue_of(device)
    threads.queue_of(device)
    assert began.wait(10.0)
    threads.shutdown()


def no_more_threads(self: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_many_threads_cross_one_device() -> None:
    x = fd.ones(4, requires_grad=True)

    def work() -> None:
        for _ in range(10):
            (x.to("sim:0") * 2.0).to("cpu").sum().backward()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)
    assert x.grad.tolist() == [160.0] * 4


def test_work_queued_after_the_pass_sees_its_gradients() -> None:
    x = fd.ones(1000, device="sim:0", requires_grad=True)
    y = x
    for _ in range(20):
        y = y * 1.0 + x
    backward(y.sum())
    assert (x.grad * 2.0).to("cpu").tolist() == [42.0] * 1000


def test_pass_runs_on_the_callers_streams(device: SimBackend) -> None:
    x = fd.ones(100, device="sim:0", requires_grad=True)
    stream = device.stream(0)
    seen = []
    with stream:
        y = x * 3.0
        y.register_hook(lambda g: seen.append(device.current_stream(0)))
        y.sum().backward()
        g = x.grad * 2.0
    stream.synchronize()
    assert seen == [stream] and g.to("cpu").tolist() == [6.0] * 100


def test_final_callback_runs_on_the_callers_streams(device: SimBackend) -> None:
    x = fd.ones(100, device="sim:0", requires_grad=True)
    device.synchronize(0)
    stream, doubled = device.stream(0), []
    with device.stream(0):
        y = ((x * 3.0) * 2.0).sum()
    # The pass ends on the device's thread, whose current stream is another one.
    y.register_hook(lambda g: queue_callback(lambda: doubled.append(x.grad * 2.0)))
    with stream:
        y.backward()
        found = doubled[0].to("cpu").tolist()
    assert found == [12.0] * 100


def test_cpu_nodes_of_another_pass_do_not_run_where_a_device_thread_waits() -> None:
    entered, over = threading.Event(), threading.Event()
    seen: list[str] = []

    class Waits(Function):
        """A Function whose backward runs a nested pass, or on sim:1 waits for another pass."""

        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            entered.set()
            if g.device == fd.device("sim:1"):
                assert over.wait(60.0)
                return g
            with fd.enable_grad():
                Waits.apply(leaf().to("sim:1")).sum().backward()
            return g

    def other() -> None:
        assert entered.wait(60.0)
        (Where.apply(leaf() * 2.0, seen).to("sim:0") * 2.0).sum().backward()
        over.set()

    thread = threading.Thread(target=other, name="other")
    thread.start()
    Waits.apply(leaf().to("sim:0")).to("cpu").sum().backward()
    thread.join(60.0)
    assert seen == ["other"]


def test_pass_waits_for_the_streams_of_its_forward(device: SimBackend) -> None:
    x = fd.ones(100, device="sim:0", requires_grad=True)
    device.synchronize(0)
    with device.stream(0):
        y = ((x * 3.0) * (x * 1.0)).sum()
    y.backward()
    assert x.grad.to("cpu").tolist() == [6.0] * 100


@pytest.mark.parametrize("places", [(None, "sim:0"), ("cpu", "sim:0"), ("sim:0", "sim:1")])
def test_function_of_mixed_outputs_runs_on_the_stream_and_device_of_its_first_on_a_device(
    device: SimBackend, places: tuple[str | None, ...]
) -> None:
    streams = []

    class Mixed(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Any:
            return tuple(None if place is None else (x * 1.0).to(place) for place in places)

        @staticmethod
        def backward(ctx: Any, *gs: Tensor | None) -> Any:
            streams.append(device.current_stream(0))
            return sum(g.to("sim:0") for g in gs if g is not None)

    x = fd.ones(100, device="sim:0", requires_grad=True)
    device.synchronize(0)
    with device.stream(0) as side:
        outputs = Mixed.apply(x)
        loss = sum(y.to("cpu").sum() for y in outputs if y is not None)
    loss.backward()
    assert x.grad.to("cpu").tolist() == [2.0 - places.count(None)] * 100
    assert streams == [side]


def test_gradients_that_meet_from_two_streams_are_added_where_they_are_needed(
    device: SimBackend,
) -> None:
    x = fd.ones(100, device="sim:0", requires_grad=True)
    device.synchronize(0)
    y = x * 2.0
    here, there = device.stream(0), device.stream(0)
    parts = []
    for stream in (here, there):
        stream.wait_event(device.current_stream(0).record_event())
        with stream:
            parts.append((y * y).exp().log().sum())
    backward(parts)
    assert x.grad.to("cpu").tolist() == pytest.approx([16.0] * 100)


def test_captured_gradient_is_there_for_the_caller(device: SimBackend) -> None:
    x = fd.ones(100, device="sim:0", requires_grad=True)
    device.synchronize(0)
    with device.stream(0):
        y = x * 2.0
        z = (y * y).sum()
    gy, gx = grad(z, (y, x))
    assert (gy.to("cpu").tolist(), gx.to("cpu").tolist()) == ([4.0] * 100, [8.0] * 100)


def test_pass_waits_for_what_another_adds_to_its_leaves_meanwhile(device: SimBackend) -> None:
    x = fd.ones(100, device="sim:0", requires_grad=True)
    device.synchronize(0)

    def add_on_another_stream(g: Tensor) -> None:
        with fd.enable_grad(), device.stream(0):
            (x * 2.0).sum().backward()

    with device.stream(0):
        y = x * 3.0
        y.register_hook(add_on_another_stream)
        y.sum().backward()
        assert x.grad.to("cpu").tolist() == [5.0] * 100


def test_pass_waits_for_the_pass_that_added_to_its_leaves_before(device: SimBackend) -> None:
    x = fd.ones(100, device="sim:0", requires_grad=True)
    device.synchronize(0)
    for _ in range(3):
        with device.stream(0):
            (x * 2.0).sum().backward()
    (x * 2.0).sum().backward()
    assert x.grad.to("cpu").tolist() == [8.0] * 100


class Named(Function):
    """Records its name in its backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, name: str, seen: list[str]) -> Tensor:
        ctx.name, ctx.seen = name, seen
        return x * 1.0

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None, None]:
        ctx.seen.append(ctx.name)
        return g, None, None


def test_a_chain_of_a_device_does_not_go_through_its_queue() -> None:
    x = leaf().detach().to("sim:0").requires_grad_()
    queue = engine().device_threads.queue_of(fd.device("sim", 0))
    pushed = []
    for length in (3, 60):
        y = x
        for _ in range(length):
            y = y.sin()
        before = queue.pushed
        y.sum().backward()
        pushed.append(queue.pushed - before)
    assert pushed[0] == pushed[1] < 4


def test_the_newest_node_that_is_ready_goes_first_in_a_chain_too() -> None:
    seen: list[str] = []
    x = leaf().detach().to("sim:0").requires_grad_()
    a = Named.apply(x, "a1", seen)
    b = Named.apply(x, "b1", seen)
    a = Named.apply(a, "a2", seen)
    b = Named.apply(Named.apply(b, "b2", seen), "b3", seen)
    a = Named.apply(a, "a3", seen)
    (a * b).sum().backward()
    assert seen == ["a3", "b3", "b2", "a2", "b1", "a1"]


def test_a_gradient_in_a_chain_is_let_go_of_once_it_is_used(device: SimBackend) -> None:
    x = leaf().detach().to("sim:0").requires_grad_()
    first: list[weakref.ref[Any]] = []
    gone: list[bool] = []
    y = x.sin()
    y.register_hook(lambda g: gone.append(first[0]() is None))
    z = y.sin().sin()
    z.register_hook(lambda g: first.append(weakref.ref(g)))
    z.exp().sum().backward()
    assert gone == [True]


def test_grad_mode_that_a_node_leaves_is_not_that_of_the_next() -> None:
    class Enables(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            fd.set_grad_enabled(True)
            return g

    modes: list[bool] = []
    x = leaf().detach().to("sim:0").requires_grad_()
    y = x.sin()
    y.register_hook(lambda g: modes.append(fd.is_grad_enabled()))
    Enables.apply(y).sum().backward()
    assert modes == [False]
