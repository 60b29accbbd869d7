"""`load`: what a checkpoint has for a state dict, wherever its parts are now."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from typing import Any

from ...concurrency.future import outcomes
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
    """Let what a state dict names be as it was when a checkpoint was saved.

    Tensors are changed in place, other values replaced in the state dict; an object with
    load_state_dict() gets its state, a module the entries that it has now, others everything that
    was saved under their key. The owners load RRefs and DistributedOptimizers. All values are
    looked up by key, so it does not matter how many workers saved them, nor which; each
    ShardedTensor gets the part that it has now. Each worker may load alone, or one for all through
    RRefs.

    Raises  CheckpointException for a checkpoint that is not there, is damaged or lacks a key,
            ShapeError and DTypeError for tensors that were others, WorkerLostError; nothing has
            changed on any worker then
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
