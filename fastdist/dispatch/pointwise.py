"""Pointwise ops: one scalar body, read by every backend and by autograd."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np

from ..core import scalar
from ..core.device import CPU
from ..core.dtypes import DType, bool_, float16, float32, int64
from ..core.errors import DeclarationError, DTypeError, NoKernelError, ShapeError
from ..core.scalar import Body
from ..devices.backend import backend_of
from ..graph.accumulate_grad import extra_of
from ..graph.modes import modes, tls
from ..graph.recording import begin_node
from ..graph.saved_tensors import pack_saved
from ..kernels.cpu.pointwise import PointwiseKernel, kernel_for
from ..tensor.layout import Layout, Shape
from ..tensor.tensor import Tensor, from_users_array, layout_of, wrap
from .autocast import cast_operands
from .broadcast import broadcast_shapes
from .constants import as_operand, held, is_rounded_by_half
from .declaration import require_word
from .derive import ZERO, gradient_of, tensor_expression, with_defaults
from .fast_nary import remember_way
from .gradients import CONDITIONS, as_array, in_used_order
from .kinds import ArgumentError
from .op import OPS, Op, common_device, register
from .output import write_out
from .promotion import dtype_of_number, get_default_dtype, result_dtype
from .sparse_rules import meet_sparse
from .tangents import carry_pointwise, levels_of
from .timing import timed, to_be_timed

# Numbers of these names scale an operand: they say nothing about the result's dtype.
FACTORS = frozenset({"alpha", "value"})
# Note [Numbers beside float16]
# Bodies of float16 are computed in float32, and the numbers in them are float32 too, as in PyTorch:
# a loss may be scaled by 65536, which float16 does not hold. Only what is compared with elements or
# stands among them is rounded to float16 first. These are the ops that take a number in place of a
# tensor as it is; the others round it.
_SCALING = frozenset({"mul", "div", "floor_divide", "trunc_divide"})
# What PyTorch computes of two of Python's numbers alone, too.
_OF_NUMBERS = frozenset({"add", "sub", "mul", "div", "floor_divide"})
_KEEPING = _SCALING | {"lerp", "pow", "xlogy"}
_BOUNDS = frozenset({"lower", "upper"})


# What the dtype of a result follows from.
DTYPE_RULES: Final = {
    "same": "operands meet, the result keeps it",
    "number": "as same, but not for bool",
    "floating": "integers and bool go to the default dtype",
    "bool": "operands meet, the result is bool",
    "integral": "as same, but not for floating",
    "whole": "as integral, but not for bool",
    "first": "the first operand's, whatever the others are",
    "counted": "as same, but bool goes to int64",
}


# Where a number may stand in the place of a tensor.
NUMBER_RULES: Final = {
    "anywhere": "in the place of any operand",
    "not first": "in the place of the second, as in lt(x, 2)",
    "last": "in the place of the last, as in lerp(x, y, 0.5)",
    "nowhere": "in none, as in atan2(x, y)",
}


class PointwiseOp(Op):
    """An op that is one scalar body; `dtype` is a word of DTYPE_RULES.

    Its texts are read when they are first needed: a program needs few of them.
    """

    kind = "pointwise"

    def __init__(
        self,
        function: Callable[..., Any],
        body: str,
        partials: Sequence[str | None],
        dtype: str,
        node_name: str = "",
        numbers: str = "anywhere",
    ) -> None:
        super().__init__(function)
        require_word(f"{self.name}: numbers=", numbers, NUMBER_RULES)
        count = len(self.tensors)
        leading = {"anywhere": 0, "not first": 1, "last": count - 1, "nowhere": count}[numbers]
        # The operands in whose place no number may stand: no fast way makes a tensor of one there.
        self.tensors_only = frozenset(self.tensors[:leading])
        self.node_name = node_name or self.node_name
        self.number_names = self.attributes
        # See Note [Numbers beside float16].
        kept = self.tensors if self.name in _KEEPING else ()
        self.exact_names = frozenset({*self.number_names, *kept}) - _BOUNDS
        if self.name in ("floor_divide", "trunc_divide"):
            self.exact_names -= {"input"}  # a dividend is rounded
        self.body_names = (*self.tensors, *self.number_names)
        self._text, self._text_names = body, self.body_names
        self._defaults: dict[str, Any] = {}
        require_word(f"{self.name}: dtype=", dtype, DTYPE_RULES)
        self.dtype = dtype
        self.keeps_dtype = len(self.tensors) == 1 and dtype in ("same", "number", "integral")
        self.partials = tuple(partials) if partials else (None,) * len(self.tensors)
        if len(self.partials) != len(self.tensors):
            raise DeclarationError(
                f"{self.name}: {len(self.partials)} partials were given for the tensors "
                f"{', '.join(self.tensors)}; expected one for each, None where there is no gradient"
            )
        self.differentiable = any(p is not None for p in self.partials)
        self.is_quick = False
        # A list, which the op with its numbers at their defaults shares.
        self._refusals: list[Callable[[Sequence[DType]], str | None]] = []
        self._vjps: tuple[Any, ...] | None = None
        self._nodes: tuple[Any, ...] | None = None
        self.plain: PointwiseOp | None = self._with_defaults()

    def _with_defaults(self) -> PointwiseOp | None:
        """Return this op with its numbers at their defaults, which is what the fast closure runs.

        None where a number has no default: the op then always goes the general way.
        """
        if not self.attributes:
            return self
        defaults = {p.name: p.default for p in self.parameters if p.name in self.attributes}
        if not all(isinstance(value, int | float) for value in defaults.values()):
            return None
        plain = copy.copy(self)
        plain.attributes = plain.number_names = ()
        plain.body_names = self.tensors
        plain._defaults = defaults
        plain.plain = plain
        return plain

    def mentions(self, names: Iterable[str]) -> bool:
        """Say whether the text of the body speaks of all these names, without reading it."""
        return set(names) <= set(re.findall(r"\w+", self._text))

    def _read(self, text: str, *more: str) -> Body:
        """Return the body that a text of the declaration says over the op's names and more.

        Raises  ScalarSyntaxError naming the word and its column
        """
        body = scalar.parse(text, (*self._text_names, *more))
        return with_defaults(body, self._defaults) if self._defaults else body

    @cached_property
    def body(self) -> Body:
        """What the op computes, over its tensors and numbers."""
        return self._read(self._text)

    @cached_property
    def run_body(self) -> Body:
        """The body over what it uses, which is what a kernel is given."""
        return in_used_order(self.body)

    @cached_property
    def gradient_bodies(self) -> tuple[Body | None, ...]:
        """Per input, the gradient in terms of the op's names, out and g; None where it has none."""
        read = [None if p is None else self._read(p, "out", "g") for p in self.partials]
        return tuple([None if body is None else gradient_of(body) for body in read])

    @cached_property
    def gradient_needs_first(self) -> bool:
        """Whether a gradient asks for the first operand, whose old value an in-place op writes
        over.
        """
        return any(b is not None and self.tensors[0] in b.used for b in self.gradient_bodies)

    @property
    def vjps(self) -> tuple[Any, ...]:
        """One function of (inputs and numbers, out, g) per input; with a tangent as g they are the
        jvp.
        """
        if self._vjps is None:
            self._vjps = tuple(
                None if b is None else tensor_expression(b) for b in self.gradient_bodies
            )
        return self._vjps

    @property
    def nodes(self) -> tuple[Any, ...]:
        """The tiny, the general, the plain and the spread Node class."""
        if self._nodes is None:
            from .node_code import node_classes

            self._nodes = node_classes(self)
        return self._nodes

    def gradient_kernel(self, i: int) -> PointwiseKernel:
        """Return the CPU kernel of the gradient by input i, over the names its body uses."""
        body = self.gradient_bodies[i]
        assert body is not None
        return kernel_for(in_used_order(body))

    def refusal(self, tell: Callable[[Sequence[DType]], str | None]) -> Any:
        """Register what PyTorch has no meaning for: of the operands' dtypes, the text that says so,
        or None.
        """
        self._refusals.append(tell)
        return tell

    def compute_dtype(self, operands: Sequence[Any], numbers: Sequence[Any] = ()) -> DType:
        """Return the dtype in which the body is computed.

        Raises  RuntimeError for dtypes that the op has no meaning for, and fractions that scale
                integers
        """
        if not numbers:
            return self._meeting(operands)
        named = list(zip(self.number_names, numbers, strict=True))
        found = self._meeting([*operands, *[n for name, n in named if name not in FACTORS]])
        for name, number in named if self.dtype != "first" else ():
            is_flag = isinstance(number, bool) and self.name in ("add", "sub", "rsub")
            if is_flag and found is not bool_:
                raise DTypeError(
                    f"Boolean alpha only supported for Boolean results.: {self.name} got "
                    f"alpha={number!r} for {found.name}"
                )
            if dtype_of_number(number).is_floating_point and not found.is_floating_point:
                raise DTypeError(
                    f"For integral input tensors, argument {name} must not be a floating point "
                    f"number: {self.name} got {name}={number!r} for {found.name}"
                )
        return found

    def _meeting(self, operands: Sequence[Any]) -> DType:
        if (len(operands) == 1 or self.dtype == "first") and isinstance(operands[0], Tensor):
            found = operands[0].facts.dtype
        else:
            found = result_dtype(operands)
        if self._refusals:
            # Numbers that say how to compute do not lift what they are computed of.
            self._refuse(operands[: len(self.tensors)])
        if self.dtype == "floating" and not found.is_floating_point:
            return get_default_dtype()
        if self.dtype in ("number", "whole"):
            refuse_bool(self.name, found, operands)
        if self.dtype == "counted" and found is bool_:
            return int64
        if self.dtype in ("integral", "whole") and found.is_floating_point:
            raise NoKernelError(f"{self.name}: expected integer or bool tensors, got {found.name}")
        return found

    def _refuse(self, operands: Sequence[Any]) -> None:
        dtypes = [o.facts.dtype if isinstance(o, Tensor) else dtype_of_number(o) for o in operands]
        for tell in self._refusals:
            text = tell(dtypes)
            if text is not None:
                refusal = NoKernelError if "not implemented for" in text else DTypeError
                raise refusal(f"{text} Got {', '.join(dtype.name for dtype in dtypes)}")

    def require_tensors(self, called: str, operands: Sequence[Any]) -> None:
        """Raise TypeError for a number where only a tensor may stand; called is what users called.

        Note    asked in the general way alone, to which the fast ones leave such numbers
        """
        for i, (name, operand) in enumerate(zip(self.tensors, operands, strict=True)):
            if name in self.tensors_only and not isinstance(operand, Tensor):
                kinds = ", ".join([type(one).__name__ for one in operands])
                if len(self.tensors_only) < len(self.tensors):
                    fault = f" received an invalid combination of arguments - got ({kinds})"
                else:
                    given = type(operand).__name__
                    fault = f": argument {name!r} (position {i + 1}) must be Tensor, not {given}"
                raise ArgumentError(f"{called}(){fault}; make one of {operand!r} with tensor()")

    def shape_of(self, name: str, operands: Sequence[Any]) -> Shape:
        """Return the shape in which the operands meet; name is what errors call the op.

        Raises  RuntimeError if they do not, or for a `value` with axes
        """
        for which, operand in zip(self.tensors, operands, strict=True):
            if which == "value" and isinstance(operand, Tensor) and operand.facts.shape:
                raise ShapeError(
                    f"{name} only supports a 0-dimensional value tensor, but got tensor with "
                    f"{len(operand.facts.shape)} dimension(s)."
                )
        return broadcast_shapes(name, [o.facts.shape for o in operands if isinstance(o, Tensor)])

    def general(
        self, operands: tuple[Any, ...], attributes: tuple[Any, ...], out: Any = None
    ) -> Any:
        """Check, offer to the tracer, run, record a Node, carry tangents."""
        if modes.tracers:
            if to_be_timed(self):
                return timed(self, self.name, self.general, operands, attributes, out)
            operands = cast_operands(self.name, operands)
        given, operands = operands, tuple([_operand(operand) for operand in operands])
        if any(o is NotImplemented for o in operands) or not any(
            isinstance(o, Tensor) for o in operands
        ):
            if self.name not in _OF_NUMBERS or not all(
                isinstance(o, bool | int | float) for o in operands
            ):
                return meet_sparse(self.name, given, attributes, out)
            operands = tuple([_alone(operand) for operand in operands])
        if self.tensors_only:
            self.require_tensors(self.name, operands)
        if attributes:
            attributes = self.fitting(attributes)
        compute = self.compute_dtype(operands, attributes)
        if compute is float16 and self.scales(operands):
            result = self.scaled(operands)
            return result if out is None else write_out(self, out, result, operands)
        device = common_device(self, operands)
        shape = self.shape_of(self.name, operands)
        result = self._run(operands, attributes, compute, device, shape)
        if out is not None:
            return write_out(self, out, result, operands)
        if not modes.special or not levels_of(operands):
            self._record(result, operands, attributes)
            return result
        extra_of(result)  # a Node that saves its output finds the tangents there
        self._record(result, operands, attributes)
        carry_pointwise(self, result, operands, attributes)
        return result

    def scales(self, operands: Sequence[Any]) -> bool:
        """Return whether float16 operands meet a wider tensor without axes that scales them."""
        return self.name in _SCALING and any(
            isinstance(o, Tensor) and is_rounded_by_half(o)
            # PyTorch rounds a dividend without axes.
            for o in (operands if self.name == "mul" else operands[1:])
        )

    def scaled(self, operands: Sequence[Any]) -> Tensor:
        """Compute float16 operands beside such a factor in float32, and round once."""
        cast = OPS["cast"].public
        wide = [cast(o, float32) if isinstance(o, Tensor) else o for o in operands]
        return cast(self.general(tuple(wide), ()), float16)  # type: ignore[no-any-return]

    def _run(
        self,
        operands: Sequence[Any],
        attributes: Sequence[Any],
        compute: DType,
        device: Any,
        shape: Any,
    ) -> Tensor:
        backend = backend_of(device.type)
        named = [
            (name, self._array(operand, name, compute, device, backend))
            for name, operand in zip(self.body_names, (*operands, *attributes), strict=True)
            if name in self.body.used
        ]
        dtype = bool_ if self.dtype == "bool" else compute
        array = empty_like_operands(backend, operands, dtype, device, shape)
        backend.pointwise(self.run_body, [one for _, one in named], array)
        result = wrap(array, layout_of(array, device))
        self._remember_plan(operands, result)
        remember_way(self, operands, named, result)
        return result

    def _array(self, operand: Any, name: str, compute: DType, device: Any, backend: Any) -> Any:
        if not isinstance(operand, Tensor):
            # A number among the operands wraps around, one that says how to compute does not.
            exact = self.dtype == "first" or name in self.number_names
            return (held if exact else as_operand)(operand, self._precision(name, compute))
        array = operand.array
        if name in CONDITIONS:
            if operand.facts.dtype is not bool_:
                raise DTypeError(
                    f"{self.name}: expected {name} to be a boolean tensor, got {operand.dtype.name}"
                )
            return array
        if operand.facts.device is not device:
            array = np.asarray(array)  # 0-d and on the CPU: goes by value
            return array.astype(compute.numpy)
        return as_array(backend, array, compute.numpy, device.index)

    def _precision(self, name: str, compute: DType) -> DType:
        """Return the dtype of the body's number name. See Note [Numbers beside float16]."""
        return float32 if compute is float16 and name in self.exact_names else compute

    def _remember_plan(self, operands: Sequence[Any], result: Tensor) -> None:
        """Let the fast closure know the result's layout for this pair of layouts next time."""
        if len(operands) != 2 or not result.facts.plain:
            return
        a, b = operands
        if isinstance(a, Tensor) and isinstance(b, Tensor):
            la, lb, lr = a.facts, b.facts, result.facts
            if (
                la.dtype is lr.dtype is lb.dtype
                and la.device is lb.device
                and la.contiguous
                and lb.contiguous
            ):
                la.plans.remember(lb, lr)

    def _record(self, result: Tensor, operands: Sequence[Any], attributes: Sequence[Any]) -> None:
        if not self.differentiable or not result.facts.dtype.is_floating_point:
            return
        edges = self.edges_of(operands)
        if any(edge is not None for edge in edges) and not (modes.grad_off and not tls.grad):
            self.record(result, operands, attributes, edges, _give_edge)

    def edges_of(self, operands: Sequence[Any]) -> tuple[Any, ...]:
        """Return the edges of the operands that have a gradient."""
        pairs = zip(operands, self.gradient_bodies, strict=True)
        return tuple([None if b is None or not isinstance(o, Tensor) else o.edge for o, b in pairs])

    def record(
        self,
        result: Tensor,
        operands: Sequence[Any],
        attributes: Sequence[Any],
        edges: tuple[Any, ...],
        attach: Callable[[Tensor, Any], None],
    ) -> None:
        """Make the Node of a call with these edges, and attach it to the result."""
        node = self.nodes[1]()
        begin_node(node, edges, result.facts)
        compute = result.facts.dtype
        precise = [self._precision(name, compute) for name in self.body_names]
        pairs = zip(operands, precise, strict=False)
        tensors = [o if isinstance(o, Tensor) else _number_tensor(o, dtype) for o, dtype in pairs]
        numbers = zip(attributes, precise[len(tensors) :], strict=True)
        node.save(*tensors, *[as_operand(number, dtype) for number, dtype in numbers], result)
        attach(result, node)
        if modes.tracers:
            pack_saved(node, self.tensors, operands)


def _give_edge(result: Tensor, node: Any) -> None:
    result.edge = node


_NO_BOOL = {
    "sub": "Subtraction, the `-` operator, with {} is not supported",
    "rsub": "Subtraction, the `-` operator, with {} is not supported",
    "neg": "Negation, the `-` operator, on {} is not supported",
    "relu": "Boolean inputs not supported for relu",
}


def refuse_bool(name: str, found: DType, operands: Sequence[Any]) -> None:
    """Raise DTypeError if operands of an arithmetic op meet in bool; for a difference, if one is
    bool.
    """
    if found is not bool_ and name not in ("sub", "rsub"):
        return
    dtypes = [o.facts.dtype if isinstance(o, Tensor) else dtype_of_number(o) for o in operands]
    if bool_ not in dtypes:
        return
    what = "two bool tensors" if dtypes == [bool_, bool_] else "a bool tensor"
    text = _NO_BOOL.get(name, "{} has no " + name).format(what)
    raise DTypeError(f"{text}; use logical_* or bitwise_* ops, or cast with .to(fastdist.int64)")


def _operand(value: Any) -> Any:
    if isinstance(value, Tensor):
        # What is sparse no kernel takes: see sparse_rules.py.
        return NotImplemented if value.facts.is_sparse else value
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, np.ndarray | np.generic):
        if isinstance(value, np.generic):
            return value.item()
        return from_users_array(value)
    return NotImplemented


def _alone(number: Any) -> Tensor:
    dtype = dtype_of_number(number)
    return wrap(as_operand(number, dtype), Layout.of(dtype, CPU, ()))


def refused(operands: Sequence[Any]) -> bool:
    """Return whether an operand is of a type that no op takes."""
    # By identity: `in` would compare, and comparing Tensors is an op.
    return any(operand is NotImplemented for operand in operands)


def _number_tensor(value: Any, dtype: DType) -> Tensor:
    array = as_operand(value, dtype)
    return wrap(array, layout_of(array))


def empty_like_operands(
    backend: Any, operands: Sequence[Any], dtype: DType, device: Any, shape: Any
) -> Any:
    """Return room for a result, its axes in the order in which the first operand of that shape
    walks them.

    A transposed operand gives a transposed result, as in PyTorch, so that the next op reads memory
    in order.
    """
    for operand in operands:
        if isinstance(operand, Tensor) and operand.facts.shape == shape:
            order = memory_order(operand.facts)
            if order is None:
                break
            packed = backend.empty(tuple(shape[i] for i in order), dtype.numpy, device.index)
            return packed.transpose(tuple(order.index(i) for i in range(len(shape))))
    return backend.empty(shape, dtype.numpy, device.index)


def memory_order(layout: Layout) -> list[int] | None:
    """Return the axes from the slowest to the fastest in memory; None for C order and for memory
    that is walked twice or backwards.
    """
    if layout.contiguous:
        return None
    shape, strides = layout.shape, layout.strides
    order = sorted(range(len(shape)), key=lambda i: -strides[i])
    return None if any(strides[i] <= 0 and shape[i] > 1 for i in order) else order


def pointwise(
    body: str,
    partials: Sequence[str | None] = (),
    *,
    dtype: str = "same",
    node_name: str = "",
    numbers: str = "anywhere",
) -> Callable[[Callable[..., Any]], PointwiseOp]:
    """Declare a pointwise op: the decorated function gives name, signature and docstring."""

    def declare(function: Callable[..., Any]) -> PointwiseOp:
        op = PointwiseOp(function, body, partials, dtype, node_name, numbers)
        register(op)
        return op

    return declare


__all__ = ["ZERO", "PointwiseOp", "empty_like_operands", "memory_order", "pointwise", "refused"]
