"""Workers that are a group before a test begins, and leave it together after the last."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from fastdist.distributed import rpc
from tests.distributed.workers import Group


def join(options: dict[str, Any]) -> None:
    """Come into the group as w0, w1 and so on."""
    rpc.init_rpc(
        f"w{os.environ['RANK']}", rpc_backend_options=rpc.TensorPipeRpcBackendOptions(**options)
    )


def leave() -> None:
    """Wait for the others, and go."""
    rpc.shutdown()


@contextmanager
def members(
    file: str,
    world_size: int,
    environment: Mapping[str, str] | None = None,
    **options: Any,
) -> Iterator[Group]:
    """Be a group whose workers run the functions of a test's file; `options` are those of rpc."""
    group = Group(file, world_size, environment)
    try:
        group.run_all(join, options)
        yield group
        group.run_all(leave)
        assert group.end() == [0] * world_size
    finally:
        group.kill()
