"""Options, names and message types: PyTorch's fields and texts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from fastdist.core.device import Device
from fastdist.core.errors import RendezvousError, RpcError
from fastdist.distributed import rpc
from fastdist.distributed.rpc import MessageType, TensorPipeRpcBackendOptions
from fastdist.distributed.rpc.torch_names import backend_registry
from fastdist.distributed.rpc.workers.record import require_name


@pytest.mark.seed("T5", "T8")
def test_defaults_are_torchs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FASTDIST_TRANSPORTS", raising=False)
    options = TensorPipeRpcBackendOptions()
    assert options.num_worker_threads == 16
    assert options.rpc_timeout == 60.0
    assert options.init_method == "env://"
    assert options.device_maps == {} and options.devices == []
    assert options._transports is None and options._channels is None
    assert rpc.ZmqRpcBackendOptions is TensorPipeRpcBackendOptions


@pytest.mark.seed("T6")
@pytest.mark.parametrize("number", [0, -1])
def test_a_thread_count_must_be_positive(number: int) -> None:
    with pytest.raises(RuntimeError, match=f"^num_worker_threads must be positive, got {number}"):
        TensorPipeRpcBackendOptions(num_worker_threads=number)


@pytest.mark.parametrize(
    ("settings", "kind", "text"),
    [
        ({"num_worker_threads": "3"}, TypeError, "num_worker_threads must be a number, got '3'"),
        ({"rpc_timeout": "1 s"}, TypeError, "rpc_timeout is '1 s'; expected a number of seconds"),
        ({"rpc_timeout": -1}, ValueError, "rpc_timeout is -1; expected seconds, 0 or more"),
        ({"init_timeout": float("nan")}, ValueError, "init_timeout is nan; expected seconds"),
        ({"init_method": 5}, TypeError, "init_method is 5; expected env://, tcp://HOST:PORT"),
        ({"local_address": 7}, TypeError, "local_address is 7; expected text such as"),
    ],
)
def test_options_of_the_wrong_type_are_told(
    settings: dict[str, Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=rf"(^|\n\n){re.escape(text)}"):
        TensorPipeRpcBackendOptions(**settings)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (
            {"backend": "tensorpipe"},
            "Argument backend must be a member of BackendType: got 'tensorpipe', known: Backend",
        ),
        (
            {"rpc_backend_options": 5},
            "Argument rpc_backend_options must be an instance of RpcBackendOptions: got 5",
        ),
    ],
)
def test_a_backend_that_is_none_is_told(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(TypeError, match=f"^{re.escape(text)}"):
        rpc.init_rpc("w0", rank=0, world_size=1, **settings)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("203.0.113.7", "'203.0.113.7' is not an address of this machine"),
        ("0.0.0.0", "'0.0.0.0', which is every address of this machine"),
        ("*", "'*', which is every address of this machine"),
        ("no host", "cannot resolve the address 'no host': "),
    ],
)
@pytest.mark.parametrize("what", ["local_address", "FASTDIST_ADDRESS"])
def test_a_worker_listens_at_one_address_of_its_own(
    address: str, text: str, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = TensorPipeRpcBackendOptions(init_method=f"file://{tmp_path}/store")
    if what == "local_address":
        options.local_address = address
    else:
        monkeypatch.setenv(what, address)
    with pytest.raises(ValueError, match=f"^{what}(:| is) {re.escape(text)}"):
        rpc.init_rpc("w0", rank=0, world_size=1, rpc_backend_options=options)


@pytest.mark.seed("T7")
def test_unknown_transports_and_channels_are_refused_at_construction() -> None:
    with pytest.raises(RuntimeError, match=r"^Unknown transport: shmem; known, fastest first"):
        TensorPipeRpcBackendOptions(_transports=["uv", "shmem"])
    with pytest.raises(RuntimeError, match=r"^Unknown channel: dma; known, fastest first: arena"):
        TensorPipeRpcBackendOptions(_channels=["dma"])
    TensorPipeRpcBackendOptions(_transports=["tcp", "shm"], _channels=["basic"])


def test_the_environment_names_transports_where_the_user_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FASTDIST_TRANSPORTS", " uv , ipc ")
    assert TensorPipeRpcBackendOptions()._transports == ["uv", "ipc"]
    monkeypatch.setenv("FASTDIST_TRANSPORTS", "nonsense")
    with pytest.raises(RuntimeError, match=r"^Unknown transport: nonsense"):
        TensorPipeRpcBackendOptions()


@pytest.mark.seed("T9")
def test_device_maps_merge_and_stay_one_to_one() -> None:
    options = TensorPipeRpcBackendOptions(device_maps={"w1": {0: 1}})
    options.set_device_map("w1", {"cuda:1": "cuda:2"})
    options.set_device_map("w2", {0: 0})
    assert options.device_maps["w1"] == {
        Device("cuda:0"): Device("cuda:1"),
        Device("cuda:1"): Device("cuda:2"),
    }
    assert set(options.device_maps) == {"w1", "w2"}
    with pytest.raises(ValueError, match=r"^`set_device_map` only supports 1-to-1 mapping"):
        options.set_device_map("w1", {0: 3})
    with pytest.raises(ValueError, match=r"^`device_map` only supports 1-to-1 mapping"):
        options.set_device_map("w1", {5: 1})
    with pytest.raises(ValueError, match=r"^`device_map` only supports 1-to-1 mapping"):
        TensorPipeRpcBackendOptions(device_maps={"w1": {0: 1, 1: 1}})


@pytest.mark.seed("T10")
def test_devices_must_be_gpus() -> None:
    text = r"^`set_devices` expect a list of CUDA devices, but got device type cpu\."
    with pytest.raises(ValueError, match=text):
        TensorPipeRpcBackendOptions(devices=["cpu"])
    options = TensorPipeRpcBackendOptions(devices=[0, "sim:1"])
    assert options.devices == [Device("cuda:0"), Device("sim:1")]
    with pytest.raises(ValueError, match=text):
        options.set_devices(["cpu"])


@pytest.mark.seed("T40")
@pytest.mark.parametrize(
    "name", ["", "a b", "ü", "x" * 128, "a/b", "new\n", "w.1", "w,1", "w\\1", "w^1"]
)
def test_bad_worker_names_are_refused(name: str) -> None:
    text = "^" + r"Worker name must match \^\[A-Za-z0-9-_:\]\*\$, and must be non-empty and shorter"
    with pytest.raises(RuntimeError, match=f"{text} than 128 chars, but got {re.escape(name)}$"):
        require_name(name)
    with pytest.raises(RuntimeError, match=text):
        rpc.init_rpc(name, rank=0, world_size=1)
    with pytest.raises(RuntimeError, match=text):
        rpc.WorkerInfo(name, 0)


class OptionsOfAnother(rpc.RpcBackendOptions):
    """Options of a third-party backend."""

    def __init__(self) -> None:
        rpc.RpcBackendOptions.__init__(self, rpc_timeout=5, init_method="tcp://127.0.0.1:1")


def test_options_of_another_backend_are_refused_before_anybody_is_waited_for() -> None:
    words = r"^`rpc_backend_options` must be a `TensorPipeRpcBackendOptions`\. "
    with pytest.raises(TypeError, match=words):
        rpc.init_rpc(
            "w0",
            backend=rpc.BackendType.TENSORPIPE,
            rank=0,
            world_size=2,
            rpc_backend_options=OptionsOfAnother(),
        )
    # Such options still have the attributes that the rendezvous reads.
    options = OptionsOfAnother()
    assert options.meeting_s() == 60 and options.security is options.certificates is None


def test_good_worker_names_pass() -> None:
    for name in ("a", "Trainer3", "ps:0", "a-b_c", "x" * 127):
        require_name(name)


@pytest.mark.seed("T39")
def test_message_kinds_are_numbered_as_torchs() -> None:
    torchs = {kind.name: kind for kind in MessageType if kind & 0xFF < 0x80}
    # Calls, the RRef protocol, autograd forward and backward, clean-up, profiling, RRef backward.
    requests = {
        0x00: "SCRIPT_CALL", 0x02: "PYTHON_CALL", 0x04: "SCRIPT_REMOTE_CALL",
        0x05: "PYTHON_REMOTE_CALL", 0x07: "SCRIPT_RREF_FETCH_CALL",
        0x08: "PYTHON_RREF_FETCH_CALL", 0x0B: "RREF_USER_DELETE", 0x0C: "RREF_FORK_REQUEST",
        0x0D: "RREF_CHILD_ACCEPT", 0x0F: "FORWARD_AUTOGRAD_REQ", 0x11: "BACKWARD_AUTOGRAD_REQ",
        0x13: "CLEANUP_AUTOGRAD_CONTEXT_REQ", 0x15: "RUN_WITH_PROFILING_REQ",
        0x17: "RREF_BACKWARD_REQ",
    }  # fmt: skip
    responses = {
        0x01: "SCRIPT_RET", 0x03: "PYTHON_RET", 0x06: "REMOTE_RET",
        0x09: "SCRIPT_RREF_FETCH_RET", 0x0A: "PYTHON_RREF_FETCH_RET", 0x0E: "RREF_ACK",
        0x10: "FORWARD_AUTOGRAD_RESP", 0x12: "BACKWARD_AUTOGRAD_RESP",
        0x14: "CLEANUP_AUTOGRAD_CONTEXT_RESP", 0x16: "RUN_WITH_PROFILING_RESP",
        0x18: "RREF_BACKWARD_RESP", 0x37: "EXCEPTION",
    }  # fmt: skip
    expected = {name: 0x100 | number for number, name in requests.items()}
    expected |= {name: 0x200 | number for number, name in responses.items()}
    assert torchs == {**expected, "UNKNOWN": 0x3C} and len(torchs) == 27
    for kind in MessageType:
        assert not (kind & 0x100 and kind & 0x200)


def test_backends_are_registered_by_name() -> None:
    assert backend_registry.backend_registered("TENSORPIPE")
    assert repr(rpc.BackendType.TENSORPIPE) == "BackendType.TENSORPIPE"
    options = backend_registry.construct_rpc_backend_options(
        rpc.BackendType.TENSORPIPE, rpc_timeout=3, num_worker_threads=2
    )
    assert (options.rpc_timeout, options.num_worker_threads) == (3.0, 2)
    with pytest.raises(RuntimeError, match="TENSORPIPE: already registered"):
        backend_registry.register_backend("TENSORPIPE", dict, dict)


def test_wrong_arguments_of_init_rpc_are_told() -> None:
    with pytest.raises(TypeError, match="backend must be a member of BackendType"):
        rpc.init_rpc("w0", backend="TENSORPIPE", rank=0, world_size=1)
    with pytest.raises(TypeError, match="must be an instance of RpcBackendOptions"):
        rpc.init_rpc("w0", rank=0, world_size=1, rpc_backend_options={})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="security is 'tls'"):
        TensorPipeRpcBackendOptions(security="tls")


@pytest.mark.parametrize(
    "call",
    [
        lambda: rpc.rpc_sync("w0", len, ([],)),
        lambda: rpc.rpc_async("w0", len, ([],)),
        lambda: rpc.remote("w0", len, ([],)),
        rpc.get_worker_info,
        lambda: rpc.RRef(1),
        rpc.shutdown,
        rpc._get_debug_info,
    ],
)
def test_everything_before_init_says_what_to_call(call: object) -> None:
    with pytest.raises(RpcError, match=r"has not been initialized\. Call .*init_rpc first"):
        call()  # type: ignore[operator]


@pytest.mark.parametrize(
    ("given", "told", "meets_within_s"),
    [
        ({}, None, 60.0),
        ({}, "90", 90.0),
        ({}, "0", 1e9),
        ({"init_timeout": 5}, "90", 5.0),
        ({"init_timeout": 0}, None, 1e9),
        ({"rpc_timeout": 3}, None, 60.0),
        ({"rpc_timeout": 3}, "90", 90.0),
        ({"rpc_timeout": 3, "init_timeout": 40}, "90", 40.0),
        ({"rpc_timeout": 3}, "0", 1e9),
        ({"rpc_timeout": 300}, None, 60.0),
        ({"rpc_timeout": 0}, None, 60.0),
        ({"init_timeout": 90}, None, 90.0),
    ],
)
def test_init_rpc_waits_as_long_as_was_said_however_short_calls_shall_be(
    given: dict[str, float],
    told: str | None,
    meets_within_s: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("FASTDIST_INIT_TIMEOUT", raising=False)
    if told is not None:
        monkeypatch.setenv("FASTDIST_INIT_TIMEOUT", told)
    assert rpc.TensorPipeRpcBackendOptions(**given).meeting_s() == meets_within_s


@pytest.mark.parametrize("told", ["soon", "-1", "1e3", "nan"])
def test_an_init_timeout_of_the_environment_that_makes_no_sense_is_named(
    told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FASTDIST_INIT_TIMEOUT", told)
    with pytest.raises(RendezvousError, match=f"FASTDIST_INIT_TIMEOUT is '{told}'; expected secon"):
        rpc.TensorPipeRpcBackendOptions()
