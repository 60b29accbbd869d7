"""Compare derivatives with central differences, with PyTorch's signatures."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.dtypes import float64
from ..core.folded_frames import fold_public
from ..core.missing import show_public
from ..core.short_repr import short_repr
from ..graph.lazy_conj_neg import resolved
from ..graph.modes import no_grad
from ..ops.pointwise.complex_numbers import view_as_complex, view_as_real
from ..ops.shape.joining import stack
from ..tensor.tensor import Tensor, from_array
from .differentiate import grad
from .forward_ad import dual_level, make_dual, unpack_dual

Array = np.ndarray[Any, Any]


class GradcheckError(RuntimeError):
    """A derivative differs from the central differences."""


@dataclass(frozen=True)
class _Check:
    eps: float
    atol: float
    rtol: float
    nondet_tol: float
    fast_mode: bool

    def require_close(self, found: Any, expected: Any, what: str) -> None:
        if not np.allclose(found, expected, rtol=self.rtol, atol=self.atol):
            raise GradcheckError(
                f"Jacobian mismatch for {what},\nnumerical:{expected}\nanalytical:{found}\n"
                f"largest difference {short_repr(float(np.max(np.abs(found - expected))))}"
            )


def gradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
) -> bool:
    """Compare the derivatives of `func` with central differences, and return True if they agree.

    Note    fast mode compares one random product v^T J u instead of the whole Jacobian J.
            check_batched_grad compares the gradients of a batch with those of separate passes.
            check_batched_forward_grad compares tangents that are computed one after another at one
            level with tangents at separate levels
    Raises  GradcheckError (a RuntimeError) if they do not agree, unless raise_exception is False;
            ValueError if no input requires grad
    """
    if check_batched_grad and not check_backward_ad:
        raise ValueError("Setting check_batched_grad=True requires check_backward_ad to be True")
    if check_batched_forward_grad and not check_forward_ad:
        raise ValueError(
            "Setting check_batched_forward_grad=True requires check_forward_ad to be True"
        )
    check = _Check(eps, atol, rtol, nondet_tol, fast_mode)
    given = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    func, given = in_parts(func, given)
    try:
        _require_inputs(given)
        if check_backward_ad:
            _check_backward(check, func, given)
            if check_grad_dtypes:
                _check_dtypes(func, given)
            if check_undefined_grad:
                _check_undefined(func, given)
            if check_batched_grad:
                _check_batched(check, func, given)
        if check_forward_ad:
            _check_forward(check, func, given)
            if check_batched_forward_grad:
                _check_batched_forward(check, func, given)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def in_parts(
    func: Callable[..., Any], given: tuple[Any, ...]
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return func and its inputs with each complex number split into two real ones, so that all
    derivatives are real.
    """
    which = [isinstance(x, Tensor) and x._layout.dtype.is_complex for x in given]

    def of_parts(*parts: Any) -> Any:
        found = func(
            *[
                _complex(part) if is_pair else part
                for part, is_pair in zip(parts, which, strict=True)
            ]
        )
        if isinstance(found, Tensor):
            return _parts(found)
        return tuple([_parts(one) for one in found])

    return of_parts, tuple(
        [
            _parts(x.detach()).requires_grad_(x.requires_grad) if is_pair else x
            for x, is_pair in zip(given, which, strict=True)
        ]
    )


def _complex(pairs: Any) -> Any:
    return view_as_complex(pairs.contiguous())


def _parts(x: Any) -> Any:
    is_complex = isinstance(x, Tensor) and x._layout.dtype.is_complex
    return view_as_real(resolved(x)) if is_complex else x


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    grad_outputs: Tensor | Sequence[Tensor] | None = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
) -> bool:
    """Compare second derivatives: run gradcheck on func's gradient, as a function of the inputs and
    of grad_outputs.
    """
    given = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    func, given = in_parts(func, given)
    if grad_outputs is None:
        likes = _outputs(func, given)
        vs = tuple([_random_like(y, gen_non_contig_grad_outputs) for y in likes])
    else:
        many = (grad_outputs,) if isinstance(grad_outputs, Tensor) else grad_outputs
        vs = tuple([_parts(v) for v in many])
    count = len(given)

    def first(*args: Any) -> Any:
        xs = tuple([_again(x) for x in args[:count]])
        outputs = _outputs(func, xs)
        return grad(
            outputs,
            [x for x in xs if _wanted(x)],
            args[count:],
            create_graph=True,
            allow_unused=True,
        )

    def first_defined(*args: Any) -> Any:
        return tuple([g for g in first(*args) if g is not None])

    return gradcheck(
        first_defined,
        (*given, *vs),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
    )


def _again(x: Any) -> Any:
    """Return a view of x if x requires grad. The gradient with respect to the view exists even if
    func returns its argument or a view of its argument.
    """
    return x.view(x.shape) if _wanted(x) else x


def _random_like(y: Tensor, strided: bool) -> Tensor:
    generator = np.random.default_rng(0x5EED)
    values = generator.standard_normal(tuple(y.shape)).astype(y.dtype.numpy)
    if strided and values.ndim:
        values = np.repeat(values, 2, axis=-1)[..., ::2]
    found: Tensor = from_array(values).to(y.device).requires_grad_()
    return found


def _wanted(x: Any) -> bool:
    return isinstance(x, Tensor) and x._edge is not None


def _require_inputs(given: Sequence[Any]) -> None:
    wanted = [x for x in given if _wanted(x)]
    if not wanted:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of the "
            "them have "
            "requires_grad=True."
        )
    for i, x in enumerate(given):
        if _wanted(x) and x.dtype is not float64:
            warnings.warn(
                f"Input #{i} requires gradient and is not a double precision floating point. This "
                "check will likely "
                "fail if all the inputs are not of double precision floating point.",
                stacklevel=3,
            )


def _outputs(func: Callable[..., Any], given: Sequence[Any]) -> tuple[Tensor, ...]:
    found = func(*given)
    many = (found,) if isinstance(found, Tensor) else tuple(found)
    return tuple([y for y in many if isinstance(y, Tensor) and y.dtype.may_have_gradient])


def _differences(
    check: _Check, func: Callable[..., Any], given: Sequence[Any], k: int
) -> list[Array]:
    """Return the Jacobian of each output for input k: one row per element of the input."""
    base = given[k].detach().to_numpy()

    def at(values: Array) -> list[Array]:
        moved = from_array(values).to(given[k].device).requires_grad_()
        return [
            y.detach().to_numpy().reshape(-1)
            for y in _outputs(func, [*given[:k], moved, *given[k + 1 :]])
        ]

    columns = []
    for i in range(base.size):
        sides = []
        for step in (check.eps, -check.eps):
            values = np.array(base)
            values.reshape(-1)[i] += step
            sides.append(at(values))
        columns.append([(up - down) / (2 * check.eps) for up, down in zip(*sides)])
    if not columns:
        return [np.zeros((0, y.size)) for y in at(np.array(base))]
    return [np.stack(rows) for rows in zip(*columns)]


def _product(
    check: _Check, func: Callable[..., Any], given: Sequence[Any], k: int, u: Array
) -> list[Array]:
    """Return the difference quotient of each output, along direction u of input k."""
    base = given[k].detach().to_numpy()
    sides = []
    for step in (check.eps, -check.eps):
        # NumPy returns a scalar for a sum of 0-d arrays; a kernel needs an array.
        moved = from_array(np.asarray(base + step * u)).to(given[k].device).requires_grad_()
        outputs = _outputs(func, [*given[:k], moved, *given[k + 1 :]])
        sides.append([y.detach().to_numpy() for y in outputs])
    return [(up - down) / (2 * check.eps) for up, down in zip(*sides)]


def _rows(func: Callable[..., Any], given: Sequence[Any], k: int) -> list[Array]:
    """Return the same Jacobians as `_differences`, but computed by backward passes."""
    size = given[k].numel()
    found = []
    for y in _outputs(func, given):
        matrix = np.zeros((size, y.numel()), np.float64)
        for i in range(y.numel() if y.requires_grad else 0):
            v = np.zeros(tuple(y.shape), y.dtype.numpy)
            v.reshape(-1)[i] = 1.0
            matrix[:, i] = _backward(y, given[k], v).reshape(-1)
        found.append(matrix)
    return found


def _backward(y: Tensor, x: Tensor, v: Array) -> Array:
    (g,) = grad((y,), (x,), (from_array(v).to(y.device),), retain_graph=True, allow_unused=True)
    return np.zeros(tuple(x.shape)) if g is None else g.detach().to_numpy()


def _check_backward(check: _Check, func: Callable[..., Any], given: Sequence[Any]) -> None:
    generator = np.random.default_rng(0x5EED)
    for k, x in enumerate(given):
        if not _wanted(x):
            continue
        what = "output {} with respect to input " + str(k)
        if check.fast_mode:
            u = generator.standard_normal(tuple(x.shape))
            for j, (y, along) in enumerate(
                zip(_outputs(func, given), _product(check, func, given, k, u))
            ):
                v = generator.standard_normal(tuple(y.shape))
                product = np.sum(_backward(y, x, v) * u) if y.requires_grad else 0.0
                check.require_close(product, np.sum(along * v), what.format(j))
            continue
        numeric, analytic = _differences(check, func, given, k), _rows(func, given, k)
        for j, (expected, found) in enumerate(zip(numeric, analytic)):
            check.require_close(found, expected, what.format(j))
        for j, (first, again) in enumerate(zip(analytic, _rows(func, given, k))):
            if first.size and np.max(np.abs(first - again)) > check.nondet_tol:
                raise GradcheckError(
                    "Backward is not reentrant, i.e., running backward with same input and "
                    "grad_output multiple times "
                    "gives different values, although analytical gradient matches numerical "
                    f"gradient: {what.format(j)}"
                )


def _check_dtypes(func: Callable[..., Any], given: Sequence[Any]) -> None:
    wanted = [x for x in given if _wanted(x)]
    for y in _outputs(func, given):
        if y.requires_grad:
            for x, g in zip(wanted, grad((y,), wanted, (y.detach(),), allow_unused=True)):
                if g is not None and g.dtype is not x.dtype:
                    raise GradcheckError(
                        f"grad is incorrect dtype: {g.dtype} for an input of {x.dtype}"
                    )


def _check_undefined(func: Callable[..., Any], given: Sequence[Any]) -> None:
    """Check that backward treats a missing gradient of an output like a zero gradient."""
    wanted = [x for x in given if _wanted(x)]
    for j, y in enumerate(_outputs(func, given)):
        outputs = _outputs(func, given)
        others = [o for i, o in enumerate(outputs) if i != j and o.requires_grad]
        if not others or not y.requires_grad:
            continue
        ones = [from_array(np.ones(tuple(o.shape), o.dtype.numpy)).to(o.device) for o in others]
        without = grad(others, wanted, ones, retain_graph=True, allow_unused=True)
        y, zero = outputs[j], from_array(np.zeros(tuple(y.shape), y.dtype.numpy)).to(y.device)
        with_zeros = grad([*others, y], wanted, [*ones, zero], allow_unused=True)
        for k, (a, b) in enumerate(zip(without, with_zeros)):
            if not np.allclose(_values(a), _values(b)):
                raise GradcheckError(
                    "Expected backward function to handle undefined output grads. "
                    'Please look at "Notes about '
                    f'undefined output gradients": output {j}, input {k}'
                )


def _values(g: Tensor | None) -> Any:
    return 0.0 if g is None else g.detach().to_numpy()


def _check_forward(check: _Check, func: Callable[..., Any], given: Sequence[Any]) -> None:
    generator = np.random.default_rng(0x5EED)
    for k, x in enumerate(given):
        if not _wanted(x):
            continue
        size = x.numel()
        units = [generator.standard_normal(size)] if check.fast_mode else list(np.eye(size))
        for u in units:
            direction = u.reshape(tuple(x.shape))
            numeric = _product(check, func, given, k, direction)
            for j, (expected, found) in enumerate(
                zip(numeric, _tangents(func, given, k, direction))
            ):
                check.require_close(
                    found, expected, f"output {j} with respect to input {k} in forward mode"
                )


def _tangents(func: Callable[..., Any], given: Sequence[Any], k: int, u: Array) -> list[Array]:
    x = given[k]
    with dual_level():
        tangent = from_array(u.astype(x.dtype.numpy)).to(x.device)
        dual = make_dual(x.detach().requires_grad_(), tangent)
        pairs = [unpack_dual(y) for y in _outputs(func, [*given[:k], dual, *given[k + 1 :]])]
        with no_grad():
            return [
                np.zeros(tuple(y.shape)) if t is None else t.detach().to_numpy() for y, t in pairs
            ]


def _check_batched(check: _Check, func: Callable[..., Any], given: Sequence[Any]) -> None:
    """Compare the gradients of a batch of passes with those of passes through separate graphs."""
    inputs = [x for x in given if _wanted(x)]
    for i, y in enumerate(_outputs(func, given)):
        if not y.requires_grad:
            continue
        vs = [_random_like(y, False).detach() * scale for scale in (1.0, -2.0)]
        batch = grad(y, inputs, stack(vs), True, allow_unused=True, is_grads_batched=True)
        for n, v in enumerate(vs):
            single = grad(_outputs(func, given)[i], inputs, v, allow_unused=True)
            for both, alone in zip(batch, single):
                found = None if both is None else both[n]
                check.require_close(_values(found), _values(alone), f"batched grad of output {i}")


def _check_batched_forward(check: _Check, func: Callable[..., Any], given: Sequence[Any]) -> None:
    """Compare tangents of several directions at one level with those at separate levels."""
    for k, x in enumerate(given):
        if not _wanted(x):
            continue
        us = [_random_like(x, False).to_numpy() * scale for scale in (1.0, -2.0)]
        with dual_level():
            batch = [_tangents(func, given, k, u) for u in us]
        for u, several in zip(us, batch):
            for found, alone in zip(several, _tangents(func, given, k, u)):
                check.require_close(found, alone, f"batched forward grad by input {k}")


fold_public(__name__)
show_public(__name__)
