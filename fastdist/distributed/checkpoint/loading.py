"""`load`: restores a state dict from a checkpoint, even if its parts are on other workers now."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from typing import Any

from ...concurrency.future import outcomes
from ...core.folded_frames import fold_public
from .. import rpc
from .contents import planned
from .filesystem import DefaultLoadPlanner, FileSystemReader, Where, chosen
from .part import apply_part, read_part


def load(
    state_dict: Mapping[str, Any],
    *,
    checkpoint_id: Where | None = None,
    storage_reader: FileSystemReader | None = None,
    planner: DefaultLoadPlanner | None = None,
) -> None:
    """Restore the objects in a state dict to their state in a checkpoint.

    Tensors are changed in place, and other values are replaced in the state dict. For an object
    with load_state_dict(), that method is called. A module loads the entries that it has now; other
    objects load everything that was saved under their key. RRefs and DistributedOptimizers are
    loaded by their owners. All values are looked up by key, so it does not matter which workers
    saved them, or how many. Each ShardedTensor loads the parts that it has now. Either each worker
    calls load, or one worker calls it for all workers and reaches their objects through RRefs.

    Raises  CheckpointException if the checkpoint does not exist, is damaged or lacks a key;
            ShapeError or DTypeError for tensors of another shape or dtype; WorkerLostError. After
            an error, nothing has changed on any worker

    Args:
        state_dict: The values to restore, by name. Tensors are written in place.
        checkpoint_id: The path of the folder; the folder of storage_reader if None.
        storage_reader: A FileSystemReader.
        planner: With its allow_partial_load, values that are not in the checkpoint stay unchanged.
    """
    reader = chosen("load", FileSystemReader, checkpoint_id, storage_reader)
    allow_partial = planner is not None and planner.allow_partial_load
    plan = planned(state_dict)
    session, folder = secrets.token_hex(8), os.path.abspath(reader.checkpoint_id)
    is_for_all = False
    reading = [
        rpc.rpc_async(owner, read_part, (session, folder, things, allow_partial), timeout=0)
        for owner, things in plan.there.items()
    ]
    try:
        try:
            read_part(session, folder, plan.here, allow_partial)
        finally:
            outcomes(reading)
        is_for_all = True
    finally:
        applying = [
            rpc.rpc_async(owner, apply_part, (session, is_for_all), timeout=0)
            for owner in plan.there
        ]
        apply_part(session, is_for_all)
        outcomes(applying)


fold_public(__name__)
