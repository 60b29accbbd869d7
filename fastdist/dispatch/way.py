"""What is known of a call before it happens: how an op runs on given layouts and attributes.

Shapes, dtypes and checks follow from the operands' layouts and the attributes alone, so the second
call with the same ones has nothing left to find out. Its Way stands in the plans of the first
operand's layout, and holds the checked plan and, on the CPU, the results' layouts and a function
from raw arrays to fresh results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.device import CPU
from ..core.dtypes import DType
from ..devices.backend import backend_of
from ..kernels.cpu.short import Facts
from ..tensor.layout import Layout, Shape
from ..tensor.tensor import Tensor
from ..tensor.view_steps import ViewSteps


class Plan(NamedTuple):
    """What a structured op will do: the results' shapes and dtypes, and the numbers that the kernel
    takes.

    `compute` is the dtype to which tensors are cast first (None: each stays as it is); `seen_as` is
    the shape under which the caller sees what the kernel gives (keepdim), `kernel` names another
    kernel than the op's; `extra_outputs` are the results after the first.
    """

    shape: Shape
    dtype: DType
    numbers: tuple[Any, ...] = ()
    compute: DType | None = None
    kernel: str | None = None
    seen_as: Shape | None = None
    extra_outputs: tuple[tuple[Shape, DType], ...] = ()


class Way:
    """How one op runs on operands of known layouts with known attributes.

    `run` takes the operands' raw arrays (None for an operand that is not given) and returns a fresh
    result of `facts`, or a tuple of results of `facts` and `more`; it is None where only the
    general path will do. `gradients` are functions that make raw gradients by the inputs; None
    where the op's vjps do. `records` says whether a result may need a Node.

    Thread  immutable
    """

    __slots__ = (
        "attributes",
        "facts",
        "gradients",
        "layouts",
        "more",
        "plan",
        "records",
        "run",
        "steps",
    )  # fmt: skip

    def __init__(
        self,
        attributes: tuple[Any, ...],
        layouts: tuple[Layout | None, ...],
        plan: Plan | None = None,
    ) -> None:
        self.attributes = attributes
        self.layouts = layouts
        self.plan = plan
        self.run: Callable[..., Any] | None = None
        self.gradients: tuple[Callable[..., Any] | None, ...] | None = None
        self.facts: Layout | None = None
        self.more: tuple[Layout, ...] = ()
        self.steps: ViewSteps | None = None  # of a view of a tensor that is no view
        self.records = plan is None or plan.dtype.is_floating_point


# Attributes of these types, and tuples of them, say all about a plan and hold no memory worth
# freeing. A tuple may hold Tensors, whose numbers change.
_PLAIN_ATTRIBUTES = frozenset({int, float, bool, str, type(None), DType, type(Ellipsis)})


def layouts_of(operands: Sequence[Any]) -> tuple[Layout | None, ...]:
    """Return the layouts of tensors; None for what is none."""
    return tuple([getattr(operand, "facts", None) for operand in operands])


def may_be_kept(operands: Sequence[Any], attributes: tuple[Any, ...]) -> bool:
    """Return whether layouts and attributes are all that a plan can depend on."""
    return (
        operands[0] is not None
        and _are_plain(attributes)
        and all(operand is None or isinstance(operand, Tensor) for operand in operands)
    )


def _are_plain(attributes: tuple[Any, ...]) -> bool:
    for one in attributes:
        kind = one.__class__
        if kind is tuple:
            if not _are_plain(one):
                return False
        # 0.0 and -0.0 would be one key.
        elif kind not in _PLAIN_ATTRIBUTES or (kind is float and one == 0):
            return False
    return True


def shorten(way: Way, kernel: str, *, keeps_order: bool) -> None:
    """Give way its functions if all its operands are CPU tensors that need no cast."""
    from ..kernels.cpu.short_kernels import short_gradients, short_kernel

    plan, layouts = way.plan, way.layouts
    assert plan is not None
    for layout in layouts:
        if layout is None:
            continue
        if layout.device is not CPU or (
            plan.compute is not None and layout.dtype is not plan.compute
        ):
            return
        if keeps_order and not layout.contiguous:
            return
    facts = Facts(
        shapes=tuple([None if one is None else one.shape for one in layouts]),
        dtypes=tuple([None if one is None else one.dtype.numpy for one in layouts]),
        contiguous=tuple([one is not None and one.contiguous for one in layouts]),
        shape=plan.shape,
        dtype=plan.dtype.numpy,
        numbers=plan.numbers,
        seen_as=plan.seen_as,
    )
    name = plan.kernel or kernel
    way.run = short_kernel(name, facts) or _ordinary(name, plan)
    way.gradients = short_gradients(name, facts)
    kinds = ((plan.shape, plan.dtype), *plan.extra_outputs)
    seen = [
        Layout.of(dtype, CPU, shape if plan.seen_as is None else plan.seen_as)
        for shape, dtype in kinds
    ]
    way.facts, way.more = seen[0], tuple(seen[1:])


def _ordinary(name: str, plan: Plan) -> Callable[..., Any]:
    """Return the function that lets the CPU's kernel fill new memory."""
    kernel, numbers, seen_as = backend_of("cpu").kernel(name), plan.numbers, plan.seen_as
    shape, dtype, empty = plan.shape, plan.dtype.numpy, np.empty
    if not plan.extra_outputs:

        def one_result(*arrays: Any) -> Any:
            out = empty(shape, dtype)
            kernel(*arrays, out, *numbers)
            return out if seen_as is None else out.reshape(seen_as)

        return one_result
    kinds = [(shape, dtype), *[(one, kind.numpy) for one, kind in plan.extra_outputs]]

    def several_results(*arrays: Any) -> Any:
        outs = [empty(shape, dtype) for shape, dtype in kinds]
        kernel(*arrays, *outs, *numbers)
        return outs if seen_as is None else [out.reshape(seen_as) for out in outs]

    return several_results
