"""Names with an underscore that code for PyTorch uses behave as in PyTorch."""

from __future__ import annotations

import datetime
import importlib
import os
import threading
from typing import Any

import pytest

import fastdist as fd
from fastdist.autograd import profiler
from fastdist.core.errors import MessageError, RpcError, RpcNotRunningError
from fastdist.distributed import autograd as dist_autograd
from fastdist.distributed import rpc
from fastdist.distributed.rpc import api, constants
from fastdist.distributed.rpc.torch_names import _testing, internal
from fastdist.distributed.rpc.torch_names.internal import RPCExecMode
from tests.distributed.members import init
from tests.distributed.workers import run_group


class Celsius:
    """A class that can be pickled only with a registered reducer."""

    def __init__(self, degrees: float) -> None:
        self.degrees = degrees
        self.lock = threading.Lock()


def reduce_celsius(value: Celsius) -> tuple[Any, ...]:
    return Celsius, (value.degrees + 0.5,)


def degrees_of(value: Celsius) -> float:
    return value.degrees


def test_a_value_is_serialized_with_its_tensors_apart() -> None:
    x = fd.ones(2)
    for value in (None, x, {"x": x, "n": [1, "two"]}):
        packed, tensors = internal.serialize(value)
        assert isinstance(packed, bytes) and len(tensors) == (value is not None)
        found = internal.deserialize(packed, tensors)
        assert repr(found) == repr(value)
    with pytest.raises(MessageError, match="no bytes"):
        internal.deserialize(b"", [])
    with pytest.raises(RpcError, match="cannot send"):
        internal.serialize(threading.Lock())


def call_with_picklers() -> None:
    if init() == 0:
        own = internal._InternalRPCPickler()
        own._register_reducer(Celsius, reduce_celsius)
        own._register_reducer(Celsius, lambda value: (Celsius, (0.0,)))  # the first reducer counts
        assert api._default_pickler is internal._internal_rpc_pickler
        with pytest.raises(RpcError, match="cannot send"):
            rpc.rpc_sync("w1", degrees_of, (Celsius(20.0),))
        with api._use_rpc_pickler(own):
            assert api._default_pickler is own
            assert rpc.rpc_sync("w1", degrees_of, (Celsius(20.0),)) == 20.5
            assert internal.deserialize(*own.serialize(Celsius(1.0))).degrees == 1.5
        assert api._default_pickler is internal._internal_rpc_pickler
        with pytest.raises(RpcError, match="cannot send"):
            rpc.rpc_sync("w1", degrees_of, (Celsius(20.0),))
        internal._internal_rpc_pickler._register_reducer(Celsius, reduce_celsius)
        assert rpc.rpc_sync("w1", degrees_of, (Celsius(20.0),)) == 20.5

        class Other:
            def serialize(self, obj: object) -> None:
                """Pickle in a different format."""

        with pytest.raises(TypeError, match="overrides serialize"):
            api._use_rpc_pickler(Other()).__enter__()
    rpc.shutdown()


@pytest.mark.one_in(8)
def test_reducers_of_a_pickler_are_used_while_it_is() -> None:
    run_group(call_with_picklers, 2)


def test_kinds_of_calls_and_their_keys() -> None:
    key = internal._build_rpc_profiling_key(RPCExecMode.ASYNC, "f", "w0", "w1")
    assert key == "rpc_async#f(w0 -> w1)"
    assert [mode.value for mode in RPCExecMode] == ["sync", "async", "async_jit", "remote"]
    call = internal.PythonUDF(degrees_of, (1,), {})
    assert call._fields == ("func", "args", "kwargs") and call.func is degrees_of
    with pytest.raises(AssertionError, match="profiler should be enabled"):
        internal._start_record_function(RPCExecMode.SYNC, "f", "w0", "w1")
    with profiler.profile() as p:
        event = internal._start_record_function(RPCExecMode.SYNC, "f", "w0", "w1")
        event.__exit__(None, None, None)
    assert p.function_events is not None
    assert [event.name for event in p.function_events] == ["rpc_sync#f(w0 -> w1)"]


def test_the_faulty_agent_is_where_pytorchs_tests_look_for_it() -> None:
    name = "fastdist.distributed.rpc._testing.faulty_agent_backend_registry"
    assert _testing.is_available() and importlib.import_module(name)
    assert rpc.backend_registry.backend_registered("FAULTY_TENSORPIPE")
    options = _testing.FaultyTensorPipeRpcBackendOptions(num_fail_sends=3)
    assert options.num_fail_sends == 3
    assert issubclass(_testing.FaultyTensorPipeAgent, rpc.TensorPipeAgent)


def test_what_a_gathering_has_so_far_is_told_as_pytorchs_does() -> None:
    states = api.AllGatherStates(["w0"])
    assert states.gathered_objects == {} and not states.proceed_signal.is_set()
    states.outcome.set_result({"w0": 5})
    assert states.proceed_signal.is_set()
    assert api.AllGatherStates().gathered_objects is not states.gathered_objects


def test_names_of_api_are_those_of_rpc() -> None:
    assert api._get_current_rpc_agent is rpc._get_current_rpc_agent
    assert api._is_current_rpc_agent_set is rpc._is_current_rpc_agent_set
    assert fd._C.Future is fd.futures.Future


def test_the_constants_are_pytorchs() -> None:
    assert datetime.timedelta(milliseconds=2147483647) == constants.DEFAULT_PROCESS_GROUP_TIMEOUT
    assert (rpc._DEFAULT_RPC_TIMEOUT_SEC, rpc._UNSET_RPC_TIMEOUT) == (60.0, -1.0)
    assert rpc.api.UNSET_RPC_TIMEOUT == -1.0
    assert (rpc._DEFAULT_INIT_METHOD, rpc._DEFAULT_NUM_WORKER_THREADS) == ("env://", 16)
    assert constants.DEFAULT_SHUTDOWN_TIMEOUT == 0.0


def ask_the_agent() -> None:
    @api._require_initialized
    def needs_rpc(x: int) -> int:
        return x + 1

    with pytest.raises(RpcNotRunningError, match=r"^RPC has not been initialized\. Call "):
        needs_rpc(1)
    for ask in (rpc.get_debug_info, rpc.get_metrics):
        with pytest.raises(RpcNotRunningError):
            ask()
    rank = init(rpc_timeout=17)
    assert needs_rpc(1) == 2
    agent: Any = rpc._get_current_rpc_agent()
    assert agent.get_timeout() == rpc.get_rpc_timeout() == 17
    assert [info.name for info in agent.get_worker_infos()] == ["w0", "w1"]
    assert rpc.rpc_sync(f"w{1 - rank}", abs, (-1,)) == 1
    # Entries about a peer appear after the first contact from either side, and never disappear.
    metrics, of_agent = agent.get_metrics(), agent.get_debug_info()
    with dist_autograd.context():
        info = rpc.get_debug_info()
    assert metrics.keys() <= rpc.get_metrics().keys() <= agent.get_debug_info().keys()
    assert metrics.keys() <= of_agent.keys() < info.keys()
    assert int(metrics["agent.thread_pool_size"]) >= 1
    assert info["num_autograd_contexts"] == "1" and info["num_current_backward_passes"] == "0"
    assert "num_owner_rrefs" in info and {type(value) for value in info.values()} == {str}
    assert info.keys() <= rpc._get_debug_info().keys() <= rpc.get_debug_info().keys()
    if rank == 0:
        future_list = getattr(api._thread_local_var, "future_list", None)
        assert future_list is None
        with api._wait_all():
            future = rpc.rpc_async("w1", fd.ones, (2,))
            assert api._thread_local_var.future_list == [future]
        assert future.done()
    rpc.shutdown()


@pytest.mark.one_in(8)
def test_debug_info_and_metrics_have_a_public_face() -> None:
    run_group(ask_the_agent, 2)


def types_of_references() -> None:
    if init() == 0:
        mine, theirs = rpc.RRef(Celsius(1.0)), rpc.remote("w1", Celsius, (2.0,))
        assert api._rref_typeof_on_owner(mine) is Celsius
        assert api._rref_typeof_on_owner(mine, blocking=False).wait() is Celsius
        assert api._rref_typeof_on_user(theirs).__name__ == "Celsius"
        assert api._rref_typeof_on_user(theirs, blocking=False).wait().__name__ == "Celsius"
        with pytest.raises(RpcError, match="can't call localValue"):
            api._rref_typeof_on_owner(theirs)
        api._delete_all_user_and_unforked_owner_rrefs()
        with pytest.raises(RpcError, match="has been deleted"):
            theirs.to_here()
        with pytest.raises(RpcError, match="Cannot call fork an UserRRef after deletion"):
            internal.serialize(theirs)
    rpc.shutdown()


@pytest.mark.one_in(8)
def test_types_of_references_and_their_end() -> None:
    run_group(types_of_references, 2)


kept: list[Any] = []
has_come = threading.Event()


def keep(rref: Any) -> None:
    kept.append(rref)
    has_come.set()


def leave_with_a_leak(ignored: bool) -> str:
    rank = init()
    rref = rpc.RRef(5)
    if rank == 0:
        rpc.rpc_sync("w1", keep, (rref,))
    api._ignore_rref_leak = ignored
    told = ""
    try:
        if rank == 0:
            rpc.shutdown(graceful=False)
    except RuntimeError as error:
        told = str(error)
    assert rank or not rpc._is_current_rpc_agent_set()
    if rank:
        assert has_come.wait(20)
        rpc.shutdown(graceful=False)
    return told


@pytest.mark.one_in(7, each=True)
@pytest.mark.parametrize("ignored", [True, False])
def test_leaks_of_references_are_an_error_where_they_are_not_ignored(ignored: bool) -> None:
    told, nothing = run_group(leave_with_a_leak, 2, ignored)
    assert nothing == "" and told.startswith("" if ignored else "Leaking RRef GloballyUniqueId(")
    assert bool(told) is not ignored


def fail_with(kind: type[Exception]) -> None:
    raise kind("on purpose")


class WantsTwo(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(one, two)


def run_calls_by_hand() -> None:
    rank = init()
    result = internal._run_function(internal.PythonUDF(degrees_of, (Celsius(3.0),), {}))
    assert result == 3.0 and internal._handle_exception(result) is None  # type: ignore[func-returns-value]
    found = internal._run_function(internal.PythonUDF(fail_with, (KeyError,), {}))
    assert isinstance(found, internal.RemoteException) and found.exception_type is KeyError
    assert f"w{rank}" in found.msg and "on purpose" in found.msg and "fail_with" in found.msg
    with pytest.raises(KeyError, match="on purpose"):
        internal._handle_exception(found)
    missing = internal._run_function(AttributeError("no such function"))
    with pytest.raises(AttributeError, match="no such function"):
        internal._handle_exception(missing)
    with pytest.raises(RuntimeError, match="Failed to create original exception type"):
        internal._handle_exception(internal.RemoteException("text", WantsTwo))
    rpc.shutdown()


@pytest.mark.one_in(8)
def test_a_call_is_run_and_its_failure_raised_as_pytorchs_handler_does() -> None:
    run_group(run_calls_by_hand, 2)


def ask_for_more_of_the_agent() -> None:
    options = rpc.TensorPipeRpcBackendOptions(device_maps={"w1": {"sim:0": "sim:1"}})
    rank = int(os.environ["RANK"])
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    agent: Any = rpc._get_current_rpc_agent()
    w1 = api._to_worker_info("w1")
    assert w1 == api._to_worker_info(1) == api._to_worker_info(w1) == rpc.WorkerInfo("w1", 1)
    with pytest.raises(ValueError, match=r"Cannot get WorkerInfo from name 1\.5"):
        api._to_worker_info(1.5)  # type: ignore[arg-type]
    with pytest.raises(RpcError, match="w7"):
        api._to_worker_info("w7")
    assert agent._get_backend_options().device_maps == options.device_maps
    assert agent._get_device_map(w1) == {fd.device("sim:0"): fd.device("sim:1")}
    assert agent._get_device_map(rpc.WorkerInfo("w0", 0)) == {}
    names = ("RRef", "remote", "RemoteProfilerManager")
    assert [getattr(api, name) for name in names] == [getattr(rpc, name) for name in names]
    with pytest.raises(AttributeError, match="remotely"):
        _ = api.remotely
    for rref in (rpc.RRef(5), rpc.remote("w1", abs, (-5,))):
        assert rref.to_here(timeout=20.0) == 5
        for wrong in ("x", None):
            with pytest.raises(TypeError, match="expected a number of seconds"):
                rref.to_here(wrong)
    call_as_the_bindings_do(w1)
    assert agent.sync() is None
    # PyTorch's shutdown calls `join` with these arguments.
    agent.join(True, 30.0)
    rpc.shutdown(graceful=False)


def call_as_the_bindings_do(w1: rpc.WorkerInfo) -> None:
    x = fd.ones(2)
    packed, tensors = internal.serialize(internal.PythonUDF(degrees_in, (x,), {"times": 3}))
    for call in (rpc._invoke_rpc_python_udf, api._invoke_remote_python_udf):
        assert rpc_result(call(w1, packed, tensors, 20.0, False)).tolist() == [3.0, 3.0]
    for call in (rpc._invoke_rpc_builtin, api._invoke_remote_builtin):
        assert rpc_result(call(w1, "aten::add", 20.0, x, 1, alpha=2)).tolist() == [3.0, 3.0]
        with pytest.raises(ValueError, match="'aten::nothing' is not an op that tensors have"):
            call(w1, "aten::nothing", 20.0, x)
    for call in (rpc._invoke_rpc_torchscript, api._invoke_remote_torchscript):
        with pytest.raises(NotImplementedError, match="'f' is a name of TorchScript, which is not"):
            call("w1", "f", (), {}, 20.0, False)
    rref = rpc.remote("w1", abs, (-5,))
    with pytest.raises(
        NotImplementedError, match=r"RRef.* can only be packed as part of a message"
    ):
        rref._serialize()
    with pytest.raises(NotImplementedError, match="it arrives as part of a message"):
        rpc.RRef._deserialize((0, 1))
    late = rpc.remote("w1", wait_a_second, timeout=0.05)
    with pytest.raises(RuntimeError, match=r"^RPC ran for more than set timeout \(50 ms\)"):
        rpc_result(late._get_future())
    for use in (late.to_here, late._serialize, lambda: rpc.rpc_sync("w1", id, (late,))):
        with pytest.raises(RuntimeError, match=r"^RRef creation via rpc\.remote\(\) timed out"):
            use()
    with pytest.raises(TypeError, match="timeout must be a number; 0 means no timeout"):
        rpc.rpc_sync("w1", abs, (-5,), timeout=None)  # type: ignore[arg-type]


def wait_a_second() -> None:
    threading.Event().wait(1.0)


def degrees_in(x: fd.Tensor, times: int) -> fd.Tensor:
    return x * times


def rpc_result(begun: Any) -> Any:
    return begun.to_here() if isinstance(begun, rpc.RRef) else begun.wait()


@pytest.mark.one_in(8)
def test_what_pytorchs_tests_ask_of_an_agent_and_of_api_is_there() -> None:
    run_group(ask_for_more_of_the_agent, 2)
