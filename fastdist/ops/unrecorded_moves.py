"""A short path for composites that only move elements, for small tensors and unrecorded calls.

A composite that only moves elements (reflection padding, `repeat`, `pixel_shuffle`) is a chain of
views and copies, each of which takes 1.3 us. The composite, applied to the numbers 0, 1, 2 ...,
returns a table of indices. With this table, one call of NumPy's `take` gives the same result as the
composite. Moving elements does not round, so both ways give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import numpy as np

from ..core.device import CPU
from ..core.dtypes import float32, float64, int64
from ..core.folded_frames import fold
from ..graph.modes import modes, tls
from ..tensor.layout import Layout, Size
from ..tensor.tensor import Tensor, from_array, wrap

F = TypeVar("F", bound=Callable[..., Any])
# The maximal number of elements of the input and of the result.
_MOST: Final = 4096
_BY_COMPOSITE: Final = (None, None)
# These dtypes represent all indices up to _MOST exactly, so the composite can make the table.
_DTYPES: Final = frozenset({float32, float64, int64})
# Arguments of these classes may be part of a cache key. The key also contains the classes.
_KEYS: Final = frozenset({int, bool, str, float, type(None)})


def by_table(moves: Callable[..., bool] | None = None) -> Callable[[F], F]:
    """Return a decorator, used with `before`, for a composite whose only tensor is its first
    argument, and whose result is a new tensor of elements of that argument.

    `moves` takes the other arguments, and returns whether the composite only moves elements. If so,
    the composite runs at the first call with a layout and such arguments, and a table of indices
    replaces it in later calls. In all other cases the composite always runs.
    """

    def decorate(general: F) -> F:
        def quick(*args: Any, **named: Any) -> Any:
            try:
                if not args or args[0].__class__ not in modes.plain:
                    return general(*args, **named)
                input = args[0]
                if input._edge is not None and not (modes.grad_off and not tls.grad):
                    return general(*args, **named)
                if moves is not None and not moves(*args[1:], **named):
                    return general(*args, **named)
                key: tuple[Any, ...] = (general, *args[1:], *map(type, args[1:]))
                if named:
                    key += (*named.items(), *map(type, named.values()))
                try:
                    found = input._layout.routes.get(key)
                except (AttributeError, TypeError):  # a sparse tensor, or a list
                    return general(*args, **named)
                if found is None:
                    result = general(*args, **named)
                    if all(map(_is_key, (*args[1:], *named.values()))):
                        # The table is made at the second call, so that a shape that occurs once
                        # costs nothing.
                        found = _find if _may_be_moved(input, result) else _BY_COMPOSITE
                        input._layout.routes.remember(key, found)
                    return result
                if found is _find:
                    found = _find(general, input._layout, args[1:], named)
                    input._layout.routes.remember(key, found)
                table, layout = found
                if table is None:
                    return general(*args, **named)
                return wrap(input._array.take(table), layout)
            except Exception as error:
                fold(error)
                raise

        return quick  # type: ignore[return-value]

    return decorate


def _is_key(one: object) -> bool:
    kind = one.__class__
    if isinstance(one, tuple) and (kind is tuple or kind is Size):
        return all(part.__class__ is int for part in one)
    return kind in _KEYS and one == one


def _may_be_moved(input: Tensor, result: Any) -> bool:
    layout = input._layout
    if layout.device is not CPU or layout.dtype not in _DTYPES or result.__class__ is not Tensor:
        return False
    made = result._layout
    is_few = 0 < layout.numel <= _MOST and 0 < made.numel <= _MOST
    is_dense = layout.contiguous and made.contiguous
    return is_few and is_dense and not np.may_share_memory(result._array, input._array)


def _find(
    general: Callable[..., Any], layout: Layout, args: Sequence[object], named: Mapping[str, object]
) -> tuple[Any, Any]:
    """Return the indices with which `take` gives the result of a call, and the result's layout."""
    numbers = from_array(np.arange(layout.numel, dtype=layout.dtype.numpy).reshape(layout.shape))
    made = general(numbers, *args, **named)
    if made.__class__ is not Tensor or np.may_share_memory(made._array, numbers._array):
        return _BY_COMPOSITE
    return made._array.astype(np.int64), Layout.of(layout.dtype, CPU, made._layout.shape)
