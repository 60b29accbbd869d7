"""Users' mistakes in arguments raise immediately, with the given and the expected value."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fastdist.core.errors import StoreTimeoutError
from fastdist.distributed import autograd as dist_autograd
from fastdist.distributed import rpc
from fastdist.distributed.rpc import init as init_module
from tests.distributed.members import init
from tests.distributed.workers import open_gate, run_group, wait_at


def who() -> str:
    return rpc.get_worker_info().name


def hold(seconds: float) -> None:
    threading.Event().wait(seconds)


def call_with_strange_timeouts() -> None:
    init()
    for call in (rpc.rpc_sync, rpc.rpc_async, rpc.remote):
        for timeout, kind in (("3", TypeError), (True, TypeError), (-2, ValueError)):
            with pytest.raises(kind, match=f"timeout is {timeout!r}; expected"):
                call("w0", who, timeout=timeout)
        with pytest.raises(ValueError, match=r"^timeout is nan; expected seconds, 0 or more"):
            call("w0", who, timeout=float("nan"))
    rref = rpc.RRef(1)
    with pytest.raises(TypeError, match=r"^incompatible function arguments: timeout is '3'"):
        rpc.remote("w0", hold, (1.0,)).to_here(timeout="3")
    with pytest.raises(TypeError, match=r"^incompatible function arguments: timeout is '3'"):
        rref.rpc_sync(timeout="3").bit_length()
    for forever in (float("inf"), 1e300):
        assert rpc.rpc_sync("w0", who, timeout=forever) == "w0"
        assert rpc.rpc_async("w0", who, timeout=forever).wait() == "w0"
    with pytest.raises(TypeError, match=r"^incompatible function arguments: timeout is '3'"):
        rpc._set_rpc_timeout("3")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^incompatible function arguments: timeout is '3'"):
        rpc.shutdown(timeout="3")  # type: ignore[arg-type]
    assert rpc.rpc_sync("w0", who) == "w0"
    rpc.shutdown()


@pytest.mark.one_in(8)
def test_a_timeout_that_is_none_is_told_so() -> None:
    run_group(call_with_strange_timeouts, 1)


def init_with_devices_that_are_not_there(folder: str) -> list[str]:
    """Return the error text of each mistake about devices.

    Each mistake uses a new store, because workers that detect a mistake move on before the
    other workers.
    """
    import fastdist  # noqa: F401 - the devices are its own

    rank, answers = int(os.environ["RANK"]), []
    for options in (
        {"devices": ["sim:99"]},
        {"device_maps": {"w1": {"sim:77": "sim:0"}}},
        {"device_maps": {"w1": {"sim:0": "sim:88"}}},
        {"device_maps": {"w7": {"sim:0": "sim:1"}}},
    ):
        own_mistake = len(answers) < 2
        try:
            init(
                init_method=f"file://{folder}/{len(answers)}",
                **options if rank == 0 or own_mistake else {},
            )
        except (RuntimeError, ValueError) as error:
            answers.append(str(error))
    return answers


@pytest.mark.one_in(8)
def test_devices_that_are_not_there_are_told_at_the_beginning_by_all(tmp_path: Path) -> None:
    found = run_group(init_with_devices_that_are_not_there, 2, str(tmp_path))
    for rank, told in enumerate(found):
        own = f"Invalid device in TensorPipe options on w{rank}: sim"
        assert told[0].startswith(f"{own}:99 is not there; of its kind there are: sim:0 to")
        assert told[1].startswith(f"{own}:77 is not there")
        assert told[2].startswith(
            "Node w0 has unexpected target devices in its device map for w1: sim:88 is not there"
        )
        assert told[3] == (
            "Node w0 has invalid target node names in its device maps: w7; the group has: w0, w1"
        )


def test_the_time_in_which_the_store_was_found_is_part_of_the_init_timeout(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    times = iter([100.0, 119.75])
    monkeypatch.setattr(init_module, "time", SimpleNamespace(monotonic=lambda: next(times)))
    options = rpc.TensorPipeRpcBackendOptions(
        init_timeout=20.0, init_method=f"file://{tmp_path}/store"
    )
    with pytest.raises(StoreTimeoutError) as told:
        rpc.init_rpc("w0", rank=0, world_size=2, rpc_backend_options=options)
    waited = re.search(r"did not join within ([\d.]+) s: 1;", str(told.value))
    assert waited is not None
    assert 0.25 <= float(waited[1]) < 19.75


WORDS = r"\(\): incompatible {} arguments\. The following argument types are supported:\n    1\. "


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("make", "arguments", "told"),
    [
        (rpc.WorkerInfo, {}, "missing 2 required"),
        (rpc.WorkerInfo, {"name": "w", "id": "2"}, "name is 'w' and id is '2'; expected a text"),
        (rpc.WorkerInfo, {"name": 1, "id": 2}, "name is 1 and id is 2"),
        (rpc.WorkerInfo, {"name": "w", "id": 65536}, "id is 65536; expected 0 to 65535"),
        (rpc.RpcBackendOptions, {"rpc_timeout": "2"}, "rpc_timeout is '2'; expected a number"),
        (rpc.TensorPipeRpcBackendOptions, {"num_worker_threads": 2.5}, "got 2.5"),
        (rpc.TensorPipeRpcBackendOptions, {"_transports": "uv"}, "'uv' is not a list of names"),
        (rpc.TensorPipeRpcBackendOptions, {"_channels": [7]}, r"\[7\] is not a list of names"),
        (rpc.TensorPipeRpcBackendOptions, {"device_maps": 7}, "device_maps is 7; expected"),
        (rpc.TensorPipeRpcBackendOptions, {"devices": 7}, "devices is 7; expected a list"),
        (rpc.TensorPipeRpcBackendOptions, {"init_method": 3}, "init_method is 3; expected env"),
        (rpc.TensorPipeRpcBackendOptions, {"foo": 3}, "unexpected keyword argument 'foo'"),
        (rpc.RRef, {}, "missing 1 required positional argument: 'value'"),
        (rpc.RRef, {"value": 1, "foo": 3}, "unexpected keyword argument 'foo'"),
    ],
)
def test_constructors_use_the_words_of_pytorchs_bindings(
    make: Any, arguments: dict[str, Any], told: str
) -> None:
    given = re.escape(", ".join(f"{name}={value!r}" for name, value in arguments.items()))
    invoked = f"Invoked with: kwargs: {given}" if given else "Invoked with: "
    words = "^__init__" + WORDS.format("constructor")
    pattern = rf"(?s){words}fastdist\.distributed\.rpc\..*\n\n{invoked}\n\n.*{told}"
    with pytest.raises(TypeError, match=pattern):
        make(**arguments)


def test_options_are_looked_at_when_they_are_set_as_well() -> None:
    options = rpc.RpcBackendOptions(rpc_timeout=3)
    for name in ("rpc_timeout", "init_method"):
        with pytest.raises(TypeError, match=f"^incompatible function arguments: {name} is "):
            setattr(options, name, [])
    assert (options.rpc_timeout, options.init_method) == (3.0, "env://")
    options.rpc_timeout = 0
    assert options.rpc_timeout == 0.0


def call_with_strange_arguments() -> None:
    rank = int(os.environ["RANK"])
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=1)
    strange: list[tuple[Any, tuple[Any, ...]]] = [
        (rpc.get_worker_info, (1.5,)),
        (rpc.api._get_current_rpc_agent().get_worker_info, (1.5,)),
        (rpc.TensorPipeRpcBackendOptions().set_device_map, (5, {})),
        (dist_autograd.backward, (5, [], "x")),
        (rpc.enable_gil_profiling, ("x",)),
        (dist_autograd.backward, ("x", [])),
        (dist_autograd.backward, (1, 5)),
        (dist_autograd.get_gradients, ("x",)),
    ]
    for function, given in strange:
        words = f"^{function.__name__}" + WORDS.format("function")
        with pytest.raises(TypeError, match=words):
            function(*given)
    with pytest.raises(TypeError, match="^_init" + WORDS.format("function")):
        dist_autograd._init(1.5)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match=r"^type_hint should only be specified when the RRef be"):
        rpc.RRef(1, type_hint=int)
    for call in (rpc.rpc_sync, rpc.rpc_async, rpc.remote):
        with pytest.raises(TypeError, match=r"^function should be callable\. Got 7$"):
            call("w0", 7)  # type: ignore[operator]
        with pytest.raises(ValueError, match=r"^Cannot get WorkerInfo from name None$"):
            call(None, who)  # type: ignore[operator]
        with pytest.raises(TypeError, match=r"missing 1 required positional argument: 'func'$"):
            call("w0")  # type: ignore[operator]
    rpc.shutdown()


@pytest.mark.one_in(4)
def test_functions_use_the_words_of_pytorchs_bindings() -> None:
    run_group(call_with_strange_arguments, 1)


def test_init_rpc_refuses_what_is_no_name_rank_or_size() -> None:
    given: list[tuple[dict[str, Any], str]] = [
        ({"name": 7}, "Argument 7 must be of type <class 'str'> but got type <class 'int'>"),
        ({"name": "w", "rank": "0", "world_size": 1}, r"`rank` must be an integer\. 0"),
        ({"name": "w", "rank": 0, "world_size": "1"}, r"`world_size` must be an integer\. 1"),
    ]
    for arguments, words in given:
        with pytest.raises(RuntimeError, match=f"^{words}"):
            rpc.init_rpc(**arguments)


def create_too_slowly() -> None:
    init()
    if rpc.get_worker_info().id == 0:
        rref = rpc.remote("w1", wait_at, ("late",), timeout=0.05)
        future = rref._get_future()
        assert future is not None
        with pytest.raises(RuntimeError, match=r"^RPC ran for more than set timeout \(50 ms\)"):
            future.wait()
        words = (
            r"^RRef creation via rpc\.remote\(\) timed out, and it is possible that the RRef on "
        )
        with pytest.raises(RuntimeError, match=words):
            rref.to_here()
        with pytest.raises(RuntimeError, match=words):
            rpc.remote("w0", wait_at, ("late",), timeout=0.05).to_here()
        for worker in ("w0", "w1"):
            rpc.rpc_sync(worker, open_gate, ("late",))
    rpc.shutdown()


@pytest.mark.one_in(8)
def test_a_creation_that_took_too_long_is_told_as_one() -> None:
    run_group(create_too_slowly, 2)
