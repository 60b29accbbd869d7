"""Selective checkpoints, which choose by op what to store: not supported, names only."""

from __future__ import annotations

from enum import Enum

from ..core.missing import refusing
from ..core.refusing import refusing_class

_NO_SELECTION = (
    "ops do not choose one by one what is kept here: checkpoint() the parts of the model that "
    "must be computed again"
)
SelectiveCheckpointContext = refusing_class(
    "fastdist.utils.checkpoint", "SelectiveCheckpointContext", _NO_SELECTION
)
create_selective_checkpoint_contexts = refusing(
    "fastdist.utils.checkpoint", "create_selective_checkpoint_contexts", _NO_SELECTION
)


class CheckpointPolicy(Enum):
    """The policies for the result of an op; they exist only for annotations."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5
