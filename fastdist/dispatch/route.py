"""A Route: everything that can be computed before a call from layouts and attributes.

Shapes, dtypes and checks follow from the operands' layouts and the attributes alone, so a second
call with the same layouts and attributes computes nothing again. The Route is cached in `routes` of
the first operand's layout. A Route holds the checked plan and, on the CPU, the results' layouts and
a function from raw arrays to new results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from ..core.device import CPU, Device
from ..core.dtypes import BorrowedDType, DType
from ..core.errors import DeclarationError
from ..core.short_repr import short_repr
from ..core.torch_function import disabled_torch_function
from ..devices.backend import Result, backend_of
from ..graph.unbroadcast import as_array
from ..kernels.cpu.halves import computed_in_float32, gradients_in_float32
from ..kernels.cpu.silence import silent
from ..kernels.cpu.small.call_facts import CallFacts
from ..language.scalar import Body
from ..tensor.layout import Layout, Shape, Size, memory_order, strides_of
from ..tensor.tensor import Tensor
from ..tensor.view_steps import ViewSteps
from .derive import Form


class Plan(NamedTuple):
    """The plan of a structured op: shapes and dtypes of the results, and the kernel's numbers.

    `compute` is the dtype to which tensors are cast first; None means no cast. `view_shape` is the
    shape in which the caller gets the kernel's result, such as with keepdim=True. `extra_outputs`
    are the shapes and dtypes of the results after the first.
    """

    shape: Shape
    dtype: DType
    numbers: tuple[Any, ...] = ()
    compute: DType | None = None
    view_shape: Shape | None = None
    extra_outputs: tuple[tuple[Shape, DType], ...] = ()


def require_declared_plan(name: str, plan: Any) -> None:
    """Raise DeclarationError unless an op's plan has returned a Plan of the declared types."""
    kinds = (("shape", tuple), ("dtype", DType), ("numbers", tuple))
    if not isinstance(plan, Plan):
        wrong = short_repr(plan)
    elif found := [what for what, kind in kinds if not isinstance(getattr(plan, what), kind)]:
        wrong = f"{found[0]}={short_repr(getattr(plan, found[0]))}"
    else:
        return
    raise DeclarationError(
        f"{name}: its plan returned {wrong}; expected Plan(shape, dtype, numbers): a tuple, a "
        "dtype of fastdist, and a tuple of more arguments for the kernel"
    )


class Route:
    """How one op runs on operands of known layouts with known attributes.

    `run` takes the operands' raw arrays (None for an operand that is not given). It returns a new
    result with the layout `layout`, or a tuple of results with the layouts `layout` and `more`.
    `write` takes, as its last argument, also raw memory of the result's shape and dtype, such as an
    `out=`, and fills it. `change` does the same for memory of the first operand. Each of the three
    is None where only the general path works. `form` is the form of a pointwise op. `gradients` are
    functions that compute the raw gradients of the inputs; None if the op's vjps compute them.
    `records` says whether a result may need a Node. `keeps_spare` says whether the Node saves
    inputs that only `tails` need.

    Thread  immutable
    """

    __slots__ = (
        "attributes", "change", "event", "form", "gradients", "keeps_spare", "layout", "layouts",
        "more", "op", "plan", "records", "run", "steps", "write",
    )  # fmt: skip
    layout: Layout  # of the first result; not set in NO_ROUTE

    def __init__(
        self,
        op: Any,
        attributes: tuple[Any, ...],
        layouts: tuple[Layout | None, ...],
        plan: Plan | None = None,
        form: Form | None = None,
    ) -> None:
        self.op = op
        self.form = form
        self.attributes = attributes
        self.layouts = layouts
        self.plan = plan
        self.run: Callable[..., Any] | None = None
        self.write: Callable[..., Any] | None = None
        self.change: Callable[..., Any] | None = None
        self.gradients: tuple[Callable[..., Any] | None, ...] | None = None
        self.keeps_spare = False
        self.more: tuple[Layout, ...] = ()
        self.steps: ViewSteps | None = None  # for a view of a tensor that is not a view itself
        self.event = ""  # the event's name, found when a profile first needs it
        # Whether a result may need a Node. On a device with streams, a function that stores the
        # current stream in the Node is used in place of True.
        self.records: bool | Callable[[Any], None] = plan is None or plan.dtype.may_have_gradient

    def writes_by(self, write: Callable[..., Any]) -> None:
        """Store `write` as the function that writes results into memory of their shape and
        dtype.
        """
        self.write, own, first = write, self.layout, self.layouts[0]
        assert first is not None
        if (own.dtype, own.shape, own.device) == (first.dtype, first.shape, first.device):
            self.change = write


# Stands for a Route that is not known yet.
NO_ROUTE: Final = Route(None, (), ())


def find_event(op: Any, route: Route, operands: Sequence[Any], attributes: Sequence[Any]) -> str:
    """Store and return the event's name, which is the same for all calls of a Route."""
    route.event = op.event(operands, attributes)
    return route.event


# Attributes of these types, and tuples of them, define a plan completely, and a cache that holds
# them keeps no tensor's memory alive. Tensors are excluded: their values may change.
_KEYS = frozenset({int, float, bool, str, type(None), DType, BorrowedDType, type(Ellipsis)})


def layouts_of(operands: Sequence[Any]) -> tuple[Layout | None, ...]:
    """Return the layouts of tensors; None for an operand that is not a tensor."""
    return tuple([getattr(operand, "_layout", None) for operand in operands])


def is_cacheable(operands: Sequence[Any], attributes: tuple[Any, ...]) -> bool:
    """Return whether the plan depends on nothing but layouts and attributes that can be keys."""
    return (
        operands[0] is not None
        and are_keys(attributes)
        and all(operand is None or isinstance(operand, Tensor) for operand in operands)
    )


def are_keys(attributes: tuple[Any, ...]) -> bool:
    """Return whether attributes are usable as keys: numbers, strings and tuples of these."""
    for one in attributes:
        kind = one.__class__
        if kind is tuple or kind is Size:
            if not are_keys(one):
                return False
        # 0.0 and -0.0 would be the same key, so neither is used as a key.
        elif kind not in _KEYS or (kind is float and one == 0):
            return False
    return True


def find_functions(
    route: Route, kernel: str, device: Device, *, keeps_order: bool, kept: bool
) -> None:
    """Give `route` its functions for the device, and the layouts of its results. Finding the CPU
    kernels for small tensors takes extra time, so they are used only if `kept` is true, which means
    that the Route is cached.
    """
    plan, layouts = route.plan, route.layouts
    assert plan is not None
    order = order_of(layouts, plan.shape) if keeps_order else None
    dtypes = {layout.dtype for layout in layouts if layout is not None}
    moved = [layout is not None and layout.device is not device for layout in layouts]
    is_cast = any(moved) or (plan.compute is not None and dtypes != {plan.compute})
    if device is CPU and kept and order is None and not is_cast:
        _find_functions_on_cpu(route, kernel, plan)
    else:
        run = filling(route, kernel, device, order)
        wanted = [(is_moved, plan.compute) for is_moved in moved]
        route.run = casting(run, device, wanted) if is_cast else run
        route.records = route.records and noting_stream(device)
        if device is not CPU and not is_cast and route.op.on_device is not None:
            route.gradients = route.op.on_device(layouts, device)
    kinds = (plan.dtype, *[dtype for _, dtype in plan.extra_outputs])
    seen = [
        Layout.of(dtype, device, result.shape, strides_of(result.shape, order))
        for dtype, result in zip(kinds, _results(plan, order), strict=True)
    ]
    route.layout, route.more = seen[0], tuple(seen[1:])
    if device is CPU and not route.more:
        assert route.run is not None
        route.write = copying(route.run)


@silent  # type: ignore[untyped-decorator]
def casting(
    run: Callable[..., Any], device: Device, wanted: Sequence[tuple[bool, DType | None]]
) -> Callable[..., Any]:
    """Return a function that moves and casts operands, then calls `run`.

    For each operand, `wanted` says whether it comes from another device, and the dtype to which it
    is cast (None for no cast).
    """
    backend, host, index = backend_of(device.type), backend_of("cpu"), device.index

    def bring(array: Any, is_wanted: tuple[bool, DType | None]) -> Any:
        is_moved, dtype = is_wanted
        if array is None:
            return None
        if is_moved:
            array = backend.from_numpy(array, index)
        if dtype is None:
            return array
        # A number next to arrays of a device stays a NumPy array: kernels take it by value.
        home = host if array.__class__ is np.ndarray else backend
        return as_array(home, array, dtype.numpy, index)

    return lambda *arrays: run(*map(bring, arrays, wanted))


def arrays_of(values: Sequence[Any]) -> list[Any]:
    """Return the raw arrays of tensors; None for an operand that is not given."""
    return [None if one is None else one._array for one in values]


@silent  # type: ignore[untyped-decorator]
def run_silently(run: Callable[..., Any], arrays: Sequence[Any]) -> Any:
    """Run a function on arrays; NumPy gives no warnings."""
    return run(*arrays)


@silent  # type: ignore[untyped-decorator]
def copying(run: Callable[..., Any]) -> Callable[..., None]:
    """Return the function that copies results of `run` to memory that may belong to an operand."""
    copyto = np.copyto
    return lambda *arrays: copyto(arrays[-1], run(*arrays[:-1]))


def order_of(layouts: Sequence[Layout | None], shape: Shape) -> list[int] | None:
    """Return the order of the axes in memory for a result: the order in the first operand that has
    the result's shape. None means C order.

    A transposed operand gives a transposed result, as in PyTorch, so that the next op reads memory
    in order.
    """
    first = next((one for one in layouts if one is not None and one.shape == shape), None)
    return None if first is None else memory_order(first)


def noting_stream(device: Device) -> bool | Callable[[Any], None]:
    """Return the value of `records` for a Route whose Nodes are on device."""
    if device.index is None:
        return True  # the CPU and the meta device have no streams
    current_stream, index = backend_of(device.type).current_stream, device.index

    def note(node: Any) -> None:
        node.stream = current_stream(index)

    return note


def _find_functions_on_cpu(route: Route, name: str, plan: Plan) -> None:
    from ..kernels.cpu.small.kernels import small_gradients, small_kernel

    layouts = route.layouts
    facts = CallFacts(
        shapes=tuple([None if one is None else one.shape for one in layouts]),
        dtypes=tuple([None if one is None else one.dtype.numpy for one in layouts]),
        contiguous=tuple([one is not None and one.contiguous for one in layouts]),
        shape=plan.shape,
        dtype=plan.dtype.numpy,
        numbers=plan.numbers,
        view_shape=plan.view_shape,
    )
    if _reads(plan, layouts) is None:
        route.run = small_kernel(name, facts) or filling(route, name, CPU)
        if route.op.kernel_gradients:
            route.gradients = small_gradients(name, facts)
    else:
        kinds = [dtype.numpy for dtype in (plan.dtype, *[one for _, one in plan.extra_outputs])]
        found = computed_in_float32(name, partial(small_kernel, name), facts, kinds)
        route.run = found or filling(route, name, CPU)
        if route.op.kernel_gradients:
            find = partial(small_gradients, name)
            route.gradients = gradients_in_float32(name, find, facts)


def _reads(plan: Plan, layouts: Sequence[Layout | None]) -> int | None:
    """Return the number of inputs that the kernel reads; None if no dtype is a half or float8
    type.
    """
    dtypes = [plan.dtype, *[dtype for _, dtype in plan.extra_outputs]]
    dtypes += [layout.dtype for layout in layouts if layout is not None]
    narrow = any(dtype.is_half or dtype.is_float8 for dtype in dtypes)
    return len(layouts) if narrow else None


def filling(
    route: Route, kernel: str | Body, device: Device, order: Sequence[int] | None = None
) -> Callable[..., Any]:
    """Return the function that makes new memory and runs the device's kernel on it."""
    plan = route.plan
    assert plan is not None
    reads, results = _reads(plan, route.layouts), _results(plan, order)
    making = backend_of(device.type).making
    return making(kernel, results, plan.numbers, reads, device.index)


def _results(plan: Plan, order: Sequence[int] | None) -> list[Result]:
    return [
        Result(shape if plan.view_shape is None else plan.view_shape, dtype.numpy, shape, order)
        for shape, dtype in ((plan.shape, plan.dtype), *plan.extra_outputs)
    ]


class Outline(Tensor):
    """Replaces an operand while a plan is made that will be cached for the operand's layout.

    A plan that reads values would be right for the present operands, and silently wrong for later
    ones of the same layout.
    """

    __slots__ = ("_fault",)
    __torch_function__ = disabled_torch_function
    _fault: str

    @property
    def _array(self) -> Any:
        """Raise DeclarationError: there are no values to read."""
        raise DeclarationError(
            f"{self._fault}, but is kept for all tensors of the same layout: a plan may depend "
            "only on layouts and attributes. Read the values in a composite around the op and "
            "pass the result as an attribute, or let the kernel read them"
        )


def outlines(op_name: str, names: Sequence[str], operands: Sequence[Any]) -> list[Any]:
    """Return an Outline for each operand; None for an operand that is not given."""
    made: list[Any] = []
    for name, operand in zip(names, operands, strict=True):
        if operand is None:
            made.append(None)
            continue
        outline = object.__new__(Outline)
        outline._layout = operand._layout
        outline._fault = f"{op_name}: its plan read values of {name}"
        outline._edge = outline._extra = outline._storage = None
        made.append(outline)
    return made
