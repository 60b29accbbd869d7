"""The shortest way through two structured ops that everything calls: matmul and the sum of all.

Same shape as fast.py: the five steps written out for small plain tensors, everything else goes to
`general`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.device import CPU
from ..graph.modes import modes, tls
from ..graph.node import Node
from ..graph.node import next_sequence_number as next_seq
from ..kernels.cpu.product import suits_panels
from ..kernels.cpu.silence import silent
from ..tensor.layout import Layout
from ..tensor.tensor import Tensor, empty_shell
from .fast import concerns_nobody
from .node_code import unpack_input
from .op import ABSENT, PLAIN
from .structured import StructuredOp

# np.dot against a vector of ones adds 64 numbers in half the time of np.add.reduce. Beyond this
# many the pairwise order of np.add.reduce is the more exact one, and its overhead no longer shows.
_DOT_LIMIT = 1024
_ones: dict[Any, Any] = {}


class MatmulBackward0(Node):
    """The product of two matrices: each gradient is a product with the other's transpose."""

    __slots__ = ("input", "input_version", "other", "other_version")
    fresh = True
    op: StructuredOp
    input: Tensor | None
    other: Tensor | None
    input_version: int
    other_version: int

    @silent  # type: ignore[untyped-decorator]
    def apply(self, g: Any, keep: bool) -> tuple[Any, ...]:
        """Return g @ other.T and input.T @ g, each if it is wanted."""
        a, b = self.edges
        by_input = by_other = None
        if a is not None:
            other = unpack_input(self, self.other, self.other_version, b)
            by_input = g.dot(other.array.T)
        if b is not None:
            input = unpack_input(self, self.input, self.input_version, a)
            by_other = input.array.T.dot(g)
        if not keep:
            self.release()
        return by_input, by_other

    def apply_recorded(self, g: Any, keep: bool) -> tuple[Any, ...]:
        """Return the same as Tensors, by the op's own vjps."""
        a, b = self.edges
        by_input = by_other = None
        if a is not None:
            other = unpack_input(self, self.other, self.other_version, b)
            by_input = self.op.vjp_of("input")(g, other)
        if b is not None:
            input = unpack_input(self, self.input, self.input_version, a)
            by_other = self.op.vjp_of("other")(g, input)
        if not keep:
            self.release()
        return by_input, by_other

    def release(self) -> None:
        """Forget what was saved."""
        self.input = self.other = None


def fast_matmul(op: StructuredOp) -> Callable[..., Any]:
    """Return op for two matrices; everything else goes the general way."""
    general_path = op.general
    MatmulBackward0.op = op

    def matmul(input, other):  # type: ignore[no-untyped-def]
        if (
            input.__class__ in PLAIN
            and other.__class__ in PLAIN
            and (not modes.special or concerns_nobody(input, other))
        ):
            a_layout = input.facts
            layout = a_layout.products.get(other.facts)
            if layout is None:
                layout = product_layout(a_layout, other.facts)
            if layout is not None:
                out = empty_shell()
                # 325 ns as a method, 500 as np.dot, 910 as np.matmul.
                out.array = input.array.dot(other.array)
                out.facts = layout
                out.extra = out._storage = None
                a = input.edge
                b = other.edge
                if (a is None and b is None) or (modes.grad_off and not tls.grad):
                    out.edge = None
                    return out
                out.edge = node = MatmulBackward0()
                node.seq = next_seq()
                node.edges = (a, b)
                node.hooks = None
                node.facts = layout
                if b is not None:
                    node.input = input
                    s = input._storage
                    node.input_version = 0 if s is None else s.version
                else:
                    node.input = None
                if a is not None:
                    node.other = other
                    s = other._storage
                    node.other_version = 0 if s is None else s.version
                else:
                    node.other = None
                return out
        return general_path((input, other), ())

    made: Callable[..., Any] = silent(matmul)
    return made


def product_layout(a: Layout, b: Layout) -> Layout | None:
    """Return the layout of the product of two matrices that BLAS takes as they are; None for all
    else.
    """
    if (
        len(a.shape) == 2
        and len(b.shape) == 2
        and a.shape[1] == b.shape[0]
        and a.dtype is b.dtype
        and a.device is CPU
        and b.device is CPU
        and a.dtype.is_floating_point
        and a.dtype.itemsize > 2
        and a.shape[1] > 0
        and not (a.is_sparse or b.is_sparse)
        and not suits_panels(*a.shape, b.shape[1], a.dtype.numpy)
    ):
        found: Layout = a.products.remember(b, Layout.of(a.dtype, CPU, (a.shape[0], b.shape[1])))
        return found
    return None


class SumBackward0(Node):
    """The sum of all: its gradient is the one number, seen as the input's shape."""

    __slots__ = ("input_layout",)
    input_layout: Layout

    def apply(self, g: Any, keep: bool) -> tuple[Any, ...]:
        """Return g repeated by strides of 0."""
        layout = self.input_layout
        # The buffer of a 0-d array, walked without ever stepping: a tenth of np.broadcast_to's
        # time.
        view: Any = np.ndarray(layout.shape, g.dtype, g, 0, (0,) * len(layout.shape))
        view.flags.writeable = False
        return (view,)

    def apply_recorded(self, g: Any, keep: bool) -> tuple[Any, ...]:
        """Return g expanded."""
        return (g.expand(self.input_layout.shape),)


def fast_sum(op: StructuredOp, general: Callable[..., Any]) -> Callable[..., Any]:
    """Return op for the sum of all elements of a small tensor; everything else goes the general
    way.
    """
    reduce: Callable[..., Any] = np.add.reduce
    empty = np.empty

    def sum(  # type: ignore[no-untyped-def]
        input, dim=None, keepdim=False, *, dtype=None, out=None, axis=ABSENT, keepdims=ABSENT
    ):
        if (
            dim is None
            and input.__class__ in PLAIN
            and (not modes.special or concerns_nobody(input, input))
            and dtype is None
            and out is None
            and not keepdim
            and axis is ABSENT
            and keepdims is ABSENT
        ):
            layout = input.facts
            if layout.tiny:
                plan = layout.plans.get("sum")
                if plan is None:
                    plan = sum_plan(layout)
                scalar, ones, numpy_dtype = plan
                result = empty_shell()
                result.array = array = empty((), numpy_dtype)
                if ones is None:
                    reduce(input.array, None, None, array)
                else:
                    input.array.ravel().dot(ones, array)
                result.facts = scalar
                result.extra = result._storage = None
                edge = input.edge
                if edge is None or (modes.grad_off and not tls.grad):
                    result.edge = None
                    return result
                result.edge = node = SumBackward0()
                node.seq = next_seq()
                node.edges = (edge,)
                node.hooks = None
                node.facts = scalar
                node.input_layout = layout
                return result
        return general(input, dim, keepdim, dtype=dtype, out=out, axis=axis, keepdims=keepdims)

    made: Callable[..., Any] = silent(sum)
    return made


def sum_plan(layout: Layout) -> tuple[Layout, Any, Any]:
    """Return the result's layout, the ones to multiply with (None: reduce instead), and the NumPy
    dtype.
    """
    ones = None
    if 0 < layout.numel <= _DOT_LIMIT:
        ones = _ones.get((layout.numel, layout.dtype))
        if ones is None:
            ones = _ones[layout.numel, layout.dtype] = np.ones(layout.numel, layout.dtype.numpy)
    plan = (layout.with_shape(()), ones, layout.dtype.numpy)
    layout.plans.remember("sum", plan)
    return plan
