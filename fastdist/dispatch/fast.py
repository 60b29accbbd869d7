"""The shortest way through an op: one closure per op for plain tensors.

Each closure is the general path's five steps written out for the case in which nothing needs a
look: operands are plain Tensors (or Python numbers), no tracer or forward level is open, layouts
are one object (or a pair met before) and plain. Whatever else comes up goes to `general`. Splitting
these functions into helpers costs 20 % of a call, so they stay whole.

NumPy reports floating-point events (overflow, 0/0) as warnings, PyTorch does not: the closures call
ufuncs and therefore are `silent` (fastdist/kernels/cpu/silence.py), which costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from numpy import empty

from ..graph.modes import modes, tls
from ..graph.node import next_sequence_number as next_seq
from ..kernels.cpu.pointwise import PointwiseKernel
from ..kernels.cpu.silence import silent
from ..tensor.tensor import Tensor, empty_shell
from .constants import NUMBERS, constant
from .fast_nary import nary
from .op import PLAIN, Op

if TYPE_CHECKING:
    from .pointwise import PointwiseOp


def concerns_nobody(input: Tensor, other: Tensor) -> bool:
    """Return whether what makes modes special, an open forward level, is nothing to these two."""
    return not modes.tracers and input.extra is None and other.extra is None


def binary(op: PointwiseOp, loop: PointwiseKernel) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return op as a function of two operands, and the same with the operands swapped (for
    `__radd__` and kin).
    """
    slow = nary(op)
    small, large, limit = loop.small, loop.run_large, loop.limit
    Tiny: Any = None
    Plain: Any = None
    Spread: Any = None
    numbers = _numbers_beside(op)
    if not op.differentiable:
        return _comparison(op, small)

    def fast(input, other):  # type: ignore[no-untyped-def]
        nonlocal Tiny, Plain, Spread
        if other.__class__ in numbers and input.__class__ in PLAIN:
            other = constant(other, input)
        if (
            input.__class__ in PLAIN
            and other.__class__ in PLAIN
            and (not modes.special or concerns_nobody(input, other))
        ):
            layout: Any = input.facts
            a_layout = layout
            b_layout = other.facts
            if a_layout is not b_layout:
                layout = a_layout.plans.get(b_layout)
            if layout is not None and layout.plain:
                out = empty_shell()
                if layout.tiny or layout.numel <= limit:
                    out.array = small(input.array, other.array)
                else:
                    out.array = array = empty(layout.shape, layout.dtype.numpy)
                    large((input.array, other.array), array)
                out.facts = layout
                out.extra = out._storage = None
                a = input.edge
                b = other.edge
                if (a is None and b is None) or (modes.grad_off and not tls.grad):
                    out.edge = None
                    return out
                if Tiny is None:
                    Tiny, _, Plain, Spread = op.nodes
                if a_layout is b_layout or (
                    (a is None or a_layout is layout) and (b is None or b_layout is layout)
                ):
                    node = Tiny() if layout.tiny else Plain()
                else:
                    # The gradient of an operand that was broadcast must be summed.
                    node = Spread()
                out.edge = node
                node.seq = next_seq()
                node.edges = (a, b)
                node.hooks = None
                node.facts = layout
                node.save(input, other, out)
                return out
        return slow(input, other)

    return _with_swapped(silent(fast))


def _numbers_beside(op: PointwiseOp) -> frozenset[type]:
    """Return which classes of numbers may stand beside op's first operand."""
    return frozenset() if op.tensors[1] in op.tensors_only else NUMBERS


def _with_swapped(fast: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def reverse(input, other):  # type: ignore[no-untyped-def]
        if other.__class__ in NUMBERS:
            other = constant(other, input)
        return fast(other, input)

    return fast, reverse


def _comparison(
    op: PointwiseOp, kernel: Callable[..., Any]
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    slow = nary(op)
    gives_bool = op.dtype == "bool"
    numbers = _numbers_beside(op)

    def fast(input, other):  # type: ignore[no-untyped-def]
        if other.__class__ in numbers and input.__class__ in PLAIN:
            other = constant(other, input)
        if (
            input.__class__ in PLAIN
            and other.__class__ in PLAIN
            and (not modes.special or concerns_nobody(input, other))
        ):
            layout = input.facts
            if layout is other.facts and layout.tiny and gives_bool:
                plan = layout.plans.get(gives_bool)
                if plan is None:
                    from ..core.dtypes import bool_

                    plan = layout.plans.remember(gives_bool, layout.with_dtype(bool_))
                out = empty_shell()
                out.array = kernel(input.array, other.array)
                out.facts = plan
                out.edge = out.extra = out._storage = None
                return out
        return slow(input, other)

    return _with_swapped(silent(fast))


def unary(op: PointwiseOp, loop: PointwiseKernel) -> Callable[..., Any]:
    """Return op as a function of one operand."""
    slow = nary(op)
    differentiable = op.differentiable
    small, large, limit = loop.small, loop.run_large, loop.limit
    Tiny: Any = None
    Plain: Any = None
    if op.dtype == "bool":
        return _test(op, small)

    def fast(input):  # type: ignore[no-untyped-def]
        nonlocal Tiny, Plain
        if input.__class__ in PLAIN and (not modes.special or concerns_nobody(input, input)):
            layout = input.facts
            if layout.plain:
                out = empty_shell()
                if layout.tiny or layout.numel <= limit:
                    out.array = small(input.array)
                else:
                    out.array = array = empty(layout.shape, layout.dtype.numpy)
                    large((input.array,), array)
                out.facts = layout
                out.extra = out._storage = None
                edge = input.edge
                if edge is None or not differentiable or (modes.grad_off and not tls.grad):
                    out.edge = None
                    return out
                if Tiny is None:
                    Tiny, _, Plain, _ = op.nodes
                out.edge = node = Tiny() if layout.tiny else Plain()
                node.seq = next_seq()
                node.edges = (edge,)
                node.hooks = None
                node.facts = layout
                node.save(input, out)
                return out
        return slow(input)

    made: Callable[..., Any] = silent(fast)
    return made


def _test(op: PointwiseOp, kernel: Callable[..., Any]) -> Callable[..., Any]:
    slow = nary(op)

    def fast(input):  # type: ignore[no-untyped-def]
        if input.__class__ in PLAIN and (not modes.special or concerns_nobody(input, input)):
            layout = input.facts
            if layout.tiny:
                plan = layout.plans.get(True)
                if plan is None:
                    from ..core.dtypes import bool_

                    plan = layout.plans.remember(True, layout.with_dtype(bool_))
                out = empty_shell()
                out.array = kernel(input.array)
                out.facts = plan
                out.edge = out.extra = out._storage = None
                return out
        return slow(input)

    made: Callable[..., Any] = silent(fast)
    return made


def public_of(op: Op, make_fast: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
    """Return the function that users call: the fast closure, unless out= or an attribute is given.

    Note    the closure is made at the first call, and its kernel with it: most programs need few
    """
    from .op import define, finish

    def first_call(*operands: Any) -> Any:
        names["_fast"] = fast = make_fast()
        return fast(*operands)

    def first_other_call(*operands: Any) -> Any:
        numbered: Any = op
        names["_nary"] = made = nary(numbered)
        return made(*operands)

    tensors = ", ".join(op.tensors)
    attributes = [p for p in op.parameters if p.name in op.attributes] if op.attributes else []
    names: dict[str, Any] = {"_fast": first_call, "_general": op.general}
    names["_nary"] = first_other_call
    names |= {"_finish": finish, "_op": op}
    for parameter in attributes:
        names[f"_default_{parameter.name}"] = parameter.default
    extra = "".join(f", {p.name}=_default_{p.name}" for p in attributes)
    plain = " and ".join(["out is None", *(f"{p.name} is _default_{p.name}" for p in attributes)])
    values = "".join(f"{p.name}, " for p in attributes)
    others = f"    elif out is None: result = _nary({tensors}, {values})\n" if attributes else ""
    source = (
        f"def public({tensors}, *{extra}, out=None):\n"
        f"    if {plain}: result = _fast({tensors})\n"
        f"{others}    else: result = _general(({tensors},), ({values}), out)\n"
        "    return result if result is not NotImplemented else _finish(_op, result, "
        f"({tensors},))\n"
    )
    return define(op, source, names)
