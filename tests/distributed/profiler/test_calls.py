"""A call made under the profiler is also profiled on its callee, as in PyTorch."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import fastdist as fd
from fastdist.autograd import profiler as autograd_profiler
from fastdist.core.errors import RpcError
from fastdist.distributed import autograd as dist_autograd
from fastdist.distributed import rpc
from fastdist.distributed.profiler import calls
from fastdist.distributed.rpc.agent import get_current_agent
from fastdist.distributed.rpc.calls.outgoing import serving
from fastdist.distributed.rpc.message.types import MessageType
from fastdist.graph.modes import modes
from fastdist.instrumentation.time_ranges import time_ranges
from fastdist.profiler import DeviceType, ProfilerActivity, profile, record_function
from tests.distributed.workers import open_gate, run_group, wait_at
from tests.profiler.nvtx import install as install_nvtx


def init() -> bool:
    """Join the group; return whether this worker makes the calls."""
    rank = int(os.environ["RANK"])
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=int(os.environ["WORLD_SIZE"]))
    return rank == 0


def double(x: fd.Tensor) -> fd.Tensor:
    with record_function("##inner##"):
        return fd.add(x, x)


def nested(x: fd.Tensor) -> fd.Tensor:
    result: fd.Tensor = rpc.rpc_sync("worker2", double, (x,))
    return result


@rpc.functions.async_execution
def later(x: fd.Tensor) -> rpc.Future[fd.Tensor]:
    return rpc.rpc_async("worker2", fd.add, (x, x)).then(lambda done: done.value() * 2)


@rpc.functions.async_execution
def later_bad(x: fd.Tensor) -> rpc.Future[fd.Tensor]:
    def fail(done: rpc.Future[Any]) -> fd.Tensor:
        raise ValueError("later")

    return rpc.rpc_async("worker2", fd.add, (x, x)).then(fail)


def bad() -> None:
    raise ValueError("bad")


def hold(gate_s: float) -> None:
    import threading

    threading.Event().wait(gate_s)


class Holder:
    def method(self, x: fd.Tensor) -> fd.Tensor:
        return x + 1


def told(call: Callable[[], Any], **options: Any) -> dict[str, Any]:
    """Return the events of a profiled call by name, as seen by worker 0."""
    with autograd_profiler.profile(**options) as p:
        call()
    assert p.function_events is not None
    return {event.name: event for event in p.function_events}


def require(events: dict[str, Any], expected: dict[str, tuple[int, bool]]) -> None:
    """Check the names of events, their workers, and whether they came from another worker."""
    found = {name: (event.node_id, event.is_remote) for name, event in events.items()}
    assert found == expected, f"{found} is not {expected}"


def in_a_group(check: Callable[[fd.Tensor], None]) -> None:
    if init():
        check(fd.ones(2, 3))
        assert (modes.special, modes.tracers, time_ranges.on) == (0, 0, False)
        assert not isinstance(get_current_agent().client.users, calls.ProfiledCalls)
    rpc.shutdown()
    assert (modes.special, modes.tracers, time_ranges.on) == (0, 0, False)


def check_each_kind(x: fd.Tensor) -> None:
    key = "rpc_sync#aten::add(worker0 -> worker1)"
    expected = {key: (0, False), f"{key}#remote_op: aten::add": (1, True)}
    events = told(
        lambda: rpc.rpc_sync("worker1", fd.add, (x, x)), record_shapes=True, with_flops=True
    )
    require(events, expected)
    call, op = events.values()
    assert (op.input_shapes, op.flops) == ([[2, 3], [2, 3]], 6)
    assert call.is_async and not op.is_async
    # On the caller's clock, the op begins and ends during the call.
    assert call.time_range.start <= op.time_range.start <= op.time_range.end <= call.time_range.end
    assert call.self_cpu_time_total == 0.0 < op.self_cpu_time_total

    key = "rpc_async#double(worker0 -> worker1)"
    events = told(lambda: rpc.rpc_async("worker1", double, (x,)).wait())
    op = events[f"{key}#remote_op: aten::add"]
    assert events[f"{key}#remote_op: ##inner##"].is_remote
    assert op.cpu_parent.name == f"{key}#remote_op: ##inner##"

    key = "rpc_remote#double(worker0 -> worker1)"
    events = told(lambda: rpc.remote("worker1", double, (x,)).to_here())
    assert {*events} == {
        key,
        "to_here#(worker0)->(worker1)",
        f"{key}#remote_op: ##inner##",
        f"{key}#remote_op: aten::add",
    }


def wait_for_the_events_of_a_remote_call(x: fd.Tensor) -> None:
    with autograd_profiler.profile() as p:
        rref = rpc.remote("worker1", double, (x,))
        rref._get_profiling_future().wait()
        # Work after the end of the block is not in the profile.
    key = "rpc_remote#double(worker0 -> worker1)"
    assert key in {event.name for event in p.function_events}
    unprofiled = rpc.remote("worker1", double, (x,))
    for one in (unprofiled, rpc.RRef(x)):
        with pytest.raises(RpcError, match="Profiling future has not been set!"):
            one._get_profiling_future()
    unprofiled.to_here()


def in_a_group_of_two() -> None:
    in_a_group(wait_for_the_events_of_a_remote_call)


@pytest.mark.one_in(3)
def test_who_makes_a_reference_can_wait_for_the_events_of_its_call() -> None:
    run_group(in_a_group_of_two, 2)


@pytest.mark.one_in(3)
@pytest.mark.seed("U14")
def test_events_of_each_kind_of_call_come_back_under_its_name() -> None:
    run_group(each_kind, 2)


def each_kind() -> None:
    in_a_group(check_each_kind)


class Exp(fd.nn.Module):
    def forward(self, x: fd.Tensor) -> fd.Tensor:
        return x.exp()


def keep(x: fd.Tensor) -> fd.Tensor:
    kept.append(fd.nn.Sequential(Exp())(x))
    return fd.matmul(x, fd.ones(3, 4))


kept: list[fd.Tensor] = []


def keep_far(x: fd.Tensor) -> fd.Tensor:
    result: fd.Tensor = rpc.rpc_sync("worker2", keep, (x,))
    return result


def check_all_that_is_wanted(x: fd.Tensor) -> None:
    everything = {"record_shapes", "with_flops", "with_stack", "profile_memory", "with_modules"}
    for function, worker in ((keep, 1), (keep_far, 2)):
        with autograd_profiler.profile(**dict.fromkeys(everything, True)) as p:
            rpc.rpc_sync("worker1", function, (x,))
        assert p.function_events is not None
        ops = {e.name.rpartition(": ")[2]: e for e in p.function_events if "aten" in e.name}
        exp, product = ops["aten::exp"], ops["aten::mm"]
        assert (exp.node_id, product.node_id) == (worker, worker)
        assert (exp.cpu_memory_usage, product.cpu_memory_usage) == (24, 32)
        assert (product.flops, product.input_shapes) == (48, [[2, 3], [3, 4]])
        # The stack contains the user's function, and none of the frames that serve the call.
        first = keep.__code__.co_firstlineno
        for stack, line in ((exp.stack, first + 1), (product.stack, first + 2)):
            entry = stack[-1]
            assert entry.endswith(f"test_calls.py({line}): keep"), stack
        assert len(product.stack) == 1 and exp.stack[0].endswith(": forward")
        assert (exp.module_hierarchy, product.module_hierarchy) == ("Sequential.0", "")
        table = p.key_averages(group_by_stack_n=1).table(max_name_column_width=None)
        assert entry in table and "CPU Mem" in table
    with autograd_profiler.profile() as p:
        rpc.rpc_sync("worker1", keep, (x,))
    assert p.function_events is not None
    found = {(tuple(e.stack), e.cpu_memory_usage, e.flops) for e in p.function_events}
    assert found == {((), 0, 0)}


@pytest.mark.one_in(3)
@pytest.mark.seed("U14")
def test_stacks_bytes_shapes_and_flops_of_a_callee_come_back_where_they_are_asked_for() -> None:
    run_group(all_that_is_wanted, 3)


def all_that_is_wanted() -> None:
    in_a_group(check_all_that_is_wanted)


@rpc.export
def on_a_device(x: fd.Tensor) -> fd.Tensor:
    kept.append(x.to("sim").exp())
    return kept[-1].cpu()


def check_strict() -> None:
    rank = int(os.environ["RANK"])
    options = rpc.TensorPipeRpcBackendOptions(strict=True)
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        everything = {"record_shapes", "with_flops", "with_stack", "profile_memory", "with_modules"}
        activities = {ProfilerActivity.CPU, ProfilerActivity.PrivateUse1}
        with profile(activities=activities, **dict.fromkeys(everything, True)) as p:
            rpc.rpc_sync("worker1", on_a_device, (fd.ones(100),))
        ops = [event for event in p.events() if "aten::exp" in event.name]
        op, kernel = sorted(ops, key=lambda event: event.device_type.value)
        assert (op.device_memory_usage, op.node_id, op.is_remote) == (512, 1, True)
        assert op.stack[0].endswith(": on_a_device") and op.use_device == "sim"
        # The device's work is waited for and returned with the op.
        assert kernel.device_type is DeviceType.PrivateUse1 and kernel.node_id == 1
        assert kernel.thread_name == "fastdist-sim-0-stream-0"
        assert op.device_time_total == kernel.device_time_total > 0
    rpc.shutdown()


@pytest.mark.one_in(3)
@pytest.mark.seed("U14")
def test_events_of_a_strict_callee_and_of_its_devices_come_back_as_plain_values() -> None:
    run_group(check_strict, 2)


def check_chains(x: fd.Tensor) -> None:
    inner = "rpc_sync#nested(worker0 -> worker1)#remote_op: rpc_sync#double(worker1 -> worker2)"
    events = told(lambda: rpc.rpc_sync("worker1", nested, (x,)))
    require(
        events,
        {
            "rpc_sync#nested(worker0 -> worker1)": (0, False),
            inner: (1, True),
            f"{inner}#remote_op: ##inner##": (2, True),
            f"{inner}#remote_op: aten::add": (2, True),
        },
    )
    outer = "rpc_sync#later(worker0 -> worker1)#remote_op: "
    inner = f"{outer}rpc_async#aten::add(worker1 -> worker2)"
    events = told(lambda: rpc.rpc_sync("worker1", later, (x,)))
    require(
        events,
        {
            "rpc_sync#later(worker0 -> worker1)": (0, False),
            inner: (1, True),
            f"{inner}#remote_op: aten::add": (2, True),
            f"{outer}aten::mul": (1, True),
        },
    )


@pytest.mark.one_in(3)
@pytest.mark.seed("U15")
def test_what_a_profiled_call_calls_is_profiled_in_turn() -> None:
    run_group(chains, 3)


def chains() -> None:
    in_a_group(check_chains)


def check_failures(x: fd.Tensor) -> None:
    def fails(*call: Any, kind: type[Exception] = ValueError, **more: Any) -> None:
        with pytest.raises(kind):
            rpc.rpc_sync("worker1", *call, **more)

    assert {*told(lambda: fails(bad))} == {"rpc_sync#bad(worker0 -> worker1)"}
    assert {*told(lambda: fails(later_bad, (x,)))} == {"rpc_sync#later_bad(worker0 -> worker1)"}
    late = told(lambda: fails(wait_at, ("late",), kind=RpcError, timeout=0.05))
    assert {*late} == {"rpc_sync#wait_at(worker0 -> worker1)"}
    unpicklable = told(lambda: fails(bad, (lambda: 1,), kind=RpcError))
    assert len(unpicklable) == 1
    # A failed call leaves no key behind, and no key is set for the thread's next call.
    manager = rpc.RemoteProfilerManager.get_instance()
    assert not manager._keys and not manager.is_current_key_set()
    # An answer that arrives after the profile has no events.
    with profile():
        future = rpc.rpc_async("worker1", hold, (0.1,))
    assert future.wait() is None
    rpc.rpc_sync("worker1", open_gate, ("late",))


@pytest.mark.one_in(3)
def test_a_call_that_fails_is_told_of_without_events_of_its_callee() -> None:
    run_group(failures, 3)


def failures() -> None:
    in_a_group(check_failures)


def check_timeouts(x: fd.Tensor) -> None:
    with dist_autograd.context(), profile():
        too_long = pytest.raises(RpcError, match=r"RPC ran for more than set timeout \(50 ms\)")
        with too_long:
            rpc.rpc_sync("worker1", wait_at, ("late",), timeout=0.05)
        future = rpc.rpc_async("worker1", wait_at, ("late",), timeout=0.05)
        with too_long:
            future.wait()
    rpc.rpc_sync("worker1", open_gate, ("late",))


@pytest.mark.one_in(3)
@pytest.mark.seed("U18")
def test_a_timeout_is_kept_under_the_profiler() -> None:
    run_group(timeouts, 2)


def timeouts() -> None:
    in_a_group(check_timeouts)


def time_left() -> float | None:
    """Return how much of the running request's timeout is left; None without a timeout."""
    return None if serving.deadline is None else serving.deadline - time.monotonic()


def check_deadlines(x: fd.Tensor) -> None:
    def ask() -> list[float | None]:
        return [
            rpc.rpc_sync("worker1", time_left, timeout=1000),
            rpc.rpc_async("worker1", time_left, timeout=1000).wait(),
            rpc.remote("worker1", time_left, timeout=1000).to_here(),
            rpc.rpc_sync("worker1", time_left, timeout=0),
        ]

    found = [ask()]
    with profile():
        found.append(ask())
        with dist_autograd.context():
            found.append(ask())
    with dist_autograd.context():
        found.append(ask())
    for *limited, unlimited in found:
        # The time left is longer than the default, so it is the call's own timeout.
        assert all(left is not None and 60 < left <= 1000 for left in limited), found
        assert unlimited is None, found


@pytest.mark.one_in(3)
@pytest.mark.seed("U18")
def test_the_callee_knows_until_when_a_call_is_wanted_whatever_wraps_its_message() -> None:
    run_group(deadlines, 2)


def deadlines() -> None:
    in_a_group(check_deadlines)


def check_internal(x: fd.Tensor) -> None:
    holder = rpc.remote("worker1", Holder)
    holder.to_here()
    names = {*told(holder._get_type)}
    assert not names
    names = {*told(lambda: holder.rpc_sync().method(x))}
    assert names == {
        "rpc_sync#invoke_on_owner(worker0 -> worker1)",
        "rpc_sync#invoke_on_owner(worker0 -> worker1)#remote_op: aten::add",
    }


@pytest.mark.one_in(3)
@pytest.mark.seed("U17")
def test_what_this_package_asks_for_itself_is_not_profiled() -> None:
    run_group(internal, 2)


def internal() -> None:
    in_a_group(check_internal)


def check_context(x: fd.Tensor) -> None:
    x = x.requires_grad_()
    with dist_autograd.context() as context_id, profile() as p:
        y = rpc.rpc_sync("worker1", double, (x,))
        dist_autograd.backward(context_id, [y.sum()])
        (grad,) = dist_autograd.get_gradients(context_id).values()
    assert grad.tolist() == [[2.0] * 3] * 2
    names = {event.name for event in p.events()}
    assert "rpc_sync#double(worker0 -> worker1)#remote_op: aten::add" in names
    assert {
        "torch::distributed::autograd::backward",
        "torch::distributed::autograd::RecvRpcBackward",
    } <= names


@pytest.mark.one_in(3)
@pytest.mark.seed("U14")
def test_a_profiled_call_in_a_context_has_its_gradients() -> None:
    run_group(in_context, 2)


def in_context() -> None:
    in_a_group(check_context)


def check_wrapped(x: fd.Tensor) -> None:
    from fastdist.distributed.rpc import interceptors

    seen: list[tuple[int, int]] = []

    class Spy:
        def request_out(self, envelope: Any) -> None:
            seen.append((envelope.type, envelope.inner_type))

    with profile():
        order = interceptors._out
        interceptors._out = (*order, Spy().request_out)
        try:
            rpc.rpc_sync("worker1", double, (x,))
            with dist_autograd.context():
                rpc.rpc_sync("worker1", fd.add, (x, x.requires_grad_()))
        finally:
            interceptors._out = order
    kinds = MessageType.RUN_WITH_PROFILING_REQ
    assert seen == [(kinds, MessageType.PYTHON_CALL), (kinds, MessageType.SCRIPT_CALL)]


@pytest.mark.one_in(3)
@pytest.mark.seed("U14")
def test_a_profiled_call_is_wrapped_around_what_autograd_wrapped() -> None:
    run_group(wrapped, 2)


def wrapped() -> None:
    in_a_group(check_wrapped)


def check_nvtx(x: fd.Tensor) -> None:
    with pytest.MonkeyPatch.context() as patch:
        pushed = install_nvtx(patch).pushed
        check_warning(x)
    assert [text.partition(",")[0] for text in pushed] == ["aten::neg"] * 2


def check_warning(x: fd.Tensor) -> None:
    for _ in range(2):
        with autograd_profiler.emit_nvtx(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            rpc.rpc_sync("worker1", double, (x,))
            rpc.rpc_sync("worker1", double, (-x,))
            texts = [str(warning.message) for warning in caught]
            seen.extend(texts)
    (text,) = seen
    assert text.startswith(
        "Profiling a distributed call with the Kineto profiler will profile the caller, but not "
        "the worker."
    )


seen: list[str] = []


@pytest.mark.one_in(3)
@pytest.mark.seed("U16")
def test_a_profiler_that_cannot_follow_calls_warns_once() -> None:
    run_group(nvtx, 2)


def nvtx() -> None:
    in_a_group(check_nvtx)


def check_late_init() -> None:
    with profile() as p:
        is_first = init()
        if is_first:
            rpc.rpc_sync("worker1", double, (fd.ones(2),))
        rpc.shutdown()
    names = {event.name for event in p.events()}
    key = "rpc_sync#double(worker0 -> worker1)"
    assert (f"{key}#remote_op: aten::add" in names) == is_first
    if is_first:
        text = p.key_averages().table()
        row = next(line for line in text.splitlines() if f"{key} " in line)
        assert "Node ID" in text and row.split()[-1] == "0"


@pytest.mark.one_in(3)
def test_a_profile_may_begin_before_the_group_and_a_table_tells_the_workers() -> None:
    run_group(check_late_init, 2)


def local_node() -> None:
    init()
    events = told(lambda: fd.ones(2) + 1)
    assert {event.node_id for event in events.values()} == {int(os.environ["RANK"])}
    rpc.shutdown()
    assert {event.node_id for event in told(lambda: fd.ones(2) + 1).values()} == {-1}


@pytest.mark.one_in(3)
def test_local_events_have_the_id_of_their_worker() -> None:
    run_group(local_node, 2)
