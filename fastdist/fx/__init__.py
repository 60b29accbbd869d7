"""PyTorch's graphs of programs: the names that packages import; capturing one refuses.

`wrap` is real, as is fx.experimental.symbolic_shapes, which answers questions about sizes.
fastdist.trace(fn)(x) records the ops that a function calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.refused import offer_refused

__all__ = ["has_side_effect", "wrap"]


def wrap(fn_or_name: Any) -> Any:
    """Return the function, or its name, unchanged: it would stay one node of a graph.

    Raises:
        RuntimeError: The argument is neither a function nor a string.
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(
            "Unsupported type for global function! Must be either a callable or string name"
        )
    return fn_or_name


def has_side_effect(fn: Any) -> Any:
    """Return the function unchanged: no graph leaves it out."""
    return fn


if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
else:
    offer_refused(globals())
