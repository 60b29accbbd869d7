"""How a tensor's bytes travel beside its message: today always in the message's own frames."""

# PyTorch's names and priorities, arena beside them. `basic` is what pipe/message.py does: buffers
# are inline when small and frames of the message otherwise. The others are registered with the
# reason why they are not viable, so that a user who asks for one alone is told.

from __future__ import annotations

from fastdist.distributed.pipe.registry import (
    ARENA_CHANNEL_PRIORITY,
    CMA_CHANNEL_PRIORITY,
    CUDA_BASIC_CHANNEL_PRIORITY,
    CUDA_GDR_CHANNEL_PRIORITY,
    CUDA_IPC_CHANNEL_PRIORITY,
    CUDA_XTH_CHANNEL_PRIORITY,
    MULTIPLEXED_UV_CHANNEL_PRIORITY,
    NotViable,
    channels,
)

from .basic import BasicChannel

_THROUGH_HOST = "not part of this version; tensors of GPUs go through host memory"

for _name, _priority, _reason in (
    ("arena", ARENA_CHANNEL_PRIORITY, "blocks in shared memory are not part of this version"),
    ("cma", CMA_CHANNEL_PRIORITY, "process_vm_readv is not part of this version"),
    ("mpt_uv", MULTIPLEXED_UV_CHANNEL_PRIORITY, "striping over TCP is not part of this version"),
    ("cuda_xth", CUDA_XTH_CHANNEL_PRIORITY, _THROUGH_HOST),
    ("cuda_ipc", CUDA_IPC_CHANNEL_PRIORITY, _THROUGH_HOST),
    ("cuda_gdr", CUDA_GDR_CHANNEL_PRIORITY, _THROUGH_HOST),
    ("cuda_basic", CUDA_BASIC_CHANNEL_PRIORITY, _THROUGH_HOST),
):
    channels.register(_name, _priority, NotViable(_reason))

__all__ = ["BasicChannel", "channels"]
