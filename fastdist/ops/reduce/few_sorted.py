"""Order statistics of few numbers on the CPU by NumPy's sort, for calls that are not recorded."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from ...core.dtypes import float32, float64, int8, int16, int32, int64, uint8
from ...core.torch_function import NOT_TAKEN
from ...kernels.cpu.silence import silent
from ...tensor.axes import reduced_shape
from ...tensor.layout import Layout, Shape
from ...tensor.tensor import Tensor, wrap
from .. import return_types
from ..unrecorded_rows import may_reshape

Array = np.ndarray[Any, Any]
# For more numbers, the selection of one number is faster than a sort.
_FEW: Final = 1024
_ORDERED: Final = frozenset({float32, float64, int8, int16, int32, int64, uint8})


class _Rows(NamedTuple):
    """The rows of a tensor along an axis: the shape of the matrix with these rows, whether it is
    the transpose of the array, the first position of each row, and the layouts of the results.
    """

    shape: Shape
    is_turned: bool
    starts: Array
    values: Layout
    places: Layout


def _are_few(input: Tensor) -> bool:
    return may_reshape(input) and (
        input._layout.dtype in _ORDERED and 0 < input._layout.numel <= _FEW
    )


def _rows_of(layout: Layout, dim: int, keepdim: bool) -> _Rows | None:
    """Return the rows along dim; None unless they are rows of a matrix or along the last axis."""
    shape = layout.shape
    ndim = len(shape)
    if not -ndim <= dim < ndim:
        return None
    axis, n = dim % ndim, shape[dim]
    is_last = axis == ndim - 1
    if not is_last and ndim != 2:
        return None
    final = reduced_shape(shape, (axis,), keepdim)
    return _Rows(
        (layout.numel // n, n),
        not is_last,
        np.arange(0, layout.numel, n),
        Layout.of(layout.dtype, layout.device, final),
        Layout.of(int64, layout.device, final),
    )


def _place_of_median(rows: Array, skips_nan: bool) -> Any:
    """Return the position of the median in each sorted row: one number for all rows, or an array if
    a row contains NaN. The median of such a row is the first NaN, unless `skips_nan` is true.
    """
    n = rows.shape[1]
    top = rows.item(rows.argmax())  # argmax finds NaN first
    if top == top:
        return (n - 1) // 2
    nans = np.isnan(rows).sum(1)
    if skips_nan:
        return np.maximum((n - 1 - nans) // 2, 0)
    return np.where(nans > 0, n - nans, (n - 1) // 2)


def _kept_rows(input: Tensor, dim: int, keepdim: bool) -> Any:
    """Return the rows of few numbers along dim, which are cached, or NOT_TAKEN."""
    layout = input._layout
    key = (_kept_rows, dim, keepdim)
    found = layout.routes.get(key)
    if found is None:
        found = layout.routes.remember(key, _rows_of(layout, dim, keepdim) or NOT_TAKEN)
    return found


def nth_of_few(
    input: Tensor, k: int | None, dim: int | None, keepdim: bool, *, skips_nan: bool = False
) -> Any:
    """Return the k-th smallest elements of rows along dim and their indices, or the medians if k is
    None; NOT_TAKEN for other calls than those with few numbers.
    """
    if dim.__class__ is not int or keepdim.__class__ is not bool or not _are_few(input):
        return NOT_TAKEN
    found = _kept_rows(input, dim, keepdim)
    if found is NOT_TAKEN:
        return NOT_TAKEN
    shape, is_turned, starts, values, places = found
    rows = input._array.T if is_turned else input._array.reshape(shape)
    if k is None:
        place = _place_of_median(rows, skips_nan)
    elif k.__class__ is int and 0 < k <= shape[1]:
        place = k - 1
    else:
        return NOT_TAKEN
    where = rows.argsort(1, "stable").ravel()[starts + place]
    chosen = rows.ravel()[starts + where]
    return wrap(chosen.reshape(values.shape), values), wrap(where.reshape(places.shape), places)


def median_of_few(input: Tensor, *, skips_nan: bool) -> Any:
    """Return the median of all elements; NOT_TAKEN for other calls than those with few numbers."""
    if not _are_few(input):
        return NOT_TAKEN
    ordered = input._array.flatten()
    ordered.sort()
    n, last = ordered.size, ordered[-1]  # NaN is sorted last
    if last != last:
        nans = np.count_nonzero(np.isnan(ordered))
        n = max(n - nans, 1) if skips_nan else 2 * n - 1
    return wrap(np.array(ordered[(n - 1) // 2]), _layout_of_number(input._layout))


def _layout_of_number(layout: Layout) -> Layout:
    """Return the layout of a 0-d tensor with the dtype and device of `layout`; it is cached."""
    made: Layout | None = layout.routes.get(_layout_of_number)
    if made is None:
        number = Layout.of(layout.dtype, layout.device, ())
        made = layout.routes.remember(_layout_of_number, number)
    return made


def quantile_of_few(
    input: Tensor,
    q: float,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Any:
    """Return the quantiles of floating-point numbers without NaN for one probability; NOT_TAKEN for
    other calls than those with few numbers.
    """
    if q.__class__ is not float or not 0 <= q <= 1 or interpolation != "linear":
        return NOT_TAKEN
    if keepdim.__class__ is not bool or not _are_few(input) or input._array.dtype.kind != "f":
        return NOT_TAKEN
    if dim is None and not keepdim:
        ordered, final = input._array.reshape(1, -1).copy(), _layout_of_number(input._layout)
    elif dim.__class__ is int and (found := _kept_rows(input, dim, keepdim)) is not NOT_TAKEN:
        rows = input._array.T if found.is_turned else input._array.reshape(found.shape)
        ordered, final = rows.copy(), found.values
    else:
        return NOT_TAKEN
    ordered.sort(1)
    last = ordered[:, -1]  # NaN is sorted last
    if (last != last).any():
        return NOT_TAKEN
    return wrap(_between(ordered, q).reshape(final.shape), final)


@silent  # type: ignore[untyped-decorator]
def _between(ordered: Array, q: float) -> Any:
    """Return the quantiles of sorted rows, with the arithmetic of the op lerp."""
    kind = ordered.dtype.type
    rank = kind(q) * kind(ordered.shape[1] - 1)
    below = int(rank)
    weight = rank - kind(below)
    low, high = ordered[:, below], ordered[:, below + bool(weight)]
    if weight < 0.5:
        return low + weight * (high - low)
    return high - (high - low) * (kind(1) - weight)


def _quick_median(name: str) -> Any:
    """Return a short path of `name`, for few numbers."""
    result, skips_nan = getattr(return_types, name), name == "nanmedian"

    def quick(input: Tensor, dim: int | None = None, keepdim: bool = False, **named: Any) -> Any:
        if named:
            return NOT_TAKEN
        if dim is None and keepdim is False:
            return median_of_few(input, skips_nan=skips_nan)
        found = nth_of_few(input, None, dim, keepdim, skips_nan=skips_nan)
        return found if found is NOT_TAKEN else result(*found)

    return quick


median, nanmedian = map(_quick_median, ("median", "nanmedian"))


def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """Return the k-th smallest elements along dim and their indices, or NOT_TAKEN."""
    found = nth_of_few(input, k, dim, keepdim)
    return found if found is NOT_TAKEN else return_types.kthvalue(*found)
