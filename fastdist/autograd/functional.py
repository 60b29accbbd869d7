"""Derivatives of functions: Jacobians, Hessians, and products with them.

The functions take the arguments of torch.autograd.functional. With `vectorize`, the rows of a
Jacobian are computed in one pass if all Nodes accept batches. The strategy "forward-mode" computes
the columns, one after another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.errors import GraphError
from ..core.folded_frames import folds
from ..core.missing import show_public
from ..core.short_repr import short_repr
from ..graph.modes import enable_grad
from ..graph.transform_inputs import differentiating
from ..ops.create.creation import zeros, zeros_like
from ..ops.create.ranges import eye
from ..ops.shape.basic_index import basic_index
from ..tensor.tensor import Tensor
from .batches_back import backward_batched
from .differentiate import grad
from .forward_ad import dual_level, make_dual, unpack_dual

__all__ = [
    "hessian",
    "hvp",
    "jacobian",
    "jvp",
    "vhp",
    "vjp",
]

Result = Tensor | tuple[Tensor, ...]


@folds
def vjp(
    func: Callable[..., Any],
    inputs: Result,
    v: Result | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Result, Result]:
    """Return func(*inputs) and the product of v with func's Jacobian, from one backward pass.

    Raises  RuntimeError if v has other shapes than the outputs, or if v is missing and an output
            has several elements
    """
    with enable_grad():
        given, single_in = _many(inputs, "inputs")
        xs = _fresh(given, create_graph)
        with differentiating(xs):
            ys, single_out = _many(func(*xs), "outputs", "vjp")
        _require_differentiable(ys, strict)
        vs = _vector(v, ys, "outputs")
        found = _grad(ys, xs, vs, create_graph, strict)
    return _finish(ys, single_out, create_graph), _finish(found, single_in, create_graph)


@folds
def jvp(
    func: Callable[..., Any],
    inputs: Result,
    v: Result | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Result, Result]:
    """Return func(*inputs) and the product of func's Jacobian with v, in forward mode.

    Raises  RuntimeError if v has other shapes than the inputs, or if v is missing and an input has
            several elements
    """
    with enable_grad(), dual_level():
        given, _ = _many(inputs, "inputs")
        xs = _fresh(given, create_graph)
        vs = _vector(v, xs, "inputs")
        duals = tuple([make_dual(x, t) for x, t in zip(xs, vs)])
        ys, single_out = _many(func(*duals), "outputs", "jvp")
        pairs = [unpack_dual(y) for y in ys]
        if strict:
            _require_dependent([primal for primal, _ in pairs], xs)
    for i, (_, tangent) in enumerate(pairs):
        if strict and create_graph and (tangent is None or not tangent.requires_grad):
            raise _constant("jacobian", i)
    tangents = [zeros_like(y) if t is None else t for y, t in pairs]
    primals = [primal for primal, _ in pairs]
    return _finish(primals, single_out, create_graph), _finish(tangents, single_out, create_graph)


@folds
def jacobian(
    func: Callable[..., Any],
    inputs: Result,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """Return the Jacobian: for each output and input a tensor of shape (*output, *input).

    Note    the result is a tuple by outputs of tuples by inputs; for a single output or a single
            input, there is no tuple
    Raises  ValueError for a strategy other than "reverse-mode" and "forward-mode"; RuntimeError for
            both strict and vectorize
    """
    if strategy not in ("reverse-mode", "forward-mode"):
        raise ValueError(
            'Expected strategy to be either "reverse-mode" or "forward-mode". '
            "Hint: If your function has more outputs "
            f'than inputs, "forward-mode" tends to be more performant. Got {short_repr(strategy)}'
        )
    given, single_in = _many(inputs, "inputs")
    if vectorize and strict:
        raise RuntimeError(
            "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not "
            "supported together. Please either set `strict=False` or `vectorize=False`."
        )
    with enable_grad():
        if strategy == "forward-mode":
            found, single_out = _forward_jacobian(func, given, create_graph, strict)
        else:
            found, single_out = _reverse_jacobian(func, given, create_graph, strict, vectorize)
    if not create_graph:
        found = [[block.detach() for block in row] for row in found]
    nested = tuple([row[0] if single_in else tuple(row) for row in found])
    return nested[0] if single_out else nested


@folds
def hessian(
    func: Callable[..., Any],
    inputs: Result,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """Return the second derivatives of a function that returns a single number.

    Raises  RuntimeError for a function that returns anything else
    """
    _, single_in = _many(inputs, "inputs")

    def first(*xs: Tensor) -> Any:
        with differentiating(xs):
            y = _scalar("hessian", func(*xs), strict)
        found = _grad((y,), xs, (None,), True, False)
        if strict:
            _require_varying(found)
        return found[0] if single_in else tuple(found)

    return jacobian(first, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)


@folds
def hvp(
    func: Callable[..., Any],
    inputs: Result,
    v: Result | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Tensor, Result]:
    """Return func(*inputs), a single number, and the product of func's Hessian with v.

    Note    runs one backward pass with dual tensors, and needs no second graph
    """
    given, single_in = _many(inputs, "inputs")
    with enable_grad(), dual_level():
        xs = _fresh(given, create_graph)
        vs = _vector(v, xs, "inputs")
        duals = tuple([make_dual(x, t) for x, t in zip(xs, vs)])
        with differentiating(duals):
            y = _scalar("hvp", func(*duals), strict)
        first = _grad((y,), duals, (None,), create_graph or strict, strict, is_inner=True)
        value = unpack_dual(y).primal
        found = [unpack_dual(g).tangent for g in first]
    for i, g in enumerate(found):
        if strict and create_graph and (g is None or not g.requires_grad):
            raise _constant("hessian", i)
    products = [zeros_like(x) if t is None else t for x, t in zip(xs, found)]
    return _finish((value,), True, create_graph), _finish(products, single_in, create_graph)


@folds
def vhp(
    func: Callable[..., Any],
    inputs: Result,
    v: Result | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Tensor, Result]:
    """Return func(*inputs), which must be a single number, and the product of v with func's
    Hessian, from two backward passes.
    """
    given, single_in = _many(inputs, "inputs")
    with enable_grad():
        xs = _fresh(given, create_graph)
        vs = _vector(v, xs, "inputs")
        with differentiating(xs):
            y = _scalar("vhp", func(*xs), strict)
        first = _grad((y,), xs, (None,), True, strict, is_inner=True)
        found = _grad(first, xs, vs, create_graph, strict, of="hessian")
    return _finish((y,), True, create_graph), _finish(found, single_in, create_graph)


def _reverse_jacobian(
    func: Callable[..., Any],
    given: tuple[Tensor, ...],
    create_graph: bool,
    strict: bool,
    vectorize: bool,
) -> tuple[list[list[Any]], bool]:
    xs = _fresh(given, create_graph)
    with differentiating(xs):
        ys, single = _many(func(*xs), "outputs", "jacobian")
    blocks = []
    for y in ys:
        if vectorize and y.requires_grad and y.numel():
            units: Any = eye(y.numel(), dtype=y.dtype, device=y.device).reshape(-1, *y.shape)
            found = backward_batched([y], xs, [units], create_graph=create_graph, allow=True)
            if found is not None:
                blocks.append([_block(g, (*y.shape, *x.shape), x) for g, x in zip(found, xs)])
                continue
        rows: list[list[Tensor]] = [[] for _ in xs]
        for i in range(y.numel()):
            unit = _unit(y, i)
            found = _grad((y,), xs, (unit,), create_graph, strict, keep=True, first=len(blocks))
            for row, g in zip(rows, found):
                row.append(g)
        blocks.append([_stacked(row, (*y.shape, *x.shape), x) for row, x in zip(rows, xs)])
    return blocks, single


def _forward_jacobian(
    func: Callable[..., Any], given: tuple[Tensor, ...], create_graph: bool, strict: bool
) -> tuple[list[list[Any]], bool]:
    if create_graph:
        raise NotImplementedError(
            'jacobian: `create_graph=True` and `strategy="forward-mode"` are not supported '
            "together (yet)."
        )
    columns: list[list[list[Tensor]]] = []
    single = True
    ys: tuple[Tensor, ...] = ()
    for k, x in enumerate(given):
        columns.append([])
        for i in range(x.numel()):
            vs = tuple([_unit(x, i) if j == k else zeros_like(o) for j, o in enumerate(given)])
            value, tangent = jvp(func, given, vs, strict=strict)
            ys, single = _many(value, "outputs")
            columns[-1].append(list(_many(tangent, "outputs")[0]))
    blocks = []
    for j, y in enumerate(ys):
        row = []
        for k, x in enumerate(given):
            flat = _stacked([c[j] for c in columns[k]], (x.numel(), y.numel()), y)
            row.append(flat.t().reshape(*y.shape, *x.shape))
        blocks.append(row)
    return blocks, single


def _block(rows: Tensor | None, shape: tuple[int, ...], like: Tensor) -> Any:
    return (
        zeros(*shape, dtype=like.dtype, device=like.device) if rows is None else rows.reshape(shape)
    )


def _stacked(rows: Sequence[Tensor], shape: tuple[int, ...], like: Tensor) -> Tensor:
    """Stack rows into one tensor of the given shape; autograd records this."""
    total = zeros(len(rows), rows[0].numel() if rows else 0, dtype=like.dtype, device=like.device)
    if not rows:
        return total.reshape(shape)
    for i, row in enumerate(rows):
        basic_index(total, (i,)).copy_(row.reshape(-1))
    return total.reshape(shape)


def _unit(like: Tensor, i: int) -> Tensor:
    unit = zeros(like.numel(), dtype=like.dtype, device=like.device)
    basic_index(unit, (i,)).fill_(1.0)
    return unit.reshape(like.shape)


def _many(value: Any, what: str, function: str = "") -> tuple[tuple[Tensor, ...], bool]:
    if isinstance(value, Tensor):
        return (value,), True
    if isinstance(value, tuple) and all(isinstance(one, Tensor) for one in value):
        return value, False
    if function:
        subject = f"The {what} of the user-provided function given to {function}"
        given = "given outputs of the user-provided function"
    else:
        subject, given = f"The {what} given to the user-provided function", f"given {what}"
    if isinstance(value, tuple):
        i, value = next((i, one) for i, one in enumerate(value) if not isinstance(one, Tensor))
        given = f"value at index {i}"
    raise TypeError(
        f"{subject} must be either a Tensor or a tuple of Tensors but the {given} has type "
        f"{type(value)}."
    )


def _fresh(given: Sequence[Tensor], create_graph: bool) -> tuple[Tensor, ...]:
    """Return tensors at which a pass can stop. With create_graph, these are views of the tensors
    that require grad; all others are detached tensors.
    """
    if create_graph:
        return tuple(
            [x.view(x.shape) if x._edge is not None else x.detach().requires_grad_() for x in given]
        )
    return tuple([x.detach().requires_grad_() for x in given])


def _vector(v: Result | None, like: Sequence[Tensor], what: str) -> tuple[Tensor, ...]:
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise GraphError(
                "The vector v can only be None if the user-provided function "
                + (
                    "returns a single Tensor with a single element."
                    if what == "outputs"
                    else "has a single element among its inputs."
                )
            )
        return ((like[0] * 0.0 + 1.0).detach(),)
    vs, _ = _many(v, "v")
    if len(vs) != len(like):
        raise GraphError(
            f"v has {len(vs)} tensors, expected {len(like)}, one for each of the {what}"
        )
    for i, (one, of) in enumerate(zip(vs, like)):
        if one.shape != of.shape:
            raise GraphError(
                f"Entry {i} in v has invalid size: should be {tuple(of.shape)} but got "
                f"{tuple(one.shape)}."
            )
    return vs


def _scalar(function: str, value: Any, strict: bool) -> Tensor:
    ys, is_single = _many(value, "outputs", function)
    _require_differentiable(ys, strict)
    if not is_single:
        raise GraphError(f"The function given to {function} should return a single Tensor")
    if ys[0].numel() != 1:
        raise GraphError(
            f"The Tensor returned by the function given to {function} should contain a single "
            "element"
        )
    return ys[0]


def _require_differentiable(ys: Sequence[Tensor], strict: bool) -> None:
    for i, y in enumerate(ys):
        if strict and not y.requires_grad:
            raise _not_differentiable(i)


def _require_dependent(ys: Sequence[Tensor], xs: Sequence[Tensor]) -> None:
    """Raise RuntimeError for an input on which no output depends. A backward pass is needed,
    because tangents do not show such inputs.
    """
    _require_differentiable(ys, True)
    ones = [zeros_like(y) for y in ys]
    for i, g in enumerate(grad(ys, xs, ones, retain_graph=True, allow_unused=True)):
        if g is None:
            raise _independent(None, i)


def _require_varying(first: Sequence[Tensor]) -> None:
    """Raise RuntimeError if a first derivative is constant, so that its row of the Hessian is 0."""
    for i, g in enumerate(first):
        if not g.requires_grad:
            raise GraphError(
                "While computing the hessian, found that the jacobian of the user-provided "
                f"function with respect to input {i} is independent of the input. This is not "
                "allowed in strict mode."
            )


def _grad(
    ys: Sequence[Tensor],
    xs: Sequence[Tensor],
    vs: Sequence[Tensor | None],
    create_graph: bool,
    strict: bool,
    keep: bool | None = None,
    first: int | None = None,
    *,
    is_inner: bool = False,
    of: str = "jacobian",
) -> tuple[Tensor, ...]:
    """Return the products of `vs` with the derivatives of `ys` with respect to `xs`.

    `first` is the index of ys[0] among all outputs; `of` names the derivative. Both are for error
    messages. With is_inner, the products will be differentiated again.
    """
    pairs = [(y, v) for y, v in zip(ys, vs) if y.requires_grad]
    for i, y in enumerate(ys, first or 0):
        if strict and not y.requires_grad:
            raise _not_differentiable(i)
    if not pairs:
        return tuple([zeros_like(x) for x in xs])
    found = grad(
        [y for y, _ in pairs],
        xs,
        [v for _, v in pairs],
        retain_graph=keep or create_graph or None,
        create_graph=create_graph,
        allow_unused=True,
    )
    for i, g in enumerate(found):
        if strict and g is None:
            raise _independent(first, i)
        if strict and not is_inner and create_graph and not g.requires_grad:
            raise _constant(of, i)
    if strict and is_inner:
        _require_varying(found)
    return tuple([zeros_like(x) if g is None else g for g, x in zip(found, xs)])


def _not_differentiable(output: int) -> GraphError:
    return GraphError(
        f"Output {output} of the user-provided function does not require gradients. Strict mode "
        "wants each output computed from the inputs by operations with derivatives"
    )


def _constant(what: str, input: int) -> GraphError:
    return GraphError(
        f"The {what} of the user-provided function is independent of input {input}. This is not "
        "allowed in strict mode when create_graph=True."
    )


def _independent(output: int | None, input: int) -> GraphError:
    subject = "The output" if output is None else f"Output {output}"
    return GraphError(
        f"{subject} of the user-provided function is independent of input {input}. This is not "
        "allowed in strict mode."
    )


def _finish(values: Sequence[Tensor], single: bool, create_graph: bool) -> Any:
    if not create_graph:
        values = [value.detach() for value in values]
    return values[0] if single else tuple(values)


show_public(__name__)
