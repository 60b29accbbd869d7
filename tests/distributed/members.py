"""Workers that join a group before the first test, and leave it together after the last."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from fastdist.core.errors import ShutdownIncomplete
from fastdist.distributed import rpc
from tests.distributed.workers import Group


def init(**options: Any) -> int:
    """Join the group as w0, w1 and so on, and return the rank; `options` are passed to rpc."""
    rank, size = int(os.environ["RANK"]), os.environ.get("WORLD_SIZE")
    rpc.init_rpc(
        f"w{rank}",
        rank=rank,
        world_size=None if size is None else int(size),
        rpc_backend_options=rpc.TensorPipeRpcBackendOptions(**options),
    )
    return rank


def join(options: dict[str, Any]) -> None:
    """Join the group with the given options."""
    init(**options)


def leave() -> None:
    """Shut down together with the others."""
    rpc.shutdown()


def leave_without(*names: str) -> None:
    """Shut down with the others, and expect an error that names the lost workers."""
    with pytest.raises(ShutdownIncomplete, match="has shut down without") as ended:
        rpc.shutdown()
    assert all(f"{name!r} (rank " in str(ended.value) for name in names), str(ended.value)


@contextmanager
def members(
    file: str,
    world_size: int,
    environment: Mapping[str, str] | None = None,
    **options: Any,
) -> Iterator[Group]:
    """Yield a group whose workers run functions of the test's file; `options` are passed to rpc."""
    group = Group(file, world_size, environment)
    try:
        group.run_all(join, options)
        yield group
        group.run_all(leave)
        assert group.end() == [0] * world_size
    finally:
        group.kill()
