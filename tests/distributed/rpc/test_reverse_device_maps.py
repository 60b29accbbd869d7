"""Results return along the device maps of the current members of the group."""

from __future__ import annotations

import os
import threading

import pytest

import fastdist
from fastdist import Tensor
from fastdist.core.device import Device
from fastdist.distributed import rpc
from fastdist.distributed.rpc.workers.joining import join_dynamic
from fastdist.distributed.rpc.workers.record import Record
from fastdist.distributed.rpc.workers.workers import Workers
from fastdist.distributed.store import HashStore, Store
from tests.device_kinds import KINDS, kind_here, told
from tests.distributed.rpc.workers.by_hand import strike_out, workers_of
from tests.distributed.workers import run_group

DeviceMaps = dict[str, dict[str, str]]


def member(name: str, rank: int, incarnation: int, **device_maps: dict[str, str]) -> Record:
    return Record(name, rank, 0, incarnation, {"uv": "somewhere"}, device_maps, "none")


@pytest.fixture
def store() -> Store:
    return HashStore()


@pytest.fixture
def members(store: Store) -> Workers:
    """Return the workers as seen by w0, which maps a device to a worker that has not joined yet."""
    members: Workers = workers_of(
        join_dynamic(store, member("w0", 0, 100, later={"sim:1": "sim:0"}))
    )
    return members


def reverse_map(members: Workers, rank: int) -> dict[str, str]:
    worker = members.find(rank)
    found = {} if worker is None else worker.map_back
    return {str(mine): str(theirs) for mine, theirs in found.items()}


@pytest.mark.seed("T25", "T26")
def test_a_reverse_map_comes_with_who_joins_and_goes_with_who_leaves(
    store: Store, members: Workers
) -> None:
    assert [str(device) for device in members.mapped_devices()] == ["sim:1"]
    join_dynamic(store, member("a", 1, 101, w0={"sim:5": "sim:0"}, b={"sim:6": "sim:2"}))
    members.all()
    assert reverse_map(members, 1) == {"sim:0": "sim:5"}
    assert [str(device) for device in members.mapped_devices()] == ["sim:0", "sim:1"]
    strike_out(store, 101)
    members.get(1).said_goodbye()
    assert reverse_map(members, 1) == {}
    assert members.mapped_devices() == [Device.parse("sim:1")]


@pytest.mark.seed("T25", "T26")
def test_who_takes_a_rank_brings_a_reverse_map_of_its_own(store: Store, members: Workers) -> None:
    join_dynamic(store, member("a", 1, 101, w0={"sim:5": "sim:0"}))
    members.all()
    strike_out(store, 101)
    join_dynamic(store, member("b", 1, 102, w0={"sim:4": "sim:3"}))
    members.all()
    assert reverse_map(members, 1) == {"sim:3": "sim:4"}
    strike_out(store, 102)
    join_dynamic(store, member("c", 1, 103))
    members.all()
    assert reverse_map(members, 1) == {}


# ---- between processes --------------------------------------------------------------------------

all_lives_are_over = threading.Event()


def note_the_end() -> None:
    all_lives_are_over.set()


def on_device() -> Tensor:
    return fastdist.ones(2, device=f"{kind_here()}:0")


def init(device_map: dict[str, str] | None) -> None:
    # Groups are numbered in the store; reset the counter so that the worker rejoins the same group.
    rpc.init._init_counter = 0  # type: ignore[attr-defined]
    store = f"tcp://127.0.0.1:{os.environ['MASTER_PORT']}"
    options = rpc.TensorPipeRpcBackendOptions(init_method=store)
    if device_map:
        options.set_device_map("w0", device_map)
    rank = int(os.environ["RANK"])
    rpc.init_rpc(f"w{rank}", rank=rank, rpc_backend_options=options)


def live_with(device_map: dict[str, str] | None) -> tuple[str, str]:
    """Return the device of a result of w0 in one life of this worker, and w0's mapped devices."""
    init(device_map)
    try:
        arrived = str(rpc.rpc_sync("w0", on_device).device)
    except RuntimeError as error:
        arrived = str(error)
    devices = rpc.rpc_sync("w0", rpc._get_debug_info)["agent.devices"]
    if device_map is None:
        rpc.rpc_sync("w0", note_the_end)
    rpc.shutdown()
    return arrived, devices


def come_and_go() -> list[tuple[str, str]]:
    kind = kind_here()
    if os.environ["RANK"] == "0":
        init(None)
        assert all_lives_are_over.wait(30)
        rpc.shutdown()
        return []
    maps = ({f"{kind}:1": f"{kind}:0"}, {f"{kind}:0": f"{kind}:0"}, None)
    return [live_with(device_map) for device_map in maps]


@pytest.mark.seed("T25", "T31")
@pytest.mark.parametrize("kind", KINDS)
def test_a_result_goes_back_by_the_map_of_the_callers_present_life(kind: str) -> None:
    _, ((first, devices), second, (third, none)) = run_group(come_and_go, 2, environment=told(kind))
    assert (first, devices) == (f"{kind}:1", f"{kind}:0") and second == (f"{kind}:0",) * 2
    assert "only supports CPU tensors by default" in third and none == "the CPU alone"
