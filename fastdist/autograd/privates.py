"""Names of autograd that few packages use."""

from __future__ import annotations

from .function import Function


class InplaceFunction(Function):
    """A Function that may change its input in place: an older alternative to mark_dirty."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


def kineto_available() -> bool:
    """Return False: profiles are measured without Kineto."""
    return False


def _profiler_enabled() -> bool:
    """Return whether a profile is open."""
    from ..graph.modes import modes

    return bool(getattr(modes, "profilers", 0))


def _disable_profiler() -> list[object]:
    """Return an empty list of events: a profile ends with its `with` block."""
    return []


def _is_checkpoint_valid() -> bool:
    """Return True: checkpoints work in every kind of backward pass."""
    return True
