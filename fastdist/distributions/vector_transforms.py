"""Transforms of vectors and matrices: to simplices, to triangular matrices, and part by part."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..namespace.limits import finfo
from ..ops.create.ranges import arange, eye
from ..ops.nn.activation import logsigmoid
from ..ops.nn.padding import pad
from ..ops.shape.joining import cat, stack
from ..tensor.layout import Size
from ..tensor.tensor import Tensor
from . import constraints
from .matrices import cholesky
from .number_transforms import Plain, clipped_sigmoid
from .transform import Transform
from .utils import (
    lazy_property,
    on_diagonal,
    sum_rightmost,
    tril_matrix_to_vec,
    vec_to_tril_matrix,
)


class CorrCholeskyTransform(Transform):
    """Maps vectors to Cholesky factors of correlation matrices, by tanh and stick breaking per row.

    Source  Stan Reference Manual, section "Cholesky factors of correlation matrices"
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Any) -> Any:
        eps = finfo(x.dtype).eps
        r = vec_to_tril_matrix(x.tanh().clamp(min=-1 + eps, max=1 - eps), diag=-1)
        left = (1 - r**2).sqrt().cumprod(-1)
        r = r + eye(r.shape[-1], dtype=r.dtype, device=r.device)
        return r * pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y: Any) -> Any:
        left = pad((1 - (y * y).cumsum(-1))[..., :-1], [1, 0], value=1)
        t = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(left, diag=-1).sqrt()
        return (t.log1p() - t.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """Return log |det(dy/dx)|, one number per event."""
        left = tril_matrix_to_vec(1 - (y * y).cumsum(-1), diag=-2)
        sticks = 0.5 * left.log().sum(-1)
        return sticks - 2 * (x - logsigmoid(2 * x) - math.log(2.0)).sum(-1)

    def forward_shape(self, shape: Sequence[int]) -> Size:
        """Return the shape of the result for an input of this shape."""
        _require_axes(shape, 1)
        n = shape[-1]
        d = round((0.25 + 2 * n) ** 0.5 + 0.5)
        if d * (d - 1) // 2 != n:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return Size((*shape[:-1], d, d))

    def inverse_shape(self, shape: Sequence[int]) -> Size:
        """Return the shape of the input for a result of this shape."""
        _require_axes(shape, 2)
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        d = shape[-1]
        return Size((*shape[:-2], d * (d - 1) // 2))


class SoftmaxTransform(Plain):
    """The softmax along the last axis; it is not bijective: log returns one of many inputs."""

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Any) -> Any:
        return x.softmax(-1)

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def forward_shape(self, shape: Sequence[int]) -> Any:
        """Return the shape of the result for an input of this shape."""
        _require_axes(shape, 1)
        return shape

    inverse_shape = forward_shape


class StickBreakingTransform(Plain):
    """Maps vectors to a simplex by stick breaking: each element takes a share of what remains."""

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    def _call(self, x: Any) -> Any:
        x = x - _places_left(x).log()
        # Remainders are not computed as 1 - z, where rounding would lose small remainders.
        z, rest = clipped_sigmoid(x), clipped_sigmoid(-x).cumprod(-1)
        y = pad(z, [0, 1], value=1) * pad(rest, [1, 0], value=1)
        return y.clamp(min=finfo(y.dtype).tiny)

    def _inverse(self, y: Any) -> Any:
        broken = y[..., :-1]
        # A remainder is the sum of the later elements: 1 minus the sum of the earlier elements
        # would lose digits.
        rest = y[..., 1:].flip(-1).cumsum(-1).flip(-1).clamp(min=finfo(y.dtype).tiny)
        return broken.log() - rest.log() + _places_left(broken).log()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """Return log |det(dy/dx)|, one number per event."""
        x = x - _places_left(x).log()
        return (logsigmoid(-x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Sequence[int]) -> Size:
        """Return the shape of the result for an input of this shape."""
        _require_axes(shape, 1)
        return Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Sequence[int]) -> Size:
        """Return the shape of the input for a result of this shape."""
        _require_axes(shape, 1)
        return Size((*shape[:-1], shape[-1] - 1))


def _places_left(x: Tensor) -> Tensor:
    return arange(x.shape[-1], 0, -1, dtype=x.dtype, device=x.device)


class LowerCholeskyTransform(Plain):
    """Maps matrices to lower triangular matrices: exp is applied to the diagonal."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Any) -> Any:
        return x.tril(-1) + on_diagonal(x.diagonal(dim1=-2, dim2=-1).exp())

    def _inverse(self, y: Any) -> Any:
        return y.tril(-1) + on_diagonal(y.diagonal(dim1=-2, dim2=-1).log())


class PositiveDefiniteTransform(Plain):
    """Maps matrices to positive definite matrices."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Any) -> Any:
        triangle = LowerCholeskyTransform()(x)
        return triangle @ triangle.mT

    def _inverse(self, y: Any) -> Any:
        return LowerCholeskyTransform().inv(cholesky(y))


class _Parts(Transform):
    """Base of transforms that apply other transforms to parts of a tensor."""

    def __init__(self, tseq: Sequence[Any], dim: int, cache_size: int) -> None:
        if not all(isinstance(one, Transform) for one in tseq):
            raise AssertionError("All elements of tseq must be Transform instances")
        if cache_size:
            tseq = [one.with_cache(cache_size) for one in tseq]
        super().__init__(cache_size=cache_size)
        self.transforms = list(tseq)
        self.dim = dim

    def _require_length(self, x: Any, length: int, what: str) -> None:
        if not -x.dim() <= self.dim < x.dim():
            raise AssertionError(
                f"dim {self.dim} out of range for tensor with {x.dim()} dimensions"
            )
        if x.size(self.dim) != length:
            raise AssertionError(
                f"x.size({self.dim}) = {x.size(self.dim)} must equal {what} {length}"
            )

    @property
    def bijective(self) -> bool:
        """Return whether the transform is bijective."""
        return all(one.bijective for one in self.transforms)


class CatTransform(_Parts):
    """Applies transforms to consecutive parts of a tensor along dim."""

    def __init__(
        self,
        tseq: Sequence[Any],
        dim: int = 0,
        lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = list(lengths) if lengths is not None else [1] * len(self.transforms)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(
                f"lengths ({len(self.lengths)}) must match transforms ({len(self.transforms)})"
            )

    @lazy_property
    def event_dim(self) -> int:
        """Return the number of axes of one event."""
        return max(one.event_dim for one in self.transforms)

    @lazy_property
    def length(self) -> int:
        """Return the total length of the parts."""
        return sum(self.lengths)

    def with_cache(self, cache_size: int = 1) -> Any:
        """Return this transform with a cache of the given size."""
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _split(self, x: Any) -> Any:
        self._require_length(x, self.length, "length")
        return x.split(self.lengths, self.dim)

    def _call(self, x: Any) -> Any:
        parts = zip(self.transforms, self._split(x), strict=True)
        return cat([one(part) for one, part in parts], self.dim)

    def _inverse(self, y: Any) -> Any:
        parts = zip(self.transforms, self._split(y), strict=True)
        return cat([one.inv(part) for one, part in parts], self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """Return log |det(dy/dx)|, one number per event."""
        terms = []
        for one, before, after in zip(self.transforms, self._split(x), self._split(y), strict=True):
            term = one.log_abs_det_jacobian(before, after)
            terms.append(sum_rightmost(term, self.event_dim - one.event_dim))
        dim = (self.dim - x.dim() if self.dim >= 0 else self.dim) + self.event_dim
        return cat(terms, dim) if dim < 0 else sum(terms)

    @constraints.dependent_property
    def domain(self) -> Any:
        """Return the domains of the parts, as one constraint."""
        return constraints.cat([one.domain for one in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self) -> Any:
        """Return the codomains of the parts, as one constraint."""
        return constraints.cat([one.codomain for one in self.transforms], self.dim, self.lengths)


class StackTransform(_Parts):
    """Applies transforms to the slices of a tensor along dim."""

    def __init__(self, tseq: Sequence[Any], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(tseq, dim, cache_size)

    def with_cache(self, cache_size: int = 1) -> Any:
        """Return this transform with a cache of the given size."""
        if self._cache_size == cache_size:
            return self
        return StackTransform(self.transforms, self.dim, cache_size)

    def _slice(self, x: Any) -> Any:
        self._require_length(x, len(self.transforms), "len(transforms)")
        return x.unbind(self.dim)

    def _call(self, x: Any) -> Any:
        parts = zip(self.transforms, self._slice(x), strict=True)
        return stack([one(part) for one, part in parts], self.dim)

    def _inverse(self, y: Any) -> Any:
        parts = zip(self.transforms, self._slice(y), strict=True)
        return stack([one.inv(part) for one, part in parts], self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """Return log |det(dy/dx)|, one number per event."""
        parts = zip(self.transforms, self._slice(x), self._slice(y), strict=True)
        terms = [one.log_abs_det_jacobian(before, after) for one, before, after in parts]
        return stack(terms, self.dim)

    @constraints.dependent_property
    def domain(self) -> Any:
        """Return the domains of the parts, as one constraint."""
        return constraints.stack([one.domain for one in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self) -> Any:
        """Return the codomains of the parts, as one constraint."""
        return constraints.stack([one.codomain for one in self.transforms], self.dim)


def _require_axes(shape: Sequence[int], axes: int) -> None:
    if len(shape) < axes:
        raise ValueError("Too few dimensions on input")
