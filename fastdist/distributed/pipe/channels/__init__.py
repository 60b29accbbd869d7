"""How a tensor's bytes travel: in memory that both processes have, or in the message's frames."""

# PyTorch's names and priorities, arena beside them. `basic` is what pipe/message.py does: buffers
# are inline when small and frames of the message otherwise. `arena` takes large buffers between
# processes of one machine; what it cannot take goes by `basic`. The others are registered with the
# reason why they are not viable, so that a user who asks for one alone is told.

from __future__ import annotations

from fastdist.distributed.pipe.registry import (
    CMA_CHANNEL_PRIORITY,
    CUDA_BASIC_CHANNEL_PRIORITY,
    CUDA_GDR_CHANNEL_PRIORITY,
    CUDA_IPC_CHANNEL_PRIORITY,
    CUDA_XTH_CHANNEL_PRIORITY,
    MULTIPLEXED_UV_CHANNEL_PRIORITY,
    NotViable,
    channels,
)

from .arena import ArenaChannel
from .basic import BasicChannel

_THROUGH_HOST = "not part of this version; tensors of GPUs go through host memory"

for _name, _priority, _reason in (
    ("cma", CMA_CHANNEL_PRIORITY, "process_vm_readv is not part of this version"),
    ("mpt_uv", MULTIPLEXED_UV_CHANNEL_PRIORITY, "striping over TCP is not part of this version"),
    ("cuda_xth", CUDA_XTH_CHANNEL_PRIORITY, _THROUGH_HOST),
    ("cuda_ipc", CUDA_IPC_CHANNEL_PRIORITY, _THROUGH_HOST),
    ("cuda_gdr", CUDA_GDR_CHANNEL_PRIORITY, _THROUGH_HOST),
    ("cuda_basic", CUDA_BASIC_CHANNEL_PRIORITY, _THROUGH_HOST),
):
    channels.register(_name, _priority, NotViable(_reason))

__all__ = ["ArenaChannel", "BasicChannel", "channels"]
