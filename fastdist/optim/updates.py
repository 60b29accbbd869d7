"""Updates of parameters in a step by a program, with one launch per group if possible."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, groupby
from typing import Any

from ..core.dtypes import float64
from ..devices.backend import backend_of
from ..graph.modes import is_grad_enabled
from ..language.program import Program
from ..ops.create.creation import full_like
from ..ops.pointwise.complex_numbers import view_as_real
from ..tensor.layout import Layout
from ..tensor.storage import bump_all
from ..tensor.tensor import Tensor
from .device_numbers import are_on_device
from .fused import fused

# Parameters of equal Kind can share a launch: dtype and device, or None if not contiguous.
Kind = tuple[Any, Any] | None


def run_program(
    program: Program,
    columns: Sequence[list[Tensor]],
    numbers: Sequence[Sequence[Any]],
    skip: Tensor | None = None,
) -> None:
    """Run a program for each of several parameters.

    `columns` has one list for each array of the program, with one Tensor per parameter. `numbers`
    has one row per parameter: the program's scalars, each a number or a Tensor of one element. If
    all parameters share one row, a scalar may also be a column, a Tensor with one element per
    parameter: see Note [Numbers on a device]. `skip` is a Tensor of one element; if the element is
    not 0, nothing changes.

    Contiguous parameters of one dtype and device share one launch. With grad mode on, each line is
    recorded for autograd.
    """
    layouts = [[tensor._layout for tensor in column] for column in columns]
    # Layouts are interned: contiguous tensors of equal shape, dtype and device share one object.
    are_alike = layouts.count(layouts[0]) == len(layouts)
    if skip is None and are_alike and not is_grad_enabled() and layouts[0]:
        # Usually all parameters of a group have the same Kind.
        kinds = {*map(_kind, {*layouts[0]})}
        kind = kinds.pop()
        is_one = not (kinds or kind is None or kind[0].is_complex)
        if is_one and not are_on_device(numbers[0]):
            _launch(program, kind, columns, numbers)
            return
    if any(layout.dtype.is_complex for layout in {*chain.from_iterable(layouts)}):
        columns = [[as_real(tensor) for tensor in column] for column in columns]
        layouts = [[tensor._layout for tensor in column] for column in columns]
    at = 0
    for kind, count in _parts(layouts):
        part = [column[at : at + count] for column in columns]
        given = numbers[at : at + count]
        if given and not is_grad_enabled() and (skip is not None or are_on_device(given[0])):
            _launch_given(program, part, given, at, skip)
        elif kind is None:
            for *tensors, row in zip(*part, given, strict=True):
                _run_lines(program, tensors, row)
        else:
            _launch(program, kind, part, given)
        at += count


def as_real(tensor: Tensor) -> Tensor:
    """Return a complex tensor as a real view of its parts, and any other tensor unchanged.

    So real and imaginary parts are updated separately, as in PyTorch.
    """
    return view_as_real(tensor) if tensor._layout.dtype.is_complex else tensor


def alike_in_parts(like: Tensor, value: float) -> Tensor:
    """Return a Tensor like `like` filled with `value`, in complex numbers in both parts."""
    number = complex(value, value) if like._layout.dtype.is_complex else value
    return full_like(like, number).detach()


def _parts(layouts: Sequence[list[Layout]]) -> list[tuple[Kind, int]]:
    """Split the parameters into runs of equal Kind; return the Kind and length of each run."""
    if is_grad_enabled():
        return [(None, len(layouts[0]))]
    if layouts.count(layouts[0]) == len(layouts):
        kinds = {layout: _kind(layout) for layout in {*layouts[0]}}
        if len({*kinds.values()}) == 1:
            return [(kinds[layouts[0][0]], len(layouts[0]))]
    of_rows = [_kind(*row) for row in zip(*layouts, strict=True)]
    # Only consecutive parameters form a run, so that those that share memory stay in order.
    return [(kind, len([*alike])) for kind, alike in groupby(of_rows)]


def _kind(layout: Layout, *others: Layout) -> Kind:
    if layout.contiguous and all(other is layout for other in others):
        return layout.dtype, layout.device
    return None


def _launch(
    program: Program, kind: Any, columns: Sequence[list[Tensor]], numbers: Sequence[Sequence[Any]]
) -> None:
    first = numbers[0]
    if len({*map(id, numbers)}) == 1:  # the usual case: one row for all parameters
        rows = [[_number(value) for value in first]] * len(numbers)
    else:
        of_row = {id(row): row for row in numbers}
        plain = {key: [_number(value) for value in row] for key, row in of_row.items()}
        rows = [plain[id(row)] for row in numbers]
    apply = backend_of(kind[1].type).kernel("pointwise.multi_tensor.apply")
    arrays = [tensor._array for column in columns for tensor in column]
    try:
        apply(program, rows, *arrays)
    finally:
        # This also runs after an error (no memory, Ctrl-C): some tensors may have been written.
        for name, column in zip(program.arrays, columns, strict=True):
            if name in program.written:
                bump_all(column)


def _launch_given(
    program: Program,
    columns: list[list[Tensor]],
    numbers: Sequence[Sequence[Any]],
    at: int,
    skip: Tensor | None,
) -> None:
    """Run one launch per row of scalars, some of which are on the device. The parameters are those
    from position `at` on.
    """
    begin = 0
    for _, alike in groupby(numbers, id):
        end = begin + len([*alike])
        part = [column[begin:end] for column in columns]
        layout = part[0][0]._layout
        device, known = layout.device, list[float | None]()
        arrays = [] if skip is None else [skip.to(device)._array.reshape((1,))]
        for value in numbers[begin]:
            if not are_on_device([value]):
                known.append(_number(value))
                continue
            known.append(None)
            whole = value.detach().reshape(-1).to(device, float64)
            rows = whole.expand(end - begin) if len(whole) == 1 else whole[at + begin : at + end]
            arrays.append(rows.contiguous()._array)
        apply = backend_of(device.type).kernel("pointwise.multi_tensor.apply_given")
        packed = [[tensor.to(layout.dtype).contiguous() for tensor in column] for column in part]
        apply(program, known, skip is not None, *arrays, *[t._array for c in packed for t in c])
        for name, column, written in zip(program.arrays, part, packed, strict=True):
            if name in program.written:
                _write_back(column, written)
        begin = end


def _write_back(column: list[Tensor], written: list[Tensor]) -> None:
    """Copy results to non-contiguous parameters; all others were written in place."""
    bump_all([tensor for tensor, made in zip(column, written, strict=True) if made is tensor])
    for tensor, made in zip(column, written, strict=True):
        if made is not tensor:
            tensor.copy_(made)


def _number(value: Any) -> float:
    if value.__class__ is float:
        return value
    return float(value.item() if isinstance(value, Tensor) else value)


def _run_lines(program: Program, tensors: Sequence[Tensor], numbers: Sequence[Any]) -> None:
    values = dict(zip((*program.arrays, *program.numbers), (*tensors, *numbers), strict=True))
    for target, body in program.lines:
        names = [target, *(name for name in body.names if name != target)]
        fused(body.text, *names)(*[values[name] for name in names])
