"""Keys of profiled calls: at most one per thread, and ids that are unique in a job."""

from __future__ import annotations

import os
import threading

import pytest

from fastdist.core.errors import RpcError
from fastdist.distributed import rpc
from fastdist.distributed.rpc.torch_names.remote_profiler_manager import RemoteProfilerManager
from tests.distributed.workers import run_group


@pytest.mark.seed("U15")
def test_a_key_is_set_at_most_once() -> None:
    manager = RemoteProfilerManager()
    with pytest.raises(RpcError, match="Must set the current profiling key"):
        manager.get_current_profiling_key()
    manager.set_current_key("first")
    with pytest.raises(
        RuntimeError,
        match=r"^Cannot call RemoteProfilerManager::setCurrentKey when current key is already set",
    ):
        manager.set_current_key("second")
    assert manager.get_current_profiling_key() == "first"
    manager.unset_current_key()
    manager.set_current_key("second")
    assert manager.is_current_key_set()


@pytest.mark.seed("U15")
def test_each_thread_has_its_own_key() -> None:
    manager = RemoteProfilerManager()
    manager.set_current_key("mine")
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(manager.is_current_key_set()))
    thread.start()
    thread.join()
    assert found == [False]


@pytest.mark.seed("U15")
def test_a_key_is_kept_by_its_id_until_it_is_erased() -> None:
    manager = RemoteProfilerManager()
    manager.save_rpc_key(7, "a call")
    with pytest.raises(RpcError, match="has a key already"):
        manager.save_rpc_key(7, "another")
    assert manager.retrieve_rpc_profiling_key(7) == "a call"
    manager.erase_key(7)
    manager.erase_key(7)
    with pytest.raises(RpcError, match="no profiled call 0:7"):
        manager.retrieve_rpc_profiling_key(7)


def ids_of_a_worker() -> list[int]:
    rank = int(os.environ["RANK"])
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2)
    manager = rpc.RemoteProfilerManager.get_instance()
    found = [manager.get_next_profiler_id() for _ in range(3)]
    rpc.shutdown()
    return found


@pytest.mark.seed("U15")
def test_ids_are_unique_in_the_job() -> None:
    first, second = run_group(ids_of_a_worker, 2)
    assert first == [1, 2, 3] and second == [(1 << 48) + n for n in (1, 2, 3)]
