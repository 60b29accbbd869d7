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


def is_fx_tracing() -> bool:
    """Return False: no program is captured."""
    return False


def map_aggregate(a: Any, fn: Any) -> Any:
    """Return a with fn applied to each leaf of its tuples, lists, dicts and slices."""
    if isinstance(a, tuple):
        parts = [map_aggregate(one, fn) for one in a]
        return type(a)(*parts) if hasattr(a, "_fields") else tuple(parts)
    if isinstance(a, list):
        return [map_aggregate(one, fn) for one in a]
    if isinstance(a, dict):
        return {key: map_aggregate(value, fn) for key, value in a.items()}
    if isinstance(a, slice):
        return slice(*(map_aggregate(one, fn) for one in (a.start, a.stop, a.step)))
    return fn(a)


if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
else:
    offer_refused(globals())
