"""Covariances and correlations."""

from __future__ import annotations

from typing import Any

from ...core.caller_warning import warn_caller
from ...core.dtypes import bool_, promote
from ...core.errors import DTypeError, ShapeError
from ...dispatch.composite import composite
from ...interpreters.batched_tensor import max_over_batch
from ...tensor.promotion import get_default_dtype
from ...tensor.tensor import Tensor
from ..pointwise.complex_numbers import complex_of, conjugate, imaginary_part, real_part


@composite()
def cov(
    input: Tensor,
    *,
    correction: int = 1,
    fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor:
    """Return the covariances of the rows of input. fweights holds the number of observations for
    each column, and aweights the weight of each column.
    """
    if len(input._layout.shape) > 2:
        raise ShapeError(
            "cov(): expected input to have two or fewer dimensions but got an input with "
            f"{len(input._layout.shape)} dimensions"
        )
    if input._layout.dtype is bool_:
        raise DTypeError("cov(): bool dtype is not supported for input; cast it with .float()")
    given: Any = input.reshape(1, -1) if len(input._layout.shape) < 2 else input
    if not given._layout.dtype.may_have_gradient:
        given = given.to(get_default_dtype())
    count = given._layout.shape[1]
    weights = _weights(count, fweights, aweights)
    if weights is None:
        total: Any = count
        left = given - given.sum(1, True) / count
        right, norm = left, count - correction
    else:
        if weights._layout.dtype.is_floating_point:
            given = given.to(promote(given.dtype, weights.dtype))
        weights = weights.to(given.dtype)
        total = weights.sum()
        if max_over_batch((total.detach() == 0).long()):
            raise ShapeError("cov(): weights sum to zero, can't be normalized")
        left = given - (given * weights).sum(1, True) / total
        right = left * weights
        norm = total - correction
        if aweights is not None and correction:
            counted = aweights.to(given.dtype)
            norm = total - correction * (weights * counted).sum() / total
        norm = real_part(norm).clamp(min=0)
    if isinstance(norm, int):
        norm = max(norm, 0)
    if norm == 0 if isinstance(norm, int) else max_over_batch((norm.detach() == 0).long()):
        warn_caller(
            "cov(): degrees of freedom is <= 0. Correction should be strictly less than the number "
            "of observations."
        )
    product = left.matmul(conjugate(right.t()))
    found = product / norm if not isinstance(norm, int) or norm else product / 0.0
    return found.squeeze()  # type: ignore[no-any-return]


def _weights(count: int, fweights: Tensor | None, aweights: Tensor | None) -> Any:
    for name, one, floating in (("fweights", fweights, False), ("aweights", aweights, True)):
        if one is None:
            continue
        if len(one._layout.shape) > 1:
            raise ShapeError(f"cov(): expected {name} to have one or fewer dimensions")
        if one._layout.dtype.is_floating_point is not floating:
            kind = "floating point" if floating else "integral"
            raise DTypeError(f"cov(): expected {name} to have {kind} dtype")
        if one._layout.numel != count:
            raise ShapeError(
                f"cov(): expected {name} to have the same numel as there are observations in the "
                f"input but got {one._layout.numel} != {count}"
            )
        if one._layout.numel and float(one.detach().min()) < 0:
            raise ShapeError(f"cov(): {name} cannot be negative")
    if fweights is None:
        return aweights
    return fweights if aweights is None else fweights * aweights


@composite()
def corrcoef(input: Tensor) -> Tensor:
    """Return the correlation coefficients of the rows of input, between -1 and 1."""
    if len(input._layout.shape) > 2:
        raise ShapeError(
            "corrcoef(): expected input to have two or fewer dimensions but got an input with "
            f"{len(input._layout.shape)} dimensions"
        )
    found: Any = cov(input)
    if not found._layout.shape:
        return found / found  # type: ignore[no-any-return]
    spread = found.diagonal().sqrt()
    found = found / spread.unsqueeze(1) / spread.unsqueeze(0)
    if found._layout.dtype.is_complex:
        return complex_of(real_part(found).clamp(-1, 1), imaginary_part(found).clamp(-1, 1))
    return found.clamp(-1, 1)  # type: ignore[no-any-return]
