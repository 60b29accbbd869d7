"""How the Routes of pointwise ops are made: see route.py."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.device import CPU
from ..core.dtypes import DType, bool_
from ..devices.backend import Result, backend_of
from ..graph.unbroadcast import as_array, cast_array, sum_to_layout
from ..kernels.cpu.memory import maker_of
from ..kernels.cpu.pointwise.numpy_pointwise import gives, writes_anywhere
from ..kernels.cpu.pointwise.pointwise import is_half, kernel_for
from ..kernels.cpu.silence import define_silent, silent
from ..language.scalar import CONDITIONS, Body
from ..tensor.broadcast import axes_to_sum
from ..tensor.layout import Layout
from ..tensor.promotion import can_cast
from ..tensor.tensor import layout_of
from .derive import Form, with_spare
from .route import NO_ROUTE, Plan, Route, casting, copying, filling, noting_stream

# The dtype rules under which operands of one floating dtype give a result of the same dtype.
_ONE_DTYPE = frozenset({"same", "number", "floating", "first", "counted"})


def find_route(form: Form, layout: Layout) -> Route:
    """Make, store and return the Route of a form for operands that all have `layout`. Return
    NO_ROUTE where the general path must decide.
    """
    op, count = form.op, len(form.op.tensors)
    if not layout.ordinary or op.looks_at_operands or CONDITIONS.intersection(op.tensors):
        return NO_ROUTE
    if any(tell([layout.dtype] * count) for tell in op.refusals):
        return NO_ROUTE
    if op.dtype_rule in _ONE_DTYPE:
        out_layout = layout
    elif op.dtype_rule == "bool":
        out_layout = layout.with_dtype(bool_)
    else:
        return NO_ROUTE
    kernel = kernel_for(form.run_body)
    route = new_route(form, (layout,) * count, out_layout, layout.dtype)
    is_small = layout.numel <= kernel.limit
    route.run = kernel.small if is_small else _large(kernel.run_large, out_layout)
    route.writes_by(_writing(form, out_layout, layout.dtype))
    layout.uniform_routes[form] = route
    return route


def new_route(form: Form, layouts: Sequence[Layout], out_layout: Layout, compute: DType) -> Route:
    """Return a Route whose result has `out_layout`. Its gradients are set; `run` and `write` are
    not.
    """
    plan = Plan(out_layout.shape, out_layout.dtype, compute=compute)
    route = Route(form.op, (), tuple(layouts), plan, form)
    route.layout = out_layout
    route.records = form.op.may_record and route.records and noting_stream(out_layout.device)
    route.keeps_spare = form.keeps_tails(out_layout.dtype)
    route.gradients = gradients_of(form, layouts, out_layout)
    return route


def find_functions(
    route: Route,
    order: Sequence[int] | None,
    casts: Sequence[DType | None],
    arrays: Sequence[Any],
) -> None:
    """Set `run`, `write` and `change` of route. `casts` are the dtypes to which its inputs are cast
    first, None for no cast. `arrays` are the inputs of the present call.

    Note    the NumPy function runs once per Route, to find whether its result has the expected
            layout
    """
    out_layout, plan, form = route.layout, route.plan, route.form
    assert plan is not None and plan.compute is not None and form is not None
    device, is_cast = out_layout.device, any(casts)
    wanted = [(False, dtype) for dtype in casts]
    run = None
    if device is not CPU:
        fill, body = backend_of(device.type).pointwise, form.run_body
        write: Callable[..., Any] = lambda *given: fill(body, given[:-1], given[-1])  # noqa: E731
    else:
        if is_cast:
            arrays = casting(lambda *found: found, CPU, wanted)(*arrays)
        run = _tried(form, arrays, out_layout)
        write = _writing(form, out_layout, plan.compute, run)
    run = run or filling(route, form.run_body, device, order)
    route.run = casting(run, device, wanted) if is_cast else run
    # The last argument of `write` is the memory for the result, which is not cast.
    route.writes_by(casting(write, device, [*wanted, (False, None)]) if is_cast else write)
    if route.change is None:
        route.change = _casting_back(route)


def _casting_back(route: Route) -> Callable[..., Any] | None:
    """Return the function that casts results into a first operand of another dtype, or None."""
    out_layout, first, run = route.layout, route.layouts[0], route.run
    assert first is not None and run is not None
    if (out_layout.shape, out_layout.device) != (first.shape, first.device):
        return None
    if not can_cast(out_layout.dtype, first.dtype):
        return None
    copy_into = backend_of(out_layout.device.type).copy_into
    return lambda *given: copy_into(given[-1], run(*given[:-1]))


def keep_for_short_path(route: Route, *, is_cast: bool) -> None:
    """Let later calls find `route` without the general path, if the layouts alone define the casts.
    Layouts are not enough where numbers affect the casts, as in x.clamp(max=2.5), or where a check
    registered by `refusal` reads values.
    """
    form = route.form
    assert form is not None
    if is_cast and (form.number_names or form.op.looks_at_operands):
        return
    first, *others = route.layouts
    assert first is not None
    if all(layout is first for layout in others):
        first.uniform_routes[form] = route
    else:
        first.routes.remember((form, *others), route)


def _writing(
    form: Form, out_layout: Layout, compute: DType, make: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """Return the function that writes results into memory of out_layout's shape. For small results
    of half types, it copies results of `make`, if `make` is given.
    """
    kernel = kernel_for(form.run_body)
    small: Callable[..., Any] = kernel.small
    run: Callable[..., Any] = kernel.run if compute.is_half else kernel.compute
    if compute.is_half:
        is_small = kernel.is_small_among_halves(out_layout.numel)
        if is_small and make is not None:
            return copying(make)  # type: ignore[no-any-return]
    else:
        is_small = out_layout.numel <= kernel.limit
        takes_out = is_small and writes_anywhere(small)
        if takes_out and gives(small, compute.numpy, out_layout.dtype.numpy):
            return small  # its last positional argument is `out`
    if not is_small:
        run = kernel.run_large
    loop = None

    def write(*arrays: Any) -> None:
        nonlocal loop
        if loop is None:
            loop = run(arrays[:-1], arrays[-1])
        else:
            loop(arrays)

    return write


@silent  # type: ignore[untyped-decorator]
def _large(run_large: Callable[..., Any], layout: Layout) -> Callable[..., Any]:
    """Return the function that makes results of `layout`; its first call looks up the loop."""
    shape, dtype = layout.shape, layout.dtype.numpy
    empty = maker_of(shape, dtype)
    loop = None

    def run(*arrays: Any) -> Any:
        nonlocal loop
        out = empty(shape, dtype)
        if loop is None:
            loop = run_large(arrays, out)
        else:
            loop((*arrays, out))
        return out

    return run


@silent  # type: ignore[untyped-decorator]
def _wrapped(small: Callable[..., Any]) -> Callable[..., Any]:
    """Return `small` with its results converted to arrays: NumPy returns scalars for inputs without
    axes.
    """
    asarray = np.asarray
    return lambda *arrays: asarray(small(*arrays))


@silent  # type: ignore[untyped-decorator]
def _tried(form: Form, arrays: Any, out_layout: Layout) -> Callable[..., Any] | None:
    kernel = kernel_for(form.run_body)
    dtype, dtypes = out_layout.dtype.numpy, [array.dtype for array in arrays]
    small: Callable[..., Any] | None = kernel.small if out_layout.numel <= kernel.limit else None
    if is_half([dtype, *dtypes]):
        small = kernel.small_among_halves(dtypes, dtype, out_layout.numel)
    if small is None:
        return _large(kernel.run_large, out_layout) if out_layout.contiguous else None
    run = small if out_layout.shape else _wrapped(small)
    tried = run(*arrays)
    fits = tried.dtype == out_layout.dtype.numpy and layout_of(tried) is out_layout
    return run if fits else None


def gradients_of(form: Form, layouts: Sequence[Layout], out_layout: Layout) -> tuple[Any, ...]:
    """Return for each input the function that computes its raw gradient. It is None where the
    gradient is g itself (the result's gradient), and where there is no gradient.
    """
    op = form.op
    if not op.may_record or not out_layout.dtype.may_have_gradient:
        return (None,) * len(layouts)
    is_uniform = out_layout.ordinary and all(
        layout.device is CPU and (layout.dtype is out_layout.dtype or name in CONDITIONS)
        for name, layout in zip(op.tensors, layouts, strict=True)
    )
    found = list[Callable[..., Any] | None]()
    bodies = form.adjoint_bodies if out_layout.dtype.is_complex else form.gradient_bodies
    for i, (body, target, gradient) in enumerate(zip(bodies, layouts, op.gradients, strict=True)):
        if form.refusing[i]:
            found.append(form.refusing[i])
            continue
        if body is None or gradient is None or (body.text == "g" and target is out_layout):
            found.append(None)
            continue
        wanted = gradient.raw_args

        def making(body: Body, target: Layout = target, wanted: Any = wanted) -> Any:
            own = body.in_used_order()
            if is_uniform:
                made = _uniform(body, out_layout, target)
            else:
                made = _general(own, out_layout, target, op.exact)
            return made if own.names == wanted else _adapter(wanted, own.names)(made)

        if not form.keeps_tails(out_layout.dtype):
            found.append(making(body))
        elif not form.spare_names:
            found.append(making(form.tail_bodies[i]))
        else:
            pair = (making(form.tail_bodies[i]),), (making(body),)
            found += with_spare(*pair, tuple([name in form.spare_names for name in wanted]))
    return tuple(found)


def _general(
    body: Body, out_layout: Layout, target: Layout, exact: frozenset[str]
) -> Callable[..., Any]:
    """Return the gradient function for arrays of any layout and dtype. It takes the saved values,
    then g. Numbers that `exact` names are not rounded to half types.
    """
    dtype, index = out_layout.dtype.numpy, out_layout.device.index
    backend = backend_of(out_layout.device.type)
    values = [place for place, name in enumerate(body.names) if name not in CONDITIONS]
    wider = [place for place in values if out_layout.dtype.is_half and body.names[place] in exact]
    result = Result(out_layout.shape, dtype, out_layout.shape)
    make = None
    if body.text != "g":
        make = backend.making(body, [result], index=index, of_any_layout=True)
    gather = None if target.shape == out_layout.shape else _gathering(out_layout, target)
    is_cast = (target.device, target.dtype) != (out_layout.device, out_layout.dtype)

    def general(*operands: Any) -> Any:
        found = operands[-1]
        if make is not None:
            for place in values:
                if operands[place].dtype is not dtype:
                    operands = cast(operands)
                    break
            found = make(*operands)
        if gather is not None:
            found = gather(found)
        return cast_array(found, out_layout, target) if is_cast else found

    def cast(operands: Sequence[Any]) -> tuple[Any, ...]:
        made = list(operands)
        for place in values:
            if place not in wider or made[place].shape:
                made[place] = as_array(backend, made[place], dtype, index)
        return tuple(made)

    return general


def _gathering(out_layout: Layout, target: Layout) -> Callable[[Any], Any]:
    """Return the function that sums an array over the axes along which an operand was broadcast."""
    axes = axes_to_sum(out_layout.shape, target.shape)
    kept = tuple([n for i, n in enumerate(out_layout.shape) if i not in axes])
    result = Result(target.shape, out_layout.dtype.numpy, kept)
    reads = 1 if out_layout.dtype.is_half else None
    backend, index = backend_of(out_layout.device.type), out_layout.device.index
    return backend.making(
        "reduce.reductions.sum", [result], (axes,), reads, index, of_any_layout=True
    )


@silent  # type: ignore[untyped-decorator]
def _uniform(body: Body, out_layout: Layout, target: Layout) -> Callable[..., Any]:
    """Return the gradient function for contiguous arrays of one dtype. It calls NumPy functions or
    a compiled loop.
    """
    if body.text == "g":
        return lambda g: sum_to_layout(g, target)
    kernel = kernel_for(body.in_used_order())
    is_small = out_layout.tiny
    make: Callable[..., Any] = kernel.small if is_small else _large(kernel.compute, out_layout)
    if target is out_layout:
        return make
    # An operand that was broadcast gets the sum of its gradients.
    return lambda *operands: sum_to_layout(make(*operands), target)


@functools.cache
def _adapter(given: tuple[str, ...], taken: tuple[str, ...]) -> Callable[..., Any]:
    """Return a decorator that turns a function with the parameters `taken` into a function with the
    parameters `given`.

    A call with all numbers at their defaults is recorded with these numbers, but its gradient
    functions do not take numbers.
    """
    source = f"def adapt(made): return lambda {', '.join(given)}: made({', '.join(taken)})"
    adapt: Callable[..., Any] = define_silent(source, "adapt", {})
    return adapt
