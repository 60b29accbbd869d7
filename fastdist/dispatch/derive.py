"""From partials to derivatives: one text becomes the vjp on arrays, on Tensors, and the jvp.

A partial is the derivative of the op's value by one input, as a scalar body over the inputs, `out`
and the op's numbers. It may instead mention `g`; then it is the whole linear map, such as
`where(input > T(0), g, T(0))`: relu must select, because 0 * inf is NaN. The vjp puts the gradient
in the place of g, the jvp the tangent, so the two cannot disagree.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.dtypes import bool_
from ..core.errors import NoDerivativeError
from ..core.generated_code import compile_text
from ..language import scalar
from ..language.scalar import Body, Call, Literal, Name
from ..tensor.constants import NUMBERS, as_operand, constant
from ..tensor.tensor import Tensor, from_array
from .op import OPS, Op

# The partial of a step function: no gradient, whatever g is (inf * 0 would be NaN), but one that
# reaches the leaves.
ZERO = "where(abs(g) < T(inf), g * T(0), T(0))"
# The ops of primitives in derivatives: of the function whose steps have a gradient of 0, and of the
# sigmoid whose own derivatives keep their tails.
_DERIVED_AS = {"floor_divide": "floored_divide", "sigmoid": "logistic"}
# Instead of a partial: the function has no derivative by this input, or none with a meaning, and a
# request for it raises an error instead of returning nothing.
REFUSED = "refused"


# Note [Complex gradients]
# A gradient is, as in PyTorch, d/d Re + i d/d Im of a real loss, so an op whose derivative is p
# hands back g * conj(p), while its tangent is t * p. Partials are written for the tangent, once for
# all dtypes. Each is a map g -> F(g) = g * p, whatever its text does with g, and
# conj(F(conj(g))) = g * conj(p): so the adjoint is made of any text, and none says conj. It is also
# right for conj itself, whose F is conj.


def gradient_of(body: Body) -> Body:
    """Return the body of `g * partial` for a partial over names that end in g, or the partial
    itself if it mentions g.
    """
    names = body.names
    if "g" in body.used:
        return body
    tree, g = body.tree, Name("g")
    if isinstance(tree, Call) and tree.primitive == "reciprocal":
        return Body.of(Call("div", (g, tree.args[0])), names)
    if isinstance(tree, Call) and tree.primitive == "neg":
        return Body.of(Call("neg", (Call("mul", (g, tree.args[0])),)), names)
    return Body.of(_simplified(Call("mul", (g, tree))), names)


def adjoint_of(body: Body) -> Body:
    """Return the body of the adjoint of g -> body, which is linear over complex numbers:
    conj(body(conj(g))). See Note [Complex gradients].
    """
    if body.text == "g":
        return body
    conjugated = scalar.substitute(body.tree, {"g": Call("conj", (Name("g"),))})
    return Body.of(Call("conj", (conjugated,)), body.names)


def with_defaults(body: Body, defaults: dict[str, Any]) -> Body:
    """Return body with an op's numbers at their defaults, `1 * x` written as `x`."""
    tree = scalar.substitute(body.tree, {name: Literal(value) for name, value in defaults.items()})
    names = tuple(name for name in body.names if name not in defaults)
    return Body.of(_simplified(tree), names)


def _simplified(tree: scalar.Node) -> scalar.Node:
    if not isinstance(tree, Call):
        return tree
    args = tuple([_simplified(arg) for arg in tree.args])
    if tree.primitive == "mul":
        for one, other in (args, args[::-1]):
            if isinstance(one, Literal) and one.value == 1:
                return other
            if isinstance(one, Literal) and one.value == -1:
                return Call("neg", (other,))
    if tree.primitive == "neg" and isinstance(args[0], Literal):
        return Literal(-args[0].value)
    return Call(tree.primitive, args)


def tensor_expression(body: Body) -> Callable[..., Any]:
    """Return a function of the body's names that computes it with ops on Tensors, recorded like any
    other.

    Note    each primitive is looked up in the op table when the function runs
    """
    lines: list[str] = []

    def emit(node: scalar.Node, args: list[str]) -> str:
        if isinstance(node, Name):
            return node.id
        if isinstance(node, Literal):
            return repr(node.value)
        assert isinstance(node, Call)
        lines.append(f"    t{len(lines)} = _call({node.primitive!r}, {', '.join(args)})")
        return f"t{len(lines) - 1}"

    result = scalar.render(body.tree, emit)
    source = "\n".join(
        [f"def expression({', '.join(body.names)}):", *lines, f"    return {result}"]
    )
    # inf and nan are Python's texts of these numbers, not names of ops.
    names: dict[str, Any] = {"_call": _call, "inf": math.inf, "nan": math.nan}
    exec(compile_text(f"derivative {body.text}", source), names)
    expression: Callable[..., Any] = names["expression"]
    return expression


def with_spare(
    made: Sequence[Callable[..., Any] | None],
    others: Sequence[Callable[..., Any] | None],
    is_spare: tuple[bool, ...],
) -> tuple[Callable[..., Any] | None, ...]:
    """Return functions that behave as `made`, or as `others` where a spare argument is None."""

    def choosing(one: Any, other: Any) -> Any:
        def choose(*given: Any) -> Any:
            is_missing = any(x is None for x, spare in zip(given, is_spare, strict=True) if spare)
            return (other if is_missing else one)(*given)

        return choose

    return tuple([one and choosing(one, other) for one, other in zip(made, others, strict=True)])


def _call(primitive: str, *args: Any) -> Any:
    """Call the op of a primitive; for numbers alone, such as an op's own, return its value."""
    if any(isinstance(arg, Tensor) for arg in args):
        op = OPS[_DERIVED_AS.get(primitive, primitive)]
        if getattr(op, "dtype", None) == "number":
            args = _without_bool(args)
        if len(op.tensors) == 2 and args[0].__class__ in NUMBERS:
            # As a tensor, since the short path of an op begins with one.
            exact = op.tensors[0] in getattr(op, "exact_names", ())
            args = (constant(args[0], args[1], exact), args[1])
        only = getattr(op, "tensors_only", ())
        if only:
            given = zip(op.tensors, args, strict=True)
            args = tuple([_as_tensor(arg, args) if name in only else arg for name, arg in given])
        return op.public(*(_with_integers(op, args) if op.attributes else args))
    return _of_numbers(primitive, len(args))(*[np.asarray(arg, np.float64) for arg in args]).item()


@functools.cache
def _of_numbers(primitive: str, count: int) -> Callable[..., Any]:
    from ..kernels.cpu.pointwise.pointwise import kernel_for

    names = [f"x{i}" for i in range(count)]
    body = scalar.parse(f"{primitive}({', '.join(names)})", names)
    return kernel_for(body).small  # type: ignore[no-any-return]


def refusing(name: str, by: str) -> Callable[..., Any]:
    """Return a function that raises the error for the derivative of op name `by` one of its inputs,
    or by any where `by` is empty.

    Raises  NoDerivativeError when it is called
    """
    what = f"the derivative for '{name}: {by}'" if by else f"derivative for aten::{name}"

    def refuse(*given: Any) -> Any:
        which = f"from {by}" if by else "from its inputs"
        raise NoDerivativeError(
            f"{what} is not implemented: cut it off {which} with detach(), which gives the same "
            "result without a gradient"
        )

    return refuse


def _with_integers(op: Op, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return args with integers where op takes them: a Node keeps them in the dtype of tensors."""
    given = zip(op.parameters.values(), args, strict=False)  # the last ones have defaults
    return tuple([int(arg) if one.annotation == "int" else arg for one, arg in given])


def _as_tensor(arg: Any, beside: tuple[Any, ...]) -> Any:
    """Return a number as a tensor of the dtype of the tensors next to it."""
    if isinstance(arg, Tensor):
        return arg
    like = next(one for one in beside if isinstance(one, Tensor))
    dtype = like._layout.dtype
    is_made = arg.__class__ in NUMBERS and not dtype.is_half
    made = constant(arg, like) if is_made else arg
    return made if isinstance(made, Tensor) else from_array(as_operand(arg, dtype))


def _without_bool(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return args with bool tensors in the dtype of a floating one.

    A loss takes a target of bool, the difference in its derivative does not.
    """
    dtypes = [arg._layout.dtype if isinstance(arg, Tensor) else None for arg in args]
    floating = next((dtype for dtype in dtypes if dtype and dtype.is_floating_point), None)
    if bool_ not in dtypes or floating is None:
        return args
    cast, pairs = OPS["cast"].public, zip(args, dtypes, strict=True)
    return tuple([cast(arg, floating) if dtype is bool_ else arg for arg, dtype in pairs])
