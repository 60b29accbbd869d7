"""What users may give wrongly is told at once, in words that say what was given and expected."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fastdist.core.errors import StoreTimeoutError
from fastdist.distributed import rpc
from fastdist.distributed.rpc import init as init_module
from tests.distributed.workers import run_group


def init(**options: Any) -> None:
    rank = int(os.environ["RANK"])
    rpc.init_rpc(
        f"w{rank}",
        rank=rank,
        world_size=int(os.environ["WORLD_SIZE"]),
        rpc_backend_options=rpc.TensorPipeRpcBackendOptions(**options),
    )


def who() -> str:
    return rpc.get_worker_info().name


def hold(seconds: float) -> None:
    threading.Event().wait(seconds)


def call_with_strange_timeouts() -> None:
    init()
    for call in (rpc.rpc_sync, rpc.rpc_async, rpc.remote):
        for timeout, kind in (("3", TypeError), (True, TypeError), (-2, ValueError)):
            with pytest.raises(kind, match=f"^timeout is {timeout!r}; expected"):
                call("w0", who, timeout=timeout)
        with pytest.raises(ValueError, match=r"^timeout is nan; expected seconds, 0 or more"):
            call("w0", who, timeout=float("nan"))
    rref = rpc.RRef(1)
    with pytest.raises(TypeError, match=r"^timeout is '3'"):
        rpc.remote("w0", hold, (1.0,)).to_here(timeout="3")
    with pytest.raises(TypeError, match=r"^timeout is '3'"):
        rref.rpc_sync(timeout="3").bit_length()
    for forever in (float("inf"), 1e300):
        assert rpc.rpc_sync("w0", who, timeout=forever) == "w0"
        assert rpc.rpc_async("w0", who, timeout=forever).wait() == "w0"
    with pytest.raises(TypeError, match=r"^timeout is '3'"):
        rpc._set_rpc_timeout("3")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^timeout is '3'"):
        rpc.shutdown(timeout="3")  # type: ignore[arg-type]
    assert rpc.rpc_sync("w0", who) == "w0"
    rpc.shutdown()


def test_a_timeout_that_is_none_is_told_so() -> None:
    run_group(call_with_strange_timeouts, 1)


def init_with_devices_that_are_not_there(folder: str) -> list[str]:
    """Return what each mistake about devices is told as.

    Each time there is another store: who has heard of a mistake tries the next one before others.
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
    waited = re.search(r"did not come within ([\d.]+) s: 1;", str(told.value))
    assert waited is not None
    assert 0.25 <= float(waited[1]) < 19.75
