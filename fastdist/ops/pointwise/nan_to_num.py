"""Replacement of NaN and infinite numbers."""

from __future__ import annotations

from ...core.dtypes import float_limits
from ...dispatch.composite import composite
from ...dispatch.pointwise import pointwise
from ...dispatch.target import GivenOut, store_in_out
from ...graph.lazy_conj_neg import resolved
from ...tensor.tensor import Tensor
from .complex_numbers import view_as_complex, view_as_real


@composite(homes="function method inplace", known_as="")
def nan_to_num(
    input: Tensor,
    nan: float | None = None,
    posinf: float | None = None,
    neginf: float | None = None,
    *,
    out: GivenOut = None,
) -> Tensor:
    """Return input with NaN and infinities replaced by numbers.

    Raises  TypeError if nan, posinf or neginf is not a number

    Args:
        input: A tensor of any dtype. Integers are unchanged; both parts of complex numbers are
            replaced.
        nan: The replacement for NaN; 0 if None.
        posinf: The replacement for inf; the largest finite number of the dtype if None.
        neginf: The replacement for -inf; the smallest (negative) finite number if None.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.nan_to_num(torch.tensor([float("nan"), float("inf")]), posinf=9.0)
        tensor([0., 9.])
    """
    dtype = input._layout.dtype
    if dtype.is_complex:
        parts = nan_to_num(view_as_real(resolved(input)), nan, posinf, neginf)
        return store_in_out("nan_to_num", out, view_as_complex(parts), (input,), "same", "apart")
    if not dtype.is_floating_point:
        return store_in_out("nan_to_num", out, input.clone(), (input,), "same", "apart")
    largest = float(float_limits(dtype).max)
    numbers = (
        0.0 if nan is None else float(nan),  # float() also accepts an int of more than 64 bits
        largest if posinf is None else float(posinf),
        -largest if neginf is None else float(neginf),
    )
    return replace_nonfinite.public(input, *numbers, out=out)


@pointwise(
    "infinity = where(input > T(0), posinf, neginf); "
    "where(isnan(input), nan_value, where(isinf(input), infinity, input))",
    ["where(isfinite(input), g, T(0))"],
    homes="nowhere",
    known_as="nan_to_num",
)
def replace_nonfinite(input: Tensor, nan_value: float, posinf: float, neginf: float) -> Tensor:
    """Return input with NaN, inf and -inf replaced by the given numbers."""
