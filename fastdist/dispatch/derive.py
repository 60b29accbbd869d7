"""The body of a pointwise op, and its derivatives, which are made from the partials.

A partial is the derivative of the op's value by one input, as a scalar body over the inputs, `out`
and the op's numeric arguments. If a partial mentions `g`, it is not a factor of g but the whole
linear map of g, such as `where(input > T(0), g, T(0))`: relu must select, because 0 * inf is NaN.
In place of g, the vjp uses the gradient and the jvp uses the tangent, so vjp and jvp cannot
disagree.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ..core.dtypes import DType, bool_, float64
from ..core.errors import NoDerivativeError
from ..core.generated_code import compile_text
from ..language import scalar
from ..language.scalar import Body, Call, Literal, Name
from ..tensor.constants import NUMBERS, as_operand, constant
from ..tensor.tensor import Tensor, from_array
from .op import OPS, Op

# The partial of a step function. It gives the gradient 0 for any g, even where inf * 0 would be
# NaN. Leaves then get zeros as gradients; with None instead of this partial, they would get None.
ZERO = "where(abs(g) < T(inf), g * T(0), T(0))"
# Derivatives use other ops for these primitives: `floored_divide` is a floor_divide whose gradient
# is 0, and `logistic` is a sigmoid whose derivatives stay exact far from 0.
_DERIVED_AS = {"floor_divide": "floored_divide", "sigmoid": "logistic"}
# This value in place of a partial means that the op has no meaningful derivative by this input. A
# request for that derivative then raises an error instead of returning None.
REFUSED = "refused"


# Note [Tails]
# The derivative of sigmoid is out * (1 - out). Where out rounds to 1 (from x = 37 on in float64),
# this formula gives 0, but the true derivative is exp(-x). For much smaller x, 1 - out already
# loses digits. A partial in `tails` computes the derivative from the inputs instead of `out`. This
# takes one more exponential, and sigmoid must save its input as well as its result. So only float64
# uses `tails`; float32 and shorter dtypes, where out rounds to 1 from x = 17 on, use `partials`.
# For `tails`, an in-place op that is recorded or has tangents keeps a copy of its input, which
# takes 8 bytes per element and the time of a copy. Inputs that only `tails` need may be overwritten
# later; the gradient is then computed by `partials`. If `partials` need the inputs as well,
# recorded derivatives and tangents use `tails` in all real dtypes.


# Note [Complex gradients]
# As in PyTorch, the gradient of a real loss is d/d Re + i d/d Im. So if the derivative of an op is
# p, reverse mode computes the gradient g * conj(p), and forward mode computes the tangent t * p.
# Partials are written once for all dtypes, in the form for tangents: a partial is a linear map
# F(g) = g * p. Because conj(F(conj(g))) = g * conj(p), the map for gradients (the adjoint) is made
# from F, and no partial has to mention conj. This also holds for the op conj, whose F is conj.


Derivatives = tuple[Callable[..., Any] | None, ...]


class Form:
    """The bodies of `op`, a PointwiseOp, over its tensors and the numbers in `number_names`.

    All other numbers have their `defaults`. An op with numbers has two forms. In one form, all
    numbers have their defaults and are constants in the bodies; most calls use this form. The texts
    of the declaration are parsed at first use.
    """

    def __init__(self, op: Any, defaults: Mapping[str, Any]) -> None:
        self.op, self.defaults = op, defaults
        self.number_names = () if defaults else op.attributes
        self.body_names = (*op.tensors, *self.number_names)

    def _read(self, text: str, *more: str) -> Body:
        """Parse a text of the declaration, and return the body. The text may use the names of the
        op's tensors and numbers, and the names in `more`.

        Raises  ScalarSyntaxError, which names the word and its column
        """
        body = scalar.parse(text, (*self.op.tensors, *self.op.attributes, *more))
        return with_defaults(body, self.defaults) if self.defaults else body

    @cached_property
    def body(self) -> Body:
        """The body over the op's tensors and numbers."""
        return self._read(self.op.text)

    @cached_property
    def run_body(self) -> Body:
        """The body with only the inputs that it uses, in the form that a kernel takes."""
        return self.body.in_used_order()

    @cached_property
    def gradient_bodies(self) -> tuple[Body | None, ...]:
        """For each input, the gradient as a body over the op's names, `out` and `g`; None for an
        input without a gradient.
        """
        texts = [None if one == REFUSED else one for one in self.op.partials]
        return tuple([t if t is None else gradient_of(self._read(t, "out", "g")) for t in texts])

    @cached_property
    def tail_bodies(self) -> tuple[Body, ...]:
        """For each input, the gradient by `tails`; an empty tuple if the op has no `tails`."""
        return tuple([gradient_of(self._read(text, "out", "g")) for text in self.op.tails])

    @cached_property
    def adjoint_bodies(self) -> tuple[Body | None, ...]:
        """The gradient bodies for complex dtypes: see Note [Complex gradients]."""
        return tuple([None if b is None else adjoint_of(b) for b in self.gradient_bodies])

    @cached_property
    def spare_names(self) -> frozenset[str]:
        """The names that only the gradients by `tails` need."""
        asked = {name for body in self.gradient_bodies if body is not None for name in body.used}
        return frozenset().union(*(body.used for body in self.tail_bodies)) - asked

    def keeps_tails(self, dtype: DType) -> bool:
        """Return whether gradients are computed by `tails` if the op's result has this dtype."""
        return dtype is float64 and bool(self.op.tails)

    def derivatives_need_first(self, *, keeps_spare: bool) -> bool:
        """Return whether derivatives need the first operand, whose old value an in-place op
        overwrites. keeps_spare says whether the derivatives by `tails` are used.
        """
        first = self.op.tensors[0]
        asked = any(body is not None and first in body.used for body in self.gradient_bodies)
        return asked or (keeps_spare and first in self.spare_names)

    def gradient_makers(self, dtype: DType) -> Derivatives:
        """Return, for each input, a function that returns its gradient; None for an input without a
        gradient. The function takes the inputs, all numeric arguments of the op, `out` and `g`.
        `dtype` is the dtype of the op's result.
        """
        return self.adjoints if dtype.is_complex else self.tangent_makers(dtype)

    def tangent_makers(self, dtype: DType) -> Derivatives:
        """Return functions as `gradient_makers` does, for forward mode, where g is a tangent."""
        with_tails = not dtype.is_complex if not self.spare_names else dtype is float64
        return self.derivatives_with_tails if self.op.tails and with_tails else self.derivatives

    @cached_property
    def derivatives(self) -> Derivatives:
        """The derivatives by `partials`."""
        return self._expressions(self.gradient_bodies)

    @cached_property
    def adjoints(self) -> Derivatives:
        """The derivatives for complex dtypes in reverse mode, where g is a gradient."""
        return self._expressions(self.adjoint_bodies)

    @cached_property
    def derivatives_with_tails(self) -> Derivatives:
        """The derivatives by `tails`. If an input that only `tails` need is None at a call, the
        function computes by `partials`.
        """
        spare, made = self.spare_names, self._expressions(self.tail_bodies)
        if not spare:
            return made
        return with_spare(made, self.derivatives, tuple([n in spare for n in self._given]))

    @cached_property
    def _given(self) -> tuple[str, ...]:
        return (*self.op.tensors, *self.op.attributes, "out", "g")

    def _expressions(self, bodies: Sequence[Body | None]) -> Derivatives:
        pairs = zip(self.refusing, bodies, strict=True)
        made: list[Callable[..., Any] | None] = [
            r or (None if b is None else tensor_expression(Body.of(b.tree, self._given)))
            for r, b in pairs
        ]
        if self.op.derives is not None and bodies[0] is not None:
            made[0] = self.op.derives(made[0])
        return tuple(made)

    @cached_property
    def refusing(self) -> Derivatives:
        """For each input, a function that raises NoDerivativeError; None where gradients are
        allowed.
        """
        name, pairs = self.op.name, zip(self.op.tensors, self.op.partials, strict=True)
        by = [one if partial == REFUSED else None for one, partial in pairs]
        if None not in by:
            return tuple([refusing(name, "") for _ in by])
        return tuple([None if one is None else refusing(name, one) for one in by])


def gradient_of(body: Body) -> Body:
    """Return the body of `g * body`, or `body` unchanged if it mentions g. g is the last name."""
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
    """Return the body of the adjoint of the map g -> body(g), which is conj(body(conj(g))). See
    Note [Complex gradients].
    """
    if body.text == "g":
        return body
    conjugated = scalar.substitute(body.tree, {"g": Call("conj", (Name("g"),))})
    return Body.of(Call("conj", (conjugated,)), body.names)


def with_defaults(body: Body, defaults: Mapping[str, Any]) -> Body:
    """Return `body` with the numeric arguments in `defaults` replaced by these values, and `1 * x`
    by `x`.
    """
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
    """Return a function whose parameters are the body's names. It computes the body with ops on
    Tensors, and the calls of these ops are recorded.

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
    # The source has `inf` and `nan` where `repr` writes these numbers; they are not names of ops.
    names: dict[str, Any] = {"_call": _call, "inf": math.inf, "nan": math.nan}
    exec(compile_text(f"derivative {body.text}", source), names)
    expression: Callable[..., Any] = names["expression"]
    return expression


def with_spare(
    made: Sequence[Callable[..., Any] | None],
    others: Sequence[Callable[..., Any] | None],
    is_spare: tuple[bool, ...],
) -> tuple[Callable[..., Any] | None, ...]:
    """Return functions that call those of `made`, or of `others` if a spare argument is None."""

    def choosing(one: Any, other: Any) -> Any:
        def choose(*given: Any) -> Any:
            is_missing = any(x is None for x, spare in zip(given, is_spare, strict=True) if spare)
            return (other if is_missing else one)(*given)

        return choose

    return tuple([one and choosing(one, other) for one, other in zip(made, others, strict=True)])


def _call(primitive: str, *args: Any) -> Any:
    """Call the op of a primitive; if all arguments are numbers, return a number."""
    if any(isinstance(arg, Tensor) for arg in args):
        op = OPS[_DERIVED_AS.get(primitive, primitive)]
        pointwise: Any = op if op.kind == "pointwise" else None
        if pointwise is not None and pointwise.dtype_rule == "number":
            args = _without_bool(args)
        if len(op.tensors) == 2 and args[0].__class__ in NUMBERS:
            # The number is converted, because the first operand of a short path must be a tensor.
            exact = pointwise is not None and op.tensors[0] in pointwise.exact
            args = (constant(args[0], args[1], exact), args[1])
        if pointwise is not None and pointwise.tensors_only:
            only, given = pointwise.tensors_only, zip(op.tensors, args, strict=True)
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
    """Return a function that raises the error for the derivative of the op `name` by one of its
    inputs, `by`, or by any input if `by` is empty.

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
    """Return `args`, converted to int where `op` takes integers. The conversion is needed because a
    Node stores numbers in the dtype of the tensors.
    """
    given = zip(op.parameters.values(), args, strict=False)  # args may lack the last parameters
    return tuple([int(arg) if one.annotation == "int" else arg for one, arg in given])


def _as_tensor(arg: Any, beside: tuple[Any, ...]) -> Any:
    """Return a number as a tensor with the dtype of the first tensor in `beside`."""
    if isinstance(arg, Tensor):
        return arg
    like = next(one for one in beside if isinstance(one, Tensor))
    return from_array(as_operand(arg, like._layout.dtype))


def _without_bool(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return `args` with bool tensors cast to the dtype of the first floating-point argument, if
    there is one.

    A loss accepts a bool target, but the subtraction in its derivative does not.
    """
    dtypes = [arg._layout.dtype if isinstance(arg, Tensor) else None for arg in args]
    floating = next((dtype for dtype in dtypes if dtype and dtype.is_floating_point), None)
    if bool_ not in dtypes or floating is None:
        return args
    cast, pairs = OPS["cast"].public, zip(args, dtypes, strict=True)
    return tuple([cast(arg, floating) if dtype is bool_ else arg for arg, dtype in pairs])
