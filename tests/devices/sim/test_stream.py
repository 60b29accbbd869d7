"""Streams of a simulated device: order, events, laziness, errors, threads."""

from __future__ import annotations

import threading
import weakref

import numpy as np
import pytest

from fastdist.core.errors import DeviceError, KernelError
from fastdist.devices.sim import SimBackend
from fastdist.instrumentation.time_ranges import Recording
from tests.disturbances.interrupts import each_ctrl_c

WAIT_S = 30.0


def names_of_threads() -> list[str]:
    return sorted(t.name for t in threading.enumerate() if t.name.startswith("fastdist-sim"))


def test_thread_of_a_stream_starts_with_its_first_work_and_ends_with_reset(sim: SimBackend) -> None:
    stream = sim.stream(1)
    sim.synchronize(1)
    assert names_of_threads() == []
    with stream:
        sim.from_numpy(np.zeros(3), 1)
    assert names_of_threads() == ["fastdist-sim-1-stream-1"]
    sim.reset()
    assert names_of_threads() == []


def test_reset_ends_a_stream_that_hangs(sim: SimBackend) -> None:
    hang = sim.behaviour.hang_kernel("add_into")
    array = sim.from_numpy(np.zeros(3))
    sim.add_into(array, array)
    assert hang.reached.wait(WAIT_S)
    sim.reset()
    assert names_of_threads() == []


def test_waiting_for_a_stream_that_was_stopped_raises_instead_of_hanging(sim: SimBackend) -> None:
    sim.behaviour.lazy = True
    stream = sim.current_stream(0)
    sim.from_numpy(np.zeros(3))
    event = stream.record_event()
    sim.reset()
    with pytest.raises(DeviceError, match="stopped with work queued"):
        event.synchronize()
    with pytest.raises(DeviceError, match="was stopped; take a new stream"):
        stream.synchronize()


def test_lazy_stream_runs_nothing_until_somebody_waits(sim: SimBackend) -> None:
    sim.behaviour.lazy = True
    stream = sim.current_stream(0)
    array = sim.from_numpy(np.ones(3))
    sim.add_into(array, array)
    event = stream.record_event()
    assert names_of_threads() == [] and not event.query() and not stream.query()
    event.synchronize()
    assert event.query()
    sim.add_into(array, array)
    assert not stream.query()
    assert sim.to_numpy(array).tolist() == [4.0, 4.0, 4.0]


def test_lazy_stream_shows_a_forgotten_wait_every_time(sim: SimBackend) -> None:
    sim.behaviour.lazy = True
    for _ in range(20):
        with sim.stream(0):
            array = sim.from_numpy(np.ones(3))
        assert np.isnan(sim.to_numpy(array)).all()


def test_lazy_stream_runs_for_a_stream_that_waits_for_it(sim: SimBackend) -> None:
    sim.behaviour.lazy = True
    first, second, third = sim.stream(0), sim.stream(0), sim.stream(1)
    with first:
        array = sim.from_numpy(np.ones(3))
    second.wait_event(first.record_event())
    with second:
        sim.add_into(array, array)
    third.wait_event(second.record_event())
    third.synchronize()
    assert first.query() and second.query()


def test_delays_let_streams_overtake_each_other_but_not_their_events(sim: SimBackend) -> None:
    with sim.behaviour.delays(seed=7, longest_s=0.001):
        for _ in range(10):
            first, second = sim.stream(0), sim.stream(0)
            with first:
                array = sim.from_numpy(np.ones(8))
                sim.add_into(array, array)
                done = first.record_event()
            second.wait_event(done)
            with second:
                assert sim.to_numpy(array)[0] == 2.0


def test_delays_hang_on_seed_and_stream_alone(sim: SimBackend) -> None:
    with sim.behaviour.delays(seed=3):
        first = sim.behaviour.delays_of("fastdist-sim-0-stream-1")
        again = sim.behaviour.delays_of("fastdist-sim-0-stream-1")
        other = sim.behaviour.delays_of("fastdist-sim-0-stream-2")
        delays = [next(first) for _ in range(5)]
        assert delays == [next(again) for _ in range(5)] != [next(other) for _ in range(5)]
    assert next(first) == 0.0


def test_failing_kernel_is_named_when_its_stream_is_waited_for_and_only_once(
    sim: SimBackend,
) -> None:
    sim.behaviour.fail_kernel("add_*", after=1)
    array = sim.from_numpy(np.ones(3))
    for _ in range(3):
        sim.add_into(array, array)
    with pytest.raises(KernelError, match=r"^sim:0: kernel 'add_into' failed: a fault"):
        sim.synchronize(0)
    # The second addition failed and the third was skipped.
    assert sim.to_numpy(array).tolist() == [2.0, 2.0, 2.0]


def test_kernels_own_exception_is_the_cause(sim: SimBackend) -> None:
    array, wrong = sim.from_numpy(np.ones(3)), sim.from_numpy(np.ones(4))
    sim.add_into(array, wrong)
    with pytest.raises(KernelError, match=r"'add_into' failed: .*broadcast") as caught:
        sim.to_numpy(array)
    assert isinstance(caught.value.__cause__, ValueError)


def test_failure_reaches_streams_that_wait_for_the_one_that_failed(sim: SimBackend) -> None:
    first, second = sim.stream(0), sim.stream(1)
    sim.behaviour.fail_kernel("add_into")
    with first:
        array = sim.from_numpy(np.ones(3), 0)
        sim.add_into(array, array)
        event = first.record_event()
    second.wait_event(event)
    with pytest.raises(KernelError, match="add_into"):
        second.synchronize()
    with pytest.raises(KernelError, match="add_into"):
        event.synchronize()
    first.synchronize()


def test_failure_of_another_devices_event_reaches_the_stream_that_waits_for_it(
    sim: SimBackend,
) -> None:
    class Failing:
        def query(self) -> bool:
            return False

        def synchronize(self) -> None:
            raise KernelError("lost")

    stream = sim.current_stream(0)
    stream.wait_event(Failing())
    with pytest.raises(KernelError, match=r"^sim:0: an event of another device failed: lost"):
        stream.synchronize()
    stream.synchronize()
    assert sim.to_numpy(sim.from_numpy(np.ones(3))).tolist() == [1, 1, 1]


def test_host_function_runs_even_after_a_failed_kernel(sim: SimBackend) -> None:
    sim.behaviour.fail_kernel("*")
    stream = sim.current_stream(0)
    sim.from_numpy(np.ones(3))
    called = threading.Event()
    stream.launch_host_function(called.set)
    assert called.wait(WAIT_S)
    with pytest.raises(KernelError, match="copy_from_host"):
        stream.synchronize()


def test_a_stream_that_waits_keeps_nothing_of_what_it_has_done(sim: SimBackend) -> None:
    class Message:
        def left(self) -> None:
            done.set()

    done, died = threading.Event(), threading.Event()
    message = Message()
    weakref.finalize(message, died.set)
    sim.current_stream(0).launch_host_function(message.left)
    assert done.wait(WAIT_S)
    del message
    assert died.wait(WAIT_S)


def test_host_function_that_raises_fails_its_stream(sim: SimBackend) -> None:
    def function() -> None:
        raise LookupError("lost")

    stream = sim.stream(0)
    stream.launch_host_function(function)
    with pytest.raises(KernelError, match=r"host function .* failed: lost"):
        stream.synchronize()


def test_host_function_that_waits_for_its_own_stream_is_refused(sim: SimBackend) -> None:
    stream = sim.stream(0)
    stream.launch_host_function(stream.synchronize)
    with pytest.raises(KernelError, match="may not wait for an event of its own stream"):
        stream.synchronize()


def test_hanging_kernel_holds_up_its_own_stream_only(sim: SimBackend) -> None:
    hang = sim.behaviour.hang_kernel("add_into")
    with sim.stream(0) as stuck:
        array = sim.from_numpy(np.ones(3))
        sim.add_into(array, array)
    assert hang.reached.wait(WAIT_S) and not stuck.query()
    assert sim.to_numpy(sim.from_numpy(np.ones(2))).tolist() == [1.0, 1.0]
    hang.release()
    with stuck:
        assert sim.to_numpy(array).tolist() == [2.0, 2.0, 2.0]


def test_leaving_streams_out_of_order_is_refused(sim: SimBackend) -> None:
    outer, inner = sim.stream(0), sim.stream(0)
    with outer, inner, pytest.raises(DeviceError, match="left out of order"):
        outer.__exit__(None, None, None)


def test_pool_has_32_streams_and_then_begins_anew(sim: SimBackend) -> None:
    streams = [sim.stream(0) for _ in range(34)]
    assert len(set(streams)) == 32 and streams[32:] == streams[:2]


def test_error_that_nobody_waited_for_is_logged_at_the_end(
    sim: SimBackend, caplog: pytest.LogCaptureFixture
) -> None:
    sim.behaviour.fail_kernel("copy_from_host")
    called = threading.Event()
    sim.from_numpy(np.zeros(3))
    sim.current_stream(0).launch_host_function(called.set)
    assert called.wait(WAIT_S)
    sim.reset()
    (record,) = caplog.records
    assert "nobody waited for: sim:0: kernel 'copy_from_host' failed" in record.getMessage()


def test_streams_that_wait_for_each_other_end_without_an_error_that_none_is(
    sim: SimBackend, caplog: pytest.LogCaptureFixture
) -> None:
    # `third` is on another device. It waits for the dropped work, and is stopped last.
    first, second, third = sim.stream(0), sim.stream(0), sim.stream(1)
    begun = threading.Event()
    first.launch_host_function(lambda: begun.set() or first._stopping.wait(WAIT_S))
    waited_for = first.record_event()
    for stream in (second, third):
        stream.wait_event(waited_for)
        waited_for = stream.record_event()
    assert begun.wait(WAIT_S)
    sim.reset()
    assert caplog.records == []
    # Every later wait gets the error. A stream that waits for the event now also logs the error.
    with pytest.raises(DeviceError, match="was stopped with work queued"):
        waited_for.synchronize()
    later = sim.stream(0)
    later.wait_event(waited_for)
    called = threading.Event()
    later.launch_host_function(called.set)
    assert called.wait(WAIT_S)
    sim.reset()
    (record,) = caplog.records
    assert "was stopped with work queued" in record.getMessage()


def test_kernels_are_handed_in_as_time_ranges_of_their_stream(sim: SimBackend) -> None:
    with Recording() as recording:
        sim.to_numpy(sim.from_numpy(np.zeros(3)))
    names = [(known.name, known.category, known.thread_name) for known in recording.stop()]
    assert names == [
        (name, "kernel", "fastdist-sim-0-stream-0") for name in ("copy_from_host", "copy_to_host")
    ]


def test_ctrl_c_while_work_is_queued_stops_no_later_work(sim: SimBackend) -> None:
    ran: list[int] = []
    stream = sim.current_stream(0)
    stream.launch("first", ran.append, -1)
    for _ in range(3):  # the flush retries a launch that was interrupted once
        for place in each_ctrl_c(lambda: lambda: stream.launch("struck", ran.append, 0)):
            stream.launch("next", ran.append, place)
            event = stream.record_event()
            stream.flush()
            assert event._passed.wait(WAIT_S), f"place {place}"
            assert ran[-1] == place


def test_ctrl_c_while_the_thread_of_a_stream_starts_leaves_no_second_one(
    sim: SimBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, struck = sim.current_stream(0), list[threading.Thread]()

    def start_and_be_struck(thread: threading.Thread) -> None:
        monkeypatch.undo()
        thread.start()
        struck.append(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", start_and_be_struck)
    with pytest.raises(KeyboardInterrupt):
        stream.launch("struck", lambda: None)
    ran: list[str] = []
    stream.launch("next", lambda: ran.append(threading.current_thread().name))
    stream.synchronize()
    struck[0].join(WAIT_S)
    assert ran == names_of_threads() == ["fastdist-sim-0-stream-0"]
