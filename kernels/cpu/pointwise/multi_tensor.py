"""One program over many tensors on the CPU: a single launch processes a table of their addresses.

Arithmetic is not the bottleneck of an optimizer step. With ten million numbers, each read and
written once, the bottleneck is memory bandwidth. With a thousand tensors of a thousand numbers, it
is the overhead per tensor. So all lines of a program are compiled to one loop, which holds an
element's values in registers, and compiled code calls the loop for each tensor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from fastdist.language.program import Program

from ..jit.array_objects import require_arrays
from ..reduce.reductions import norm
from ..silence import silent
from .numpy_pointwise import fold
from .pointwise import CHEAP_LIMIT, PointwiseKernel, kernel_for

Array = np.ndarray[Any, Any]
Numbers = Sequence[float]
# Sums of squares over at most this many elements use BLAS. With BLAS, longer sums in float32 would
# lose digits, and would depend on the number of threads.
_DOT_LIMIT: Final = 8192

# If the tensors of a variable have more elements than this in total, a launch is compiled. So steps
# over small models never wait for Numba, which also needs 115 MB. A launch that exists is used for
# any number of elements. A step of Adam over four parameters takes, in us, line by line and with a
# launch (one core of an AMD EPYC, Zen 5): 40 and 25 if each parameter has 64 elements, 51 and 26
# for 2048 elements, 62 and 27 for 4096.
LIMIT: Final = CHEAP_LIMIT


def apply(program: Program, numbers: Sequence[Numbers], *arrays: Array) -> None:
    """Run a program on several rows of arrays; a row has one array for each program variable.
    `numbers` has, for each row, the program's scalars. `arrays` holds the arrays for the first
    variable, row by row, then the arrays for the second variable, and so on.

    The arrays of a row have the same shape; all have one dtype and are in C order. If rows share
    memory, each row is finished before the next one begins.

    The speed is limited by memory bandwidth: each element is read and written once. Elements are
    independent, so results are the same for any number of threads. They are also the same as if one
    line ran after the other: operations of different lines are not fused, and each line's result is
    rounded to the dtype.
    """
    _apply(program, numbers, arrays, is_new=False)


def apply_new(program: Program, numbers: Sequence[Numbers], *arrays: Array) -> None:
    """Run a program as `apply` does. The program writes only its first variable, whose arrays are
    new memory, so no check for shared memory is needed.
    """
    _apply(program, numbers, arrays, is_new=True)


def _apply(
    program: Program, numbers: Sequence[Numbers], arrays: tuple[Array, ...], *, is_new: bool
) -> None:
    rows, dtype = len(numbers), arrays[0].dtype
    if dtype.itemsize >= 4:
        launch = program.readings.get(dtype)
        if launch is None and _is_time_to_look(program, dtype):
            launch = _stored_launch(program, dtype)
        elif launch is None and sum([array.size for array in arrays[:rows]]) > LIMIT:
            from ..jit.background import is_numpys_turn

            if is_numpys_turn(_compile, program, dtype):
                _by_lines(program, numbers, arrays, by_numpy=True)
                return
            launch = _compile(program, dtype)
        if launch is not None and launch(numbers, arrays, is_new):
            return
    _by_lines(program, numbers, arrays)


# The number of small steps before a program's launch is looked up in the store of compiled kernels.
# A look-up takes 3 ms and 1 MB. A step with a launch takes less time than with NumPy: 26 us instead
# of 62 for Adam over ten parameters of 64 elements (AMD EPYC, Zen 3). Programs with few steps never
# pay for the look-up.
STEPS_BEFORE_A_LOOK: Final = 50


def _is_time_to_look(program: Program, dtype: Any) -> bool:
    """Count a step of a program; return whether to look up its launch in the store in this step.

    Note    with several threads, steps may be miscounted, and the launch may be looked up twice
            with the same result
    """
    key = "steps", dtype
    steps = program.readings[key] = program.readings.get(key, 0) + 1
    return bool(steps == STEPS_BEFORE_A_LOOK)


def _stored_launch(program: Program, dtype: Any) -> Callable[..., bool] | None:
    """Return a program's launch from the store of compiled kernels, or None if it is not there."""
    from .multi_tensor_launch import is_stored, launcher

    results = {name: fold(tree) for name, tree in program.results().items()}
    if not is_stored(program, results, dtype):
        return None
    found = program.readings[dtype] = launcher(program, results, dtype)
    return found


@silent
def norms(order: float, *arrays: Array) -> None:
    """Write the norms, of order 1, 2 or infinity, of arrays in C order. `arrays` has the outputs,
    arrays of one element, before the inputs.
    """
    rows = len(arrays) // 2
    for out, x in zip(arrays[:rows], arrays[rows:], strict=True):
        if order == 2.0 and x.size <= _DOT_LIMIT:
            flat = x.reshape(-1)
            out[()] = math.sqrt(flat.dot(flat))
        else:
            norm(x, out, tuple(range(x.ndim)), order)


def apply_given(
    program: Program, numbers: Sequence[float | None], skips: bool, *arrays: Array
) -> None:
    """Run a program as `apply` does, with some scalars in arrays. `numbers` has the program's
    scalars, which are the same for all rows. For each None in `numbers`, `arrays` begins with a
    float64 vector that has one scalar for each row. If `skips` is true, a float32 array with one
    element precedes these vectors: nothing is written if that element is not 0.
    """
    first = skips + list(numbers).count(None)
    if skips and arrays[0].item():
        return
    count = (len(arrays) - first) // len(program.arrays)
    columns = iter(arrays[skips:first])
    by_number = [
        [number] * count if number is not None else next(columns).tolist() for number in numbers
    ]
    rows = [list(row) for row in zip(*by_number, strict=True)] or [[]] * count
    apply(program, rows, *arrays[first:])


def apply_watched(program: Program, numbers: Sequence[float | None], *arrays: Array) -> None:
    """Run a program as `apply_given` does, without `skips`. `arrays` begins with a flag, a float32
    array with one element. The flag is set to 1 if an element of the program's first variable is
    not finite before the program runs.
    """
    flag, *others = arrays
    first = list(numbers).count(None)
    count = (len(others) - first) // len(program.arrays)
    if not all(np.isfinite(array).all() for array in others[first : first + count]):
        flag.fill(1.0)
    apply_given(program, numbers, False, *others)


def take(column: Array, *kept: Array) -> None:
    """Copy the elements of one-element arrays, which have column's dtype, to `column` in order."""
    for place, one in enumerate(kept):
        column[place] = one.reshape(())


def put(column: Array, *kept: Array) -> None:
    """Write the elements of a column to arrays of one element: the inverse of take."""
    for place, one in enumerate(kept):
        one[...] = column[place]


def _by_lines(
    program: Program, numbers: Sequence[Numbers], arrays: Sequence[Array], *, by_numpy: bool = False
) -> None:
    """Do the same as `apply`, with one kernel call for each line and row; by_numpy=True prevents
    compiled kernels.
    """
    rows, dtype = len(numbers), arrays[0].dtype
    lines = program.readings.get("lines")
    if lines is None:
        lines = program.readings["lines"] = _lines(program)
    is_half = dtype.itemsize < 4
    if rows > 1 and not is_half and _by_columns(program, lines, numbers, arrays):
        return
    before: Any = None
    constants: list[Array] = []
    for row, given in enumerate(numbers):
        # Usually `numbers` has the same object for all rows, so its constants are made only once.
        if given is not before:
            before, constants = given, [np.asarray(number, dtype) for number in given]
        values = [*arrays[row::rows], *constants]
        for kernel, operands, target in lines:
            compute = kernel.run_small if by_numpy else kernel.compute
            run = kernel.run if is_half else compute
            run([values[i] for i in operands], values[target])


# Note [Rows as one]
# Rows are joined if they have the same scalars and share no memory. Each line of the program then
# runs once over the elements of all rows, with the same result for each element. Joining ten arrays
# of 64 elements takes 1.3 us, writing one of them back takes 0.2 us, and a ufunc call takes 0.5 us.
# A step of Adam over ten parameters takes 37 us with joined rows, and 78 us row by row (AMD EPYC,
# Zen 3).
def _by_columns(
    program: Program,
    lines: Sequence[tuple[PointwiseKernel, list[int], int]],
    numbers: Sequence[Numbers],
    arrays: Sequence[Array],
) -> bool:
    """Run each line of the program once over the joined rows, and return True. If the rows do not
    all have the same scalars (one object in `numbers`), may share memory, or are large, run nothing
    and return False.
    """
    rows, given, dtype = len(numbers), numbers[0], arrays[0].dtype
    if any(row is not given for row in numbers) or arrays[0].size * rows > 2 * LIMIT:
        return False
    columns = [arrays[i : i + rows] for i in range(0, len(arrays), rows)]
    written = [i for i, name in enumerate(program.arrays) if name in program.written]
    owners = {id(array) for i in written for array in columns[i] if array.base is None}
    if len(owners) < rows * len(written):
        return False  # an array is a view, or occurs twice
    for i, column in enumerate(columns):
        if i not in written and any(id(a) in owners or id(a.base) in owners for a in column):
            return False
    require_arrays(*arrays)  # np.concatenate would also accept numbers and lists
    joined = [np.concatenate(column, None) for column in columns]
    if joined[0].size > LIMIT:
        return False
    values = [*joined, *[np.asarray(number, dtype) for number in given]]
    for kernel, operands, target in lines:
        # Single rows are small enough for NumPy. The joined size must not cause a compilation.
        kernel.run_small([values[i] for i in operands], values[target])
    for i in written:
        _write_apart(joined[i], columns[i])
    return True


def _write_apart(joined: Array, column: Sequence[Array]) -> None:
    """Copy the parts of a joined column back to its arrays."""
    shape = column[0].shape
    if all(array.shape == shape for array in column):
        for array, part in zip(column, joined.reshape(len(column), *shape), strict=True):
            array[...] = part
        return
    at = 0
    for array in column:
        end = at + array.size
        array[...] = joined[at:end].reshape(array.shape)
        at = end


def _lines(program: Program) -> list[tuple[PointwiseKernel, list[int], int]]:
    """Return for each line its kernel, the indices of the values that it reads (arrays first), and
    the index of the array that it writes.
    """
    place = {name: i for i, name in enumerate((*program.arrays, *program.numbers))}
    return [
        (kernel_for(body), [place[name] for name in body.names], place[target])
        for target, body in program.lines
    ]


def _compile(program: Program, dtype: Any) -> Callable[..., bool]:
    from ..jit.waiting import compiling, waiting_for

    what = f"a step over many tensors of {dtype.name}"
    with waiting_for(what):
        # Imported late, because small tensors never need it: a launch may import Numba, in 0.3 s.
        from .multi_tensor_launch import launcher

        with compiling(what):
            found: Callable[..., bool] | None = program.readings.get(dtype)
            if found is None:
                results = {name: fold(tree) for name, tree in program.results().items()}
                found = program.readings[dtype] = launcher(program, results, dtype)
            return found
