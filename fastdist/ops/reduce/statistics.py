"""Covariances, integrals by trapezoids, and products of several tensors."""

from __future__ import annotations

from typing import Any

from ...core.caller_warning import warn_caller
from ...core.dtypes import WORDS, bool_, promote
from ...core.errors import DTypeError, ShapeError
from ...core.short_repr import short_repr
from ...dispatch.composite import composite
from ...dispatch.op import OPS
from ...dispatch.pytorch_names import node_named, recorded_as
from ...listeners.batched_tensor import most_of_all_calls
from ...tensor.axes import DimError, normalize_axis
from ...tensor.broadcast import broadcast_shapes
from ...tensor.promotion import get_default_dtype
from ...tensor.tensor import Tensor
from ..linalg.products import require_one_dtype, summed
from ..pointwise.complex_numbers import complex_of, conjugate, imaginary_part, real_part
from ..shape.joining import narrow


@composite()
def cov(
    input: Tensor,
    *,
    correction: int = 1,
    fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor:
    """Return the covariances of the rows of input; fweights says how often each column was seen,
    aweights how much it counts.
    """
    if len(input.facts.shape) > 2:
        raise ShapeError(
            "cov(): expected input to have two or fewer dimensions but got an input with "
            f"{len(input.facts.shape)} dimensions"
        )
    if input.facts.dtype is bool_:
        raise DTypeError("cov(): bool dtype is not supported for input; cast it with .float()")
    given: Any = input.reshape(1, -1) if len(input.facts.shape) < 2 else input
    if not given.facts.dtype.may_have_gradient:
        given = given.to(get_default_dtype())
    count = given.facts.shape[1]
    weights = _weights(count, fweights, aweights)
    if weights is None:
        total: Any = count
        left = given - given.sum(1, True) / count
        right, norm = left, count - correction
    else:
        if weights.facts.dtype.is_floating_point:
            given = given.to(promote(given.dtype, weights.dtype))
        weights = weights.to(given.dtype)
        total = weights.sum()
        if most_of_all_calls((total.detach() == 0).long()):
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
    if norm == 0 if isinstance(norm, int) else most_of_all_calls((norm.detach() == 0).long()):
        warn_caller(
            "cov(): degrees of freedom is <= 0. Correction should be strictly less than the number "
            "of observations."
        )
    product = left.matmul(conjugate(right.t()))
    found = product / norm if not isinstance(norm, int) or norm else product / 0.0
    return found.squeeze()  # type: ignore[no-any-return]


def _weights(count: int, fweights: Any, aweights: Any) -> Any:
    for name, one, floating in (("fweights", fweights, False), ("aweights", aweights, True)):
        if one is None:
            continue
        if len(one.facts.shape) > 1:
            raise ShapeError(f"cov(): expected {name} to have one or fewer dimensions")
        if one.facts.dtype.is_floating_point is not floating:
            kind = "floating point" if floating else "integral"
            raise DTypeError(f"cov(): expected {name} to have {kind} dtype")
        if one.facts.numel != count:
            raise ShapeError(
                f"cov(): expected {name} to have the same numel as there are observations in the "
                f"input but got {one.facts.numel} != {count}"
            )
        if one.facts.numel and float(one.detach().min()) < 0:
            raise ShapeError(f"cov(): {name} cannot be negative")
    if fweights is None:
        return aweights
    return fweights if aweights is None else fweights * aweights


@composite()
def corrcoef(input: Tensor) -> Tensor:
    """Return the correlations of the rows of input, between -1 and 1."""
    if len(input.facts.shape) > 2:
        raise ShapeError(
            "corrcoef(): expected input to have two or fewer dimensions but got an input with "
            f"{len(input.facts.shape)} dimensions"
        )
    found: Any = cov(input)
    if not found.facts.shape:
        return found / found  # type: ignore[no-any-return]
    spread = found.diagonal().sqrt()
    found = found / spread.unsqueeze(1) / spread.unsqueeze(0)
    if found.facts.dtype.is_complex:
        return complex_of(real_part(found).clamp(-1, 1), imaginary_part(found).clamp(-1, 1))
    return found.clamp(-1, 1)  # type: ignore[no-any-return]


def _areas(name: str, y: Any, x: Any, dx: Any, dim: int) -> tuple[Any, int]:
    """Return the areas of the trapezoids between neighbours along dim, and the axis."""
    if x is not None and dx is not None:
        raise TypeError(f"{name}(): give x or dx, not both")
    axis = normalize_axis(name, dim, len(y.facts.shape))
    if not y.facts.shape:
        raise DimError(
            f"Dimension specified as {short_repr(dim)} but tensor has no dimensions: {name}"
        )
    if bool_ in (y.facts.dtype, None if x is None else x.facts.dtype):
        raise DTypeError(
            f"{name}: received a bool input for `x` or `y`, but bool is not supported; cast it "
            "with .float()"
        )
    length = y.facts.shape[axis]
    n = max(length - 1, 0)
    if x is None:
        width: Any = 1 if dx is None else dx
    else:
        if len(x.facts.shape) == 1:
            if x.facts.numel != length:
                raise ShapeError(
                    f"{name}(): There must be one `x` value for each sample point, got "
                    f"{x.facts.numel} for {length}"
                )
            x = x.reshape([-1 if i == axis else 1 for i in range(len(y.facts.shape))])
        else:
            others = len(y.facts.shape) - len(x.facts.shape)
            x = x.reshape((1,) * others + x.facts.shape)
        # Of more axes than y's, x has its own axis of that number: PyTorch counts from the front.
        most = x.facts.shape[axis]
        m = max(most - 1, 0)
        width = narrow(x, axis, min(1, most), m) - narrow(x, axis, 0, m)
    sums = narrow(y, axis, min(1, length), n) + narrow(y, axis, 0, n)
    return sums * width, axis


@composite(homes="function")
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """Return the integral of y along dim by trapezoids, over x, or over steps of dx (1)."""
    areas, axis = _areas("trapezoid", y, x, dx, dim)
    word = node_named("mul.1" if x is None else "div.1")
    return recorded_as(word, areas.sum(axis) / 2, ())  # type: ignore[no-any-return]


@composite(homes="function")
def cumulative_trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: int = -1
) -> Tensor:
    """Return the integrals of y up to each place along dim but the first, by trapezoids."""
    areas, axis = _areas("cumulative_trapezoid", y, x, dx, dim)
    word = node_named("cumsum" if x is None else "div.1")
    return recorded_as(word, areas.cumsum(axis) / 2, ())  # type: ignore[no-any-return]


@composite(out="cast", node="_unsafe_view", memory="apart")
def kron(input: Tensor, other: Tensor) -> Tensor:
    """Return Kronecker's product: each element of input times all of other."""
    ndim = max(len(input.facts.shape), len(other.facts.shape))
    shapes = [(1,) * (ndim - len(o.facts.shape)) + o.facts.shape for o in (input, other)]
    left = [n for pair in zip(shapes[0], (1,) * ndim, strict=True) for n in pair]
    right = [n for pair in zip((1,) * ndim, shapes[1], strict=True) for n in pair]
    whole = [n * m for n, m in zip(*shapes, strict=True)]
    return (input.reshape(left) * other.reshape(right)).reshape(whole)


@composite(out="same", node="linalg_cross", memory="outside")
def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """Return the cross products of vectors of three elements along dim, the first such axis unless
    given.
    """
    a, b = input.facts.shape, other.facts.shape
    if input.facts.dtype is not other.facts.dtype:
        raise DTypeError(
            f"expected scalar type {WORDS[input.facts.dtype]} but found "
            f"{WORDS[other.facts.dtype]}: cross takes two tensors of one dtype"
        )
    if len(a) != len(b):
        raise ShapeError(
            "linalg.cross: inputs must have the same number of dimensions, got "
            f"{len(a)} and {len(b)}"
        )
    if dim is None:
        threes = [i for i, (n, m) in enumerate(zip(a, b, strict=True)) if n == 3 and m == 3]
        if not threes:
            raise ShapeError("no dimension of size 3 in input")
        axis = threes[0]
    else:
        axis = normalize_axis("linalg.cross", dim, len(a))
    if not a or a[axis] != 3 or b[axis] != 3:
        sizes = (a[axis] if a else 0, b[axis] if b else 0)
        raise ShapeError(
            f"linalg.cross: inputs dimension {axis} must have length 3. Got {sizes[0]} and "
            f"{sizes[1]}"
        )
    shape = broadcast_shapes("linalg.cross", [a, b])
    x, y = OPS["expand"].public(input, shape), OPS["expand"].public(other, shape)
    roll = OPS["roll"].public
    return roll(x, -1, axis) * roll(y, -2, axis) - roll(x, -2, axis) * roll(y, -1, axis)  # type: ignore[no-any-return]


@composite(homes="function method inplace", out="same", node="addbmm", memory="apart from first")
def addbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1
) -> Tensor:
    """Return beta * input + alpha * the sum of the products of the matrices of two batches."""
    require_one_dtype(input, batch2)
    product: Any = batch1.bmm(batch2)
    return summed("addbmm", beta, input, alpha, product.sum(0, dtype=product.dtype))  # type: ignore[no-any-return]


@composite(homes="function method inplace", out="same", node="renorm", memory="apart")
def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """Return input with each slice along dim whose norm of order p is above maxnorm scaled to
    it.
    """
    shape = input.facts.shape
    if len(shape) < 2:
        raise ShapeError(f"renorm: input needs at least 2 dimensions, got {len(shape)} dimensions")
    if not p > 0:
        raise ShapeError(f"renorm: non-positive norm not supported, got {p}")
    if maxnorm < 0:
        raise ShapeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    axis = normalize_axis("renorm", dim, len(shape))
    others = tuple(i for i in range(len(shape)) if i != axis)
    size: Any = OPS["vector_norm"].public(
        input.abs() if input.facts.dtype.is_complex else input, p, others, True
    )
    factor = OPS["where"].public(size > maxnorm, maxnorm / (size + 1e-7), 1.0)
    return input * factor  # type: ignore[no-any-return]


@composite(node="rot90")
def rot90(input: Tensor, k: int = 1, dims: Any = (0, 1)) -> Tensor:
    """Return a copy turned by k quarters from the first of dims towards the second."""
    ndim = len(input.facts.shape)
    if len(dims) != 2:
        raise ShapeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if ndim < 2:
        raise ShapeError(f"expected total dims >= 2, but got total dims = {ndim}")
    first, second = (normalize_axis("rot90", dim, ndim) for dim in dims)
    if first == second:
        raise ShapeError(
            f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}"
        )
    turned: Any = input
    if k % 4 == 2:
        return turned.flip(first, second)  # type: ignore[no-any-return]
    if k % 4 == 0:
        return turned.clone()  # type: ignore[no-any-return]
    flipped = turned.flip(second if k % 4 == 1 else first)
    return flipped.transpose(first, second).clone()  # type: ignore[no-any-return]
