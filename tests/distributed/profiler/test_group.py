"""One worker can profile all workers, and gets their events on one time line."""

from __future__ import annotations

import json
import logging
import os
import re
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fastdist as fd
from fastdist.core.errors import RpcError, RpcTimeoutError
from fastdist.distributed import autograd as dist_autograd
from fastdist.distributed import profiler, rpc
from fastdist.distributed.autograd import stall
from fastdist.distributed.profiler import group, group_recording, group_worker
from fastdist.distributed.rpc.agent import get_current_agent
from fastdist.graph import recordings
from fastdist.instrumentation.time_ranges import NOTHING, time_ranges
from tests.distributed.lives import life, next_life
from tests.distributed.workers import Group, run_group


def init() -> bool:
    rank = int(os.environ["RANK"])
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=int(os.environ["WORLD_SIZE"]))
    return rank == 0


def in_a_group(check: Callable[[], None]) -> None:
    if init():
        check()
    rpc.shutdown()
    assert group_recording.group_recording() is None and not time_ranges.on


def layer(x: fd.Tensor, w: fd.Tensor) -> fd.Tensor:
    return (x @ w).tanh()


def through_both(x: fd.Tensor, w: fd.Tensor) -> fd.Tensor:
    y: fd.Tensor = rpc.rpc_sync("worker2", layer, (x, w))
    return layer(y, w)


def check_a_pass() -> None:
    x, w = fd.ones(4, 4, requires_grad=True), fd.ones(4, 4, requires_grad=True)
    with profiler.profile(record_shapes=True) as p, dist_autograd.context() as context_id:
        y = rpc.rpc_sync("worker1", through_both, (x, w))
        dist_autograd.backward(context_id, [y.sum()])
    line = p.time_line
    assert line.workers == {0: "worker0", 1: "worker1", 2: "worker2"}
    assert {event.node_id for event in line.events} == {0, 1, 2}
    names = [(event.node_id, event.name) for event in line.events]
    for worker in (1, 2):
        assert (worker, "aten::tanh") in names and (worker, "TanhBackward0") in names
    inner = "rpc_sync#layer(worker1 -> worker2)"
    assert (1, inner) in names and (2, f"{inner} on its callee") in names
    # No event appears twice: a call's ops are recorded where they run.
    assert not any("remote_op" in name for _, name in names)
    product = next(event for event in line.events if event.name == "aten::mm")
    assert product.input_shapes == [[4, 4], [4, 4]]

    # The arrows are two calls with their answers, and the gradients. On one machine no message
    # arrives before it was sent, except for the error of the estimated clocks.
    pairs = [(arrow.sender.node_id, arrow.receiver.node_id) for arrow in line.arrows]
    assert sorted(set(pairs)) == [(0, 1), (1, 0), (1, 2), (2, 1)]
    assert pairs.count((0, 1)) >= 2 and pairs.count((1, 2)) >= 2
    assert all(arrow.came_us - arrow.sent_us > -500.0 for arrow in line.arrows)

    path = p.critical_path()
    steps = [(event.node_id, event.name) for event in path]
    assert steps[0] == (0, "torch::distributed::autograd::backward")
    for step in ((0, "SumBackward0"), (1, "TanhBackward0"), (2, "TanhBackward0")):
        assert step in steps, steps
    # The caller's forward product is not on the path of any pass.
    assert not any(name.startswith(("aten::", "rpc_")) and node == 0 for node, name in steps)
    check_files(p)


def check_files(p: profiler.profile) -> None:
    with tempfile.TemporaryDirectory() as folder:
        trace, page = Path(folder) / "trace.json", Path(folder) / "page.html"
        p.export_chrome_trace(trace)
        p.export_html(page, "three workers")
        listed = json.loads(trace.read_text())["traceEvents"]
        text = page.read_text()
    names = [one["args"]["name"] for one in listed if one["name"] == "process_name"]
    assert sorted(names) == ["worker0", "worker1", "worker2"]
    assert {one["ph"] for one in listed} == {"M", "X", "b", "e", "s", "f"}
    assert any(one.get("args", {}).get("critical") for one in listed)
    assert "three workers" in text and not re.search(r"https?:|\bsrc=", text)
    assert "Node ID" in p.key_averages().table()


def a_pass() -> None:
    in_a_group(check_a_pass)


@pytest.mark.one_in(3)
def test_all_workers_lie_on_one_time_line_with_arrows_and_the_critical_path() -> None:
    run_group(a_pass, 3)


def layer_that_waits(x: fd.Tensor, w: fd.Tensor) -> fd.Tensor:
    y = layer(x, w)
    # The gradient of y takes longer than a root waits before it sends its queries.
    y.register_hook(lambda g: hold_on())
    return y


def hold_on() -> None:
    threading.Event().wait(3 * stall.FIRST_POLL_S)


def check_a_slow_pass() -> None:
    x, w = fd.ones(4, 4, requires_grad=True), fd.ones(4, 4)
    with profiler.profile() as p, dist_autograd.context() as context_id:
        y = rpc.rpc_sync("worker1", layer_that_waits, (x, w))
        # This result gets no gradient: worker 2 learns of the pass only by a notice.
        rpc.rpc_sync("worker2", layer, (x, w))
        dist_autograd.backward(context_id, [y.sum()])
    names = [arrow.sender.name for arrow in p.time_line.arrows]
    assert names.count("gradients to worker 1") == names.count("gradients to worker 0") == 1
    assert "gradients to worker 2" not in names


def slow_pass() -> None:
    in_a_group(check_a_slow_pass)


@pytest.mark.one_in(3)
def test_words_of_a_pass_that_bring_no_gradients_are_no_arrows() -> None:
    run_group(slow_pass, 3)


def check_all_that_is_wanted() -> None:
    x, w = fd.ones(4, 4), fd.ones(4, 4)
    everything = {"record_shapes", "with_flops", "with_stack", "profile_memory"}
    with profiler.profile(**dict.fromkeys(everything, True)) as p:
        results = through_both(x, w)
    assert results.shape == (4, 4)
    for worker in (0, 2):
        (product,) = [e for e in p.events() if (e.node_id, e.name) == (worker, "aten::mm")]
        told = (product.flops, product.cpu_memory_usage, product.input_shapes)
        assert told == (128, 64, [[4, 4], [4, 4]])
        line = layer.__code__.co_firstlineno + 1
        assert product.stack[0].endswith(f"test_group.py({line}): layer"), product.stack
    # The events are grouped in the same way as in the profile of one worker.
    rows = p.key_averages(group_by_input_shape=True, group_by_stack_n=1)
    (row,) = [one for one in rows if (one.key, one.node_id) == ("aten::mm", 2)]
    assert row.input_shapes == [[4, 4], [4, 4]] and row.stack == product.stack[:1]


def wanted() -> None:
    in_a_group(check_all_that_is_wanted)


@pytest.mark.one_in(3)
def test_all_workers_record_what_else_is_asked_for() -> None:
    run_group(wanted, 3)


def profile_again() -> None:
    with profiler.profile():
        pass


def check_mistakes() -> None:
    p = profiler.profile()
    with pytest.raises(RpcError, match="not been started"):
        p.stop()
    with p:
        with pytest.raises(RpcError, match="not ended yet"):
            p.events()
        with pytest.raises(RpcError, match="being profiled already, by worker 0"):
            rpc.rpc_sync("worker1", profile_again)
        # If one worker cannot be profiled, no worker is profiled.
        with pytest.raises(RpcError, match="being profiled already, by worker 0"):
            profiler.profile(["worker0"]).start()
    assert {event.node_id for event in p.events()} == {0, 1}
    with profiler.profile(["worker1"]) as p:
        fd.ones(2).log()
        rpc.rpc_sync("worker1", fd.exp, (fd.ones(2),))
    assert [(event.node_id, event.name) for event in p.events()] == [(1, "aten::exp")]
    with pytest.raises(TypeError, match="workers is 'worker1'"):
        profiler.profile("worker1")
    with pytest.raises(RpcError, match="nobody"):
        profiler.profile(["nobody"]).start()
    agent: Any = get_current_agent()
    member_words = {"do": "dance"}
    with pytest.raises(RpcError, match="requested 'dance'"):
        agent.send(1, rpc.MessageType.PROFILE_GROUP_REQ, (), member_words).wait()


def mistakes() -> None:
    in_a_group(check_mistakes)


@pytest.mark.one_in(3)
def test_one_worker_at_a_time_profiles_whom_it_names() -> None:
    run_group(mistakes, 2)


def fail_to_begin(is_on: bool) -> None:
    if is_on:
        raise OSError("no room to record")


def let_it_fail(is_to_fail: bool) -> None:
    (recordings.watch if is_to_fail else recordings.unwatch)(fail_to_begin)


def check_failures() -> None:
    # Flags may be any truthy or falsy values, as in the profile of one worker.
    flag: Any = "yes"
    with profiler.profile(record_shapes=flag, with_stack=None) as p:
        fd.ones(2).log()
    assert any(event.input_shapes == [[2]] for event in p.events())
    for worker in ("worker1", "worker0"):
        rpc.rpc_sync(worker, let_it_fail, (True,))
        with pytest.raises((RpcError, OSError), match="no room to record"):
            profiler.profile().start()
        rpc.rpc_sync(worker, let_it_fail, (False,))
        assert not is_recording() and not rpc.rpc_sync("worker1", is_recording)
        assert not time_ranges.on
        with profiler.profile() as p:
            rpc.rpc_sync("worker1", fd.exp, (fd.ones(2),))
        assert (1, "aten::exp") in [(event.node_id, event.name) for event in p.events()]
    late = [True]

    def ask(self: Any, what: str, _ask: Any = group._Member._ask, **words: Any) -> Any:
        reply = _ask(self, what, **words)
        if what == "begin" and late:
            late.clear()
            raise RpcTimeoutError("late")
        return reply

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(group._Member, "_ask", ask)
        with pytest.raises(RpcTimeoutError, match="late"):
            profiler.profile().start()
    assert not is_recording() and not rpc.rpc_sync("worker1", is_recording)


def failures() -> None:
    in_a_group(check_failures)


@pytest.mark.one_in(3)
def test_a_profile_that_cannot_begin_is_begun_nowhere() -> None:
    run_group(failures, 2)


def many_ops(count: int) -> None:
    x = fd.ones(2)
    for _ in range(count):
        x = x * 1.0


def take_small_pieces() -> None:
    group_worker.PIECE_BYTES = 1_000  # type: ignore[misc]


def check_much() -> None:
    rpc.rpc_sync("worker1", take_small_pieces)
    with profiler.profile(["worker1"]) as p:
        rpc.rpc_sync("worker1", many_ops, (3_000,))
    (row,) = (row for row in p.key_averages() if row.key == "aten::mul")
    assert row.count == 3_000


def much() -> None:
    in_a_group(check_much)


@pytest.mark.one_in(3)
def test_much_is_fetched_in_pieces() -> None:
    run_group(much, 2)


def begin_and_wait() -> None:
    init()
    profiler.profile().start()


def is_recording() -> bool:
    return group_recording.group_recording() is not None


def forgets_who_is_lost() -> bool:
    lost = threading.Event()
    get_current_agent().workers.lost_callbacks.append(lambda worker: lost.set())
    lost.wait(30)
    waited = threading.Event()
    for _ in range(100):
        if not is_recording():
            break
        waited.wait(0.05)
    rpc.shutdown(graceful=False)
    return is_recording() or time_ranges.on


def join() -> None:
    init()


def test_a_worker_records_no_longer_for_one_that_is_lost() -> None:
    group = Group(__file__, 2)
    try:
        group[0].start(join)
        group[1].run(begin_and_wait)
        group[0].result()
        assert group[0].run(is_recording)
        group[0].start(forgets_who_is_lost)
        group[1].kill()
        assert group[0].result() is False
    finally:
        group.kill()


def test_who_leaves_takes_nothing_from_who_has_still_to_fetch() -> None:
    one: Any = life(1)
    group_worker.begin(one, NOTHING)
    fd.ones(2).exp()
    size, _ = group_worker.end(one)
    assert size
    assert group_worker.fetch(life(2), 0) == b""  # a worker without a profile gets no bytes
    group_worker.worker_lost(life(2))
    assert len(group_worker.fetch(one, 0)) == size


def test_the_late_end_of_a_life_takes_nothing_from_the_next() -> None:
    former: Any = life(1)
    one: Any = next_life(1)
    group_worker.begin(one, NOTHING)
    group_worker.worker_lost(former)
    fd.ones(2).exp()
    size, _ = group_worker.end(one)
    group_worker.worker_lost(former)
    assert len(group_worker.fetch(one, 0)) == size > 0


def test_what_a_lost_worker_has_not_fetched_is_forgotten() -> None:
    one: Any = life(1)
    group_worker.begin(one, NOTHING)
    fd.ones(2).exp()
    assert group_worker.end(one)[0]
    group_worker.worker_lost(one)
    assert group_worker.fetch(one, 0) == b""


def profile_while_one_is_lost() -> tuple[list[int], list[str]]:
    told: list[str] = []

    class Listen(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told.append(record.getMessage())

    logging.getLogger("fastdist.distributed.profiler.group").addHandler(Listen())
    with profiler.profile() as p:
        fd.ones(2).exp()
        with pytest.raises(RpcError):
            rpc.rpc_sync("worker1", os._exit, (0,))
    rpc.shutdown(graceful=False)
    return sorted({event.node_id for event in p.events()}), told


def test_a_worker_that_is_lost_is_left_out() -> None:
    group = Group(__file__, 2)
    try:
        group.run_all(join)
        nodes, (text,) = group[0].run(profile_while_one_is_lost)
        assert nodes == [0] and text.startswith("worker 'worker1' is left out of the profile: ")
    finally:
        group.kill()
