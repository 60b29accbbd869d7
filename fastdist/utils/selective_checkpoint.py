"""Names of checkpoints that choose for each op what is kept; using them refuses."""

from __future__ import annotations

from enum import Enum

from ..core.missing import refusing
from ..core.refused import refusing_class

_NO_SELECTION = (
    "no op decides here whether its result is kept: checkpoint() the parts of the model that the "
    "backward pass should compute again"
)
SelectiveCheckpointContext = refusing_class(
    "fastdist.utils.checkpoint", "SelectiveCheckpointContext", _NO_SELECTION
)
create_selective_checkpoint_contexts = refusing(
    "fastdist.utils.checkpoint", "create_selective_checkpoint_contexts", _NO_SELECTION
)


class CheckpointPolicy(Enum):
    """The treatment of an op's result by selective checkpoints: for annotations."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5
