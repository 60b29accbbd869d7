"""Order statistics: median, quantile, kthvalue, mode."""

from __future__ import annotations

from typing import Any

from ...core.dtypes import WORDS, bool_, float32, float64, int64
from ...core.errors import DTypeError, ShapeError
from ...dispatch.composite import composite, late
from ...dispatch.declaration import node_named, recorded_as
from ...dispatch.pointwise import pointwise
from ...dispatch.target import GivenOut, store_in_out
from ...tensor.axes import Axes, DimError, Dims, normalize_axis
from ...tensor.tensor import Tensor
from .. import return_types
from ..create.creation import full, full_like
from ..create.ranges import arange
from ..pointwise.masked import where
from ..saved_indices import keep_version
from ..shape.joining import cat
from .sorting import nth_along, sort_along


@pointwise("where(isnan(input), exact, exact)", ["g", None], homes="nowhere", known_as="median")
def valued(input: Tensor, exact: Tensor) -> Tensor:
    """Return `exact` with the gradient of `input`; both tensors are equal up to rounding."""


def _axis(name: str, input: Tensor, dim: Dims) -> int:
    """Return the axis that dim specifies.

    Raises  IndexError if there is no such axis, or if the length of the axis is 0
    """
    shape = input._layout.shape
    axis = normalize_axis(name, dim, len(shape))
    if shape and shape[axis] == 0:
        raise DimError(f"{name}(): Expected reduction dim {axis} to have non-zero size.")
    return axis


def _nth(input: Tensor, places: Tensor, axis: int, keepdim: bool) -> tuple[Any, Any]:
    """Return the elements that are at the positions `places` after a sort of input along `axis`,
    and the indices of these elements in input.
    """
    return _without(axis, keepdim, *nth_along(input, places, axis))


def _picked(found: Any, places: Tensor, axis: int, keepdim: bool) -> tuple[Any, Any]:
    """Return the elements of `found`, which are the values and indices of sorted rows, at the
    positions `places`. The axis is removed unless keepdim is true.
    """
    return _without(axis, keepdim, *[one.gather(axis, places) for one in found])


def _without(axis: int, keepdim: bool, values: Tensor, indices: Tensor) -> tuple[Any, Any]:
    """Return both tensors. The axis, which has length 1, is removed unless keepdim is true."""
    if keepdim or not values._layout.shape:
        return values, indices
    return values.squeeze(axis), indices.squeeze(axis)


def _median_along(name: str, input: Any, dim: int, keepdim: bool, *, skips_nan: bool) -> Any:
    axis = _axis(name, input, dim)
    _require_order(name, input)
    length = input._layout.shape[axis] if input._layout.shape else 1
    if not input._layout.dtype.is_floating_point:
        places = full_places(input, axis, (length - 1) // 2)
    elif skips_nan:
        places = ((length - 1 - _nans(input, axis)) // 2).clamp(min=0)
    else:
        # NaN is sorted last. In rows with NaN, the first NaN is the median.
        nans = _nans(input, axis)
        places = where(nans > 0, length - nans, (length - 1) // 2)
    picked = getattr(return_types, name)(*_nth(input, places, axis, keepdim))
    return recorded_as(node_named(f"{name}.1"), picked, ())


def _nans(input: Any, axis: int) -> Any:
    """Return the number of NaNs in each row along axis."""
    return input.detach().isnan().sum(axis, True)


def _require_order(name: str, input: Tensor) -> None:
    if input._layout.dtype is bool_:
        raise DTypeError(f"\"{name}_cpu\" not implemented for 'Bool'; cast with .to(uint8)")


def _median_of_all(name: str, input: Tensor, *, skips_nan: bool) -> Any:
    if not input._layout.numel:
        # As in PyTorch, the median of an empty tensor is NaN, cast to the dtype of the tensor.
        nothing = full((), float("nan"), device=input._layout.device)
        return nothing.to(input._layout.dtype)
    _require_order(name, input)
    flat = input.reshape(-1)
    value = _median_along(name, flat.detach(), 0, False, skips_nan=skips_nan)[0]
    if not input._layout.dtype.is_floating_point:
        return value
    # All elements equal to the median share the gradient.
    tie = (flat == value).logical_or(flat.isnan().logical_and(value.isnan()))
    mean = where(tie, flat, 0.0).sum() / tie.sum()
    return recorded_as(node_named(name), valued(mean, value), ())


def _median(name: str, input: Any, dim: Any, keepdim: bool, out: Any, *, skips_nan: bool) -> Any:
    if dim is None and keepdim:
        raise TypeError(f'{name}() missing 1 required positional arguments: "dim", for keepdim')
    if dim is None:
        found = _median_of_all(name, input, skips_nan=skips_nan)
    else:
        found = _median_along(name, input, dim, keepdim, skips_nan=skips_nan)
    return store_in_out(name, out, found, (input,))


_FEW = f"{__package__}.few_sorted"


@composite(quick=late(_FEW, "median"))
def median(input: Tensor, dim: Axes = None, keepdim: bool = False, *, out: GivenOut = None) -> Any:
    """Return the lower median of all elements, or along dim; NaN if any element is NaN.

    Raises  IndexError if dim is out of range, or the axis has no elements; RuntimeError if input is
            bool or complex

    Args:
        input: A real tensor of any dtype but bool. The median of no elements is NaN.
        dim: The axis; all elements if None.
        keepdim: Whether the reduced axes stay, with length 1.
        out: Tensors into which the result is written; new ones if None.

    Returns:
        A tensor; with dim, a pair with the fields `values` and `indices`.

    Example:
        >>> torch.median(torch.tensor([3, 1, 4, 2]))
        tensor(2)
    """
    return _median("median", input, dim, keepdim, out, skips_nan=False)


@composite(quick=late(_FEW, "nanmedian"))
def nanmedian(input: Tensor, dim: Any = None, keepdim: bool = False, *, out: Any = None) -> Any:
    """Return the lower median of the elements that are not NaN. With dim, return (values, indices)
    along dim.
    """
    return _median("nanmedian", input, dim, keepdim, out, skips_nan=True)


@composite(out="same", node="kthvalue", memory="outside of first", quick=late(_FEW, "kthvalue"))
def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """Return (values, indices) of the k-th smallest element along dim; NaN sorts last."""
    axis = normalize_axis("kthvalue", dim, len(input._layout.shape))
    length = input._layout.shape[axis] if input._layout.shape else 1
    if not 1 <= k <= length:
        raise ShapeError(
            f"kthvalue(): selected number k out of range for dimension {axis}: k is {k}, and there "
            f"are {length}"
        )
    _require_order("kthvalue", input)
    return return_types.kthvalue(*_nth(input, full_places(input, axis, k - 1), axis, keepdim))


def full_places(input: Tensor, axis: int, place: int) -> Any:
    """Return a tensor that holds `place` once for each row of input along axis."""
    shape = tuple(1 if i == axis else n for i, n in enumerate(input._layout.shape))
    return full(shape, place, dtype=int64, device=input._layout.device)


@composite(out="same", node="mode", memory="apart")
def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    """Return (values, indices): the most frequent value along dim, and its last index. Of several
    equally frequent values, the smallest is returned. A NaN is not equal to another NaN; in PyTorch
    the result depends on the positions of the NaNs.
    """
    if not input._layout.shape:
        return return_types.mode(*sort_along(input, 0, False))
    axis = _axis("mode", input, dim)
    found = sort_along(input, axis, False)
    ordered = found[0].detach().movedim(axis, -1)
    length = ordered._layout.shape[-1]
    places = arange(length, device=ordered._layout.device)
    # `begins` holds the position of each element that starts a run of equal values, and 0 for other
    # elements. cummax then gives every element the start of its run.
    begins = where(ordered[..., 1:] != ordered[..., :-1], places[1:], 0)
    first = cat([full_places(ordered, len(input._layout.shape) - 1, 0), begins], -1)
    run = places - first.cummax(-1)[0]
    most = run.argmax(-1, True).movedim(-1, axis)
    values, indices = _picked(found, most, axis, keepdim)
    return return_types.mode(keep_version(values, indices), indices)


_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def _quantile(
    name: str,
    input: Tensor,
    q: Tensor | float,
    dim: Dims,
    keepdim: bool,
    interpolation: str,
    *,
    skips_nan: bool,
) -> Tensor:
    _require_quantile(name, input, q, interpolation)
    layout = input._layout
    given = q if isinstance(q, Tensor) else full((), q, dtype=layout.dtype, device=layout.device)
    shape = layout.shape
    axis = 0 if dim is None else _axis(name, input, dim)
    flat = input.reshape(-1) if dim is None or not shape else input.movedim(axis, -1)
    ordered = sort_along(flat, -1, False)[0]
    length = ordered._layout.shape[-1]
    nans = ordered.detach().isnan().sum(-1, True)
    last = (length - 1 - nans).clamp(min=0).to(layout.dtype) if skips_nan else length - 1
    rank = given.reshape(-1) * last
    if not skips_nan:
        # In a row with NaN every quantile is NaN. NaN is sorted last.
        rank = where(nans > 0, float(length - 1), rank)
    found = _between(ordered, rank, interpolation)
    if given._layout.shape:
        found = found.movedim(-1, 0)
        lead = 1
    else:
        found, lead = found.squeeze(-1), 0
    if keepdim and dim is None:
        return found.reshape((*found._layout.shape[:lead], *(1 for _ in shape)))  # type: ignore[no-any-return]
    return found.unsqueeze(axis + lead) if keepdim and shape else found  # type: ignore[no-any-return]


def _between(ordered: Tensor, rank: Tensor, interpolation: str) -> Any:
    """Return the values at the positions `rank` of sorted rows; the positions may be fractions."""
    if interpolation == "nearest":
        return ordered.gather(-1, rank.round().to(int64))
    below = rank.floor().to(int64)
    if interpolation == "lower":
        return ordered.gather(-1, below)
    above = rank.ceil().to(int64)
    high = ordered.gather(-1, above)
    if interpolation == "higher":
        return high
    low = ordered.gather(-1, below)
    weight = rank - below.to(rank.dtype)
    if interpolation == "midpoint":
        weight = full_like(rank, 0.5)
    return low.lerp(high, weight)


def _require_quantile(name: str, input: Tensor, q: Tensor | float, interpolation: str) -> None:
    dtype = input._layout.dtype
    if dtype is not float32 and dtype is not float64:
        raise DTypeError(f"{name}() input tensor must be either float or double dtype, got {dtype}")
    if not input._layout.numel:
        raise ShapeError(f"{name}() input tensor must be non-empty, got {input._layout.shape}")
    if interpolation not in _INTERPOLATIONS:
        raise ShapeError(
            f"{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, "
            f"but got {interpolation}"
        )
    if not isinstance(q, Tensor):
        if not 0 <= q <= 1:
            raise ShapeError(f"{name}() q must be in the range [0, 1] but got {q}")
        return
    if len(q._layout.shape) > 1:
        raise ShapeError(f"{name}() q must be a scalar or 1D tensor, got {q._layout.shape}")
    if q._layout.dtype is not dtype:
        raise DTypeError(
            f"{name}() q tensor must be same dtype as the input tensor, got "
            f"{WORDS[q._layout.dtype]} for {WORDS[dtype]}"
        )
    if q.is_meta:
        return  # a meta tensor has no values to check
    values: Any = q.detach()
    if not bool(((values >= 0) & (values <= 1)).all()):
        raise ShapeError(f"{name}() q values must be in the range [0, 1]")


@composite(out="same", node="squeeze.4", quick=late(_FEW, "quantile_of_few"))
def quantile(
    input: Tensor,
    q: Any,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Tensor:
    """Return the quantiles for the probabilities q, of all elements or along dim. A quantile is NaN
    if any element is NaN.

    Args:
        input: A tensor of float32 or float64 that is not empty.
        q: A probability from 0 to 1, or a tensor of probabilities.
        dim: The axis; all elements if None.
        keepdim: Whether the reduced axes stay, with length 1.
        interpolation: How to interpolate: "linear", "lower", "higher", "midpoint" or "nearest".
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.quantile(torch.tensor([1.0, 2.0, 3.0]), 0.5)
        tensor(2.)
    """
    return _quantile("quantile", input, q, dim, keepdim, interpolation, skips_nan=False)


@composite(out="same", node="squeeze.4", quick=late(_FEW, "quantile_of_few"))
def nanquantile(
    input: Tensor,
    q: Any,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Tensor:
    """Return the quantiles, for the probabilities q, of the elements that are not NaN."""
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, skips_nan=True)
