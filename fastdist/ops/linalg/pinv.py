"""Pseudoinverses and ranks.

The derivatives follow PyTorch's torch/csrc/autograd/FunctionsManual.cpp (pinv_*). The formulas are
from Golub and Pereyra 1973, "The differentiation of pseudo-inverses and nonlinear least squares
problems whose variables separate", and are valid where the rank of the matrix does not change.
"""

from __future__ import annotations

from typing import Any

from ...core.dtypes import (
    WORDS,
    complex64,
    complex128,
    float32,
    float64,
    float_limits,
    int32,
    int64,
    real_of,
)
from ...core.errors import DTypeError
from ...dispatch.composite import composite
from ...dispatch.op import Op
from ...dispatch.structured import Plan, structured
from ...interpreters.batched_tensor import unbatched
from ...interpreters.batching import whole
from ...tensor.methods import Number
from ...tensor.tensor import Tensor
from ..create.creation import full
from ..pointwise.complex_numbers import real_part
from ..pointwise.masked import where
from ..pointwise.min_max import maximum
from .eigh_svd import _NOT_FINITE, eigvalsh, values_of
from .matrix_checks import require_computed, require_matrix, require_square


@structured(
    "linalg.dense.pseudo_inverse",
    fresh=True,
    homes="nowhere",
    known_as="linalg_pinv",
    takes_complex=True,
)
def pseudo_inverse(input: Tensor, atol: Tensor, rtol: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the pseudoinverse, the singular values, and per matrix a flag, nonzero on failure."""


@pseudo_inverse.plan
def _(input: Tensor, atol: Tensor, rtol: Tensor) -> Plan:
    *batch, m, n = input._layout.shape
    dtype = input._layout.dtype
    more = (((*batch, min(m, n)), real_of(dtype)), (tuple(batch), int32))
    return Plan((*batch, n, m), dtype, compute=dtype, extra_outputs=more)


@pseudo_inverse.batches
def _(op: Op, operands: tuple[Any, ...], attributes: tuple[Any, ...], level: int) -> Any:
    axes = len(operands[0]._layout.shape) - 2
    value, *tolerances = whole(operands, level)
    given = []
    for one in tolerances:
        size, *rest = one._layout.shape
        given.append(one.reshape(size, *(1,) * (axes - len(rest)), *rest))
    return op.general((value, *given), attributes)


@pseudo_inverse.vjp("input")
def _(g: Tensor, input: Tensor, out: Tensor) -> Any:
    left, right = out @ out.mH, out.mH @ out
    found = -(out.mH @ g @ out.mH)
    found = found + g.mH @ left - input @ (out @ g.mH @ left)
    turned = right @ g.mH
    return found + turned - turned @ out @ input


@pseudo_inverse.jvp
def _(input: Tensor, input_t: Tensor, out: Tensor) -> Any:
    left, right = out @ out.mH, out.mH @ out
    turned = left @ input_t.mH
    found = -(out @ input_t @ out) + turned - turned @ input @ out
    turned = input_t.mH @ right
    return found + turned - out @ (input @ turned)


def is_full_rank(rank: Tensor, n: int) -> bool:
    return bool((unbatched(rank) == n).all())


def tolerances(input: Tensor, atol: Any, rtol: Any) -> tuple[Any, Any]:
    """Return atol and rtol as tensors; None is replaced by the defaults that `pinv` describes."""
    if rtol is None:
        given = atol is not None and (isinstance(atol, Tensor) or atol > 0)
        eps = float(float_limits(real_of(input._layout.dtype)).eps)
        rtol = (
            0.0 if given and not isinstance(atol, Tensor) else eps * max(input._layout.shape[-2:])
        )
        if isinstance(atol, Tensor):
            rtol = where(atol > 0, 0.0, rtol)
    kind: Any = {"dtype": real_of(input.dtype), "device": input.device}
    one = [
        limit if isinstance(limit, Tensor) else full((), limit or 0.0, **kind)
        for limit in (atol, rtol)
    ]
    return one[0], one[1]


_TAKEN = (float32, float64, complex64, complex128)


def _by_triangle(input: Tensor) -> Any:
    """Return the Hermitian matrix with the lower triangle of input. The gradient of this matrix is
    the gradient of input, including the upper triangle, as in PyTorch's pinv.
    """
    given = input.detach()
    below = given.tril(-1)
    whole = below + below.mH + real_part(given.diagonal(dim1=-2, dim2=-1)).diag_embed()
    return input + (whole - input).detach()


def _pinv(
    input: Tensor, atol: Any, rtol: Any, hermitian: bool, rcond: Tensor | float | None
) -> Tensor:
    shape, dtype = input._layout.shape, input._layout.dtype
    if len(shape) < 2 or dtype not in _TAKEN:
        raise DTypeError(
            f"linalg.pinv({WORDS[dtype]}{{{list(shape)}}}): expected a tensor "
            "with 2 or more dimensions of float, double, cfloat or cdouble types"
        )
    if hermitian:
        require_square("linalg.eigh", input)
        input = _by_triangle(input)
    limits = tolerances(input, atol, rcond if rtol is None else rtol)
    found, _, info = pseudo_inverse(input, *[limit.to(real_of(dtype)) for limit in limits])
    require_computed("linalg.svd", info, _NOT_FINITE)
    return found


@composite(homes="linalg", out="cast")
def pinv(
    input: Tensor,
    rcond: Any = None,
    hermitian: bool = False,
    *,
    atol: Tensor | Number | None = None,
    rtol: Tensor | Number | None = None,
) -> Tensor:
    """Return the pseudoinverse. Singular values count as 0 if they are at most atol, or at most
    rtol times the largest singular value. By default, atol is 0, and rtol is the dtype's epsilon
    times the larger of m and n. If an atol above 0 is given, rtol is 0 by default.

    Shape   (..., m, n) -> (..., n, m)
    Note    if `hermitian` is true, only the lower triangle of input is read; rcond is NumPy's name
            for rtol
    """
    return _pinv(input, atol, rtol, hermitian, rcond)


@composite(out="same")
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """Return the pseudoinverse; see linalg.pinv, with rcond as its rtol."""
    return _pinv(input, None, rcond, False, None)


@composite(homes="linalg", out="cast")
def matrix_rank(
    input: Tensor,
    tol: Any = None,
    hermitian: bool = False,
    *,
    atol: Tensor | Number | None = None,
    rtol: Tensor | Number | None = None,
) -> Tensor:
    """Return the number of singular values that exceed atol and rtol times the largest of them.

    Shape   (..., m, n) -> (...) of int64
    Note    atol and rtol have the same defaults as in linalg.pinv; tol is NumPy's name for atol
    """
    name = "torch.linalg.matrix_rank"
    require_matrix(name, input, "input")
    if input._layout.dtype not in _TAKEN:
        raise DTypeError("This function doesn't handle types other than float and double")
    given: Any = input.detach()
    values = eigvalsh(given).abs() if hermitian else values_of(given)
    return rank_of(values, *tolerances(input, tol if atol is None else atol, rtol))


def rank_of(values: Tensor, atol: Tensor, rtol: Tensor) -> Tensor:
    if not values._layout.shape[-1]:
        return values.sum(-1).to(int64)
    limit = maximum(atol, rtol * values.amax(-1))
    return (values > limit.unsqueeze(-1)).sum(-1)
