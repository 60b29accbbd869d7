"""Communication hooks of DistributedDataParallel, which reduce a bucket of gradients.

default_hooks.py    the mean, also in float16 or bfloat16; wrappers that convert another hook's data
powerSGD_hook.py    the mean of low-rank approximations
post_localSGD_hook.py  the mean over all members at first, later over the members on one machine
debugging_hooks.py  no reduction, to measure a program without communication
"""

from __future__ import annotations

import enum
from functools import partial
from typing import TYPE_CHECKING, Any

from ....core.missing import show_public
from ....core.refused import find_below
from . import debugging_hooks, default_hooks, powerSGD_hook

__all__ = ["DDPCommHookType", "register_ddp_comm_hook"]


class DDPCommHookType(enum.Enum):
    """Names of communication hooks, for register_ddp_comm_hook."""

    ALLREDUCE = enum.member(partial(default_hooks.allreduce_hook))
    FP16_COMPRESS = enum.member(partial(default_hooks.fp16_compress_hook))
    BF16_COMPRESS = enum.member(partial(default_hooks.bf16_compress_hook))
    POWER_SGD = enum.member(partial(powerSGD_hook.powerSGD_hook))
    NOOP = enum.member(partial(debugging_hooks.noop_hook))


def register_ddp_comm_hook(comm_hook_type: DDPCommHookType, model: Any, state: Any = None) -> None:
    """Register a hook of this package with a DistributedDataParallel.

    Args:
        comm_hook_type: The hook to register.
        model: The DistributedDataParallel.
        state: The first argument of the hook: a group, or a PowerSGDState.
    """
    model.register_comm_hook(state, comm_hook_type.value.func)


if not TYPE_CHECKING:
    __getattr__ = partial(find_below, __name__)

show_public(__name__)
