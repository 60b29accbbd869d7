"""The level of checks and messages of collectives: TORCH_DISTRIBUTED_DEBUG."""

from __future__ import annotations

import enum
import os

from fastdist.core.errors import CollectiveArgumentError

from ...core.folded_frames import folds


class DebugLevel(enum.IntEnum):
    """The level of checks and error messages of collectives, as in TORCH_DISTRIBUTED_DEBUG.

    With DETAIL, the members of an NCCL group compare each call before it is passed to the GPU. Even
    a call with `async_op` then waits until the collective has completed, or raises its error.
    """

    OFF = 0
    INFO = 1
    DETAIL = 2


DebugLevel.__module__ = "fastdist.distributed.distributed_c10d"
_debug_level: DebugLevel | None = None


@folds
def get_debug_level() -> DebugLevel:
    """Return the level from set_debug_level(), else from TORCH_DISTRIBUTED_DEBUG, else OFF."""
    return current_level()


def current_level() -> DebugLevel:
    """Return the level, for fastdist's own calls: get_debug_level without a wrapper."""
    if _debug_level is None:
        return _level_of_environment()
    return _debug_level


@folds
def set_debug_level(level: DebugLevel) -> None:
    """Set the level.

    Args:
        level: DebugLevel.OFF, INFO or DETAIL.
    """
    global _debug_level
    _debug_level = DebugLevel(level)


@folds
def set_debug_level_from_env() -> None:
    """Set the level from TORCH_DISTRIBUTED_DEBUG.

    Raises  CollectiveArgumentError if the variable is not OFF, INFO or DETAIL
    """
    set_debug_level(_level_of_environment())


def _level_of_environment() -> DebugLevel:
    text = os.environ.get("TORCH_DISTRIBUTED_DEBUG", "OFF").upper()
    if text not in DebugLevel.__members__:
        raise CollectiveArgumentError(
            f"The value of TORCH_DISTRIBUTED_DEBUG must be OFF, INFO or DETAIL; it is {text!r}"
        )
    return DebugLevel[text]
