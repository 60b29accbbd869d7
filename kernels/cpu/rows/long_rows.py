"""Reductions, softmax, norms and losses of many numbers along rows, by compiled loops.

NumPy makes one pass over memory for each step of a kernel. A loop of row_steps reads each row once
from memory, and later from the cache. The ordinary kernels serve inputs that are not in C order,
not float32 or float64, or reduced along other axes than the last ones.

As with the kernels for small arrays, only CallFacts decide which kernel runs. Each function here
returns the function that computes the results for these facts, or None if the ordinary kernel must
be used. Numba is loaded when a loop is first run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from fastdist.system.blas import read_cpu

from ..jit.array_objects import ARRAY, gapless, plain, require_arrays
from ..memory import maker_of
from ..silence import silent
from ..small.call_facts import LIMIT, TERMS, CallFacts, Run, ones
from . import numpy_rows
from .row_steps import PAIRED

Array = np.ndarray[Any, Any]
Launch = Callable[..., None]

# A long row is summed in parts of this length, which do not depend on the number of threads.
_PART: Final = 1 << 15
# The number of rows that one thread adds in sequence. A float32 sum has no more terms than this.
_BAND: Final = 32
DTYPES: Final = ("float32", "float64")
# Rows up to this size in bytes are reduced eight rows at a time; longer rows would not gain by it.
_SHORT_BYTES: Final = 512
# For rows up to this size, one vector per iteration is faster than two: the sums of 1e6 float32
# take 203 us instead of 315 in rows of 7, 71 us instead of 80 in rows of 32, but 59 us instead of
# 49 in rows of 64 (AMD EPYC, Zen 4).
_SHORTEST_BYTES: Final = 128
_AT_A_TIME: Final = 8
# Inputs of at least this many bytes come from memory. They are read in several streams if there are
# at least _MANY_ROWS rows. On a Zen 5 prefetching is used instead (see row_code), and streams were
# not measured.
_FAR_BYTES: Final = 1 << (62 if read_cpu().family == 26 else 24)
_MANY_ROWS: Final = 64
# Inputs below this many bytes are read two rows at a time, if they have at least _SOME_ROWS.
_NEAR_BYTES: Final = 1 << 24
_SOME_ROWS: Final = 16
_OF_SHORT_ROWS: Final = {"sum_of_rows": "sum", "top": "top", "bottom": "bottom"}


def loop_of(name: str, dtype: Any) -> Launch:
    """Return the function that runs a loop, with arguments (operands, rows, length, a=0, b=0)."""
    found: Launch | None = None

    def run(operands: tuple[Array, ...], rows: int, n: int, a: float = 0.0, b: float = 0.0) -> None:
        nonlocal found
        if found is None:
            found = _compiled_or_none(name, dtype)
            if found is None:
                numpy_rows.run(name, operands, rows, n, a, b)
                return
        found(operands, rows, n, a, b)

    return run


# Loops that the background thread has compiled: see background.py.
_compiled_later: dict[tuple[str, str], Launch] = {}


def _compiled_or_none(name: str, dtype: Any) -> Launch | None:
    """Return the compiled loop; None while NumPy must be used."""
    from ..jit.background import compile_later, numpy_serves

    if not numpy_serves():
        return _compiled(name, dtype)
    key = name, str(dtype.name)
    found = _compiled_later.get(key)
    if found is None:
        compile_later(("rows", key), lambda: _compiled_later.update({key: _compiled(name, dtype)}))
    return found


def _compiled(name: str, dtype: Any) -> Launch:
    from ..jit.waiting import waiting_for

    with waiting_for(f"{name} of {dtype.name} along rows"):
        from .row_kernels import row_loop

        loop = row_loop(name, dtype.name)
        for checks in (False, True):  # make both versions during the announced wait
            loop.prepare(1, 1, 0.0, 0.0, checks=checks)  # type: ignore[attr-defined]
        return loop


def bound(name: str, dtype: Any, rows: int, n: int, a: float = 0.0) -> Launch:
    """Return the function that runs a loop on `rows` rows of n elements, without checks."""
    loop = _compiled_or_none(name, dtype)
    if loop is None:
        later = loop_of(name, dtype)
        return lambda operands: later(operands, rows, n, a)
    run, words = loop.prepare(rows, n, a, 0.0)  # type: ignore[attr-defined]
    at = words.ctypes.data
    # The default argument keeps the words alive as long as the function.
    return lambda operands, _words=words: run(at, id(operands))


def result_by(name: str, final: Any, dtype: Any, rows: int, n: int, a: float = 0.0) -> Run:
    """Return the function that computes a result of shape `final`, by a loop over rows of n
    elements of one array in C order.

    Note    no Python call is between this function and the loop, because each would take a tenth of
            the time: the sum of 1e4 float32 takes 1.2 us, of which the loop takes 0.5 (AMD EPYC,
            Zen 4)
    """
    empty = maker_of(final, dtype)
    run: Callable[..., int | None] | None = None
    job, kept = 0, []

    def make(x: Array) -> Array:
        nonlocal run, job
        operands = x, empty(final, dtype)
        if run is None:
            loop = _compiled_or_none(name, dtype)
            if loop is None:
                numpy_rows.run(name, operands, rows, n, a)
                return operands[1]
            found, words = loop.prepare(rows, n, a, 0.0, checks=True)  # type: ignore[attr-defined]
            # Several threads may get here at the same time, and the words of each must stay alive.
            # `run` is set last, because it is tested above.
            kept.append(words)
            job = words.ctypes.data
            run = found
        if run(job, id(operands)):  # x is not an array, or its class is a subclass
            operands = plain(x), operands[1]
            run(job, id(operands))
        return operands[1]

    return make


def _reduced(facts: CallFacts) -> tuple[int, int] | None:
    """Return the number and length of the rows if the axes are the last ones and x is large."""
    shape, axes = facts.shapes[0], facts.numbers[0]
    if shape is None or not facts.contiguous[0] or not facts.one_dtype:
        return None
    if axes is None:
        axes = range(len(shape))
    first = len(shape) - len(axes)
    if math.prod(shape) <= LIMIT or tuple(axes) != tuple(range(first, len(shape))):
        return None
    return math.prod(shape[:first]), math.prod(shape[first:])


def _rows(facts: CallFacts) -> tuple[int, int] | None:
    """Return the number and length of the rows if the axis is the last one and x is not empty."""
    shape, axis = facts.shapes[0], facts.numbers[0]
    if not shape or axis != len(shape) - 1 or not facts.one_dtype or not math.prod(shape):
        return None
    return math.prod(shape[:-1]), shape[-1]


def _is_layer_norm(facts: CallFacts) -> bool:
    return facts.one_dtype and math.prod(facts.shape) > 0


def _of_parts(run: Launch, x: Array, dtypes: tuple[Any, ...], a: float) -> list[Array]:
    """Return the results of `run` over parts of x, which is contiguous, as arrays of `dtypes`."""
    parts, rest = divmod(x.size, _PART)
    x = x.reshape(-1)
    outs = [np.empty(parts + (rest > 0), dtype) for dtype in dtypes]
    run((x, *outs), parts, _PART, a)
    if rest:
        run((x[-rest:], *[out[parts:] for out in outs]), 1, rest, a)
    return outs


def _apart(facts: CallFacts, name: str) -> str:
    """Return the name of the loop that reads large inputs in streams, or `name` if x is smaller."""
    size_bytes = math.prod(facts.shapes[0] or ()) * int(facts.dtype.itemsize)
    return f"{name}_apart" if size_bytes >= _FAR_BYTES else name


def _paired(name: str, rows: int, n: int, dtype: Any, *, far: bool = False) -> str:
    """Return the name of the loop that reads two rows at a time, or `name` if that is not faster.

    Two rows at a time are faster for data in near caches. `far` says that this loop is also faster
    for data that fits no cache.
    """
    row_bytes = n * int(dtype.itemsize)
    size_bytes = rows * row_bytes
    fits = size_bytes < _NEAR_BYTES or (far and size_bytes >= _FAR_BYTES)
    return f"{name}_paired" if fits and rows >= _SOME_ROWS and row_bytes > _SHORT_BYTES else name


def _one_number_a_row(
    facts: CallFacts, name: str, a: float, whole: Run | None = None
) -> Run | None:
    """Return the function for a reduction of rows by the loop `name`; `whole` reduces one
    long row.
    """
    found = _reduced(facts)
    if found is None:
        return None
    rows, n = found
    dtype, final = facts.dtype, facts.shape if facts.view_shape is None else facts.view_shape
    if rows == 1 and n > 8 * _PART and whole is not None:
        make, array = whole, np.array
        return lambda x: array(make(x), dtype).reshape(final)
    row_bytes = n * int(dtype.itemsize)
    if rows >= _AT_A_TIME and row_bytes <= _SHORT_BYTES:
        short = "shortest" if row_bytes <= _SHORTEST_BYTES else "short"
        name = f"{_OF_SHORT_ROWS[name]}_of_{short}_rows" if name in _OF_SHORT_ROWS else name
    elif name in PAIRED:
        far = _apart(facts, name) if rows >= _MANY_ROWS else name
        name = _paired(name, rows, n, dtype) if far == name else far
    return result_by(name, final, dtype, rows, n, a)


@silent
def sum(facts: CallFacts, scale: float = 1.0) -> Run | None:
    """Return the function for the sum over the last axes, or over all axes, times `scale`."""
    found = _reduced(facts)
    if found is None or found[0] > 1 or found[1] <= 8 * _PART:
        return _one_number_a_row(facts, "sum_of_rows", scale)
    n, dtype, wide = found[1], facts.dtype, np.dtype(np.float64)
    final = facts.shape if facts.view_shape is None else facts.view_shape
    parts, rest = divmod(n, _PART)
    count, whole, loop = parts + (rest > 0), parts * _PART, _apart(facts, "sum")
    # After a loop has filled the caches, np.add.reduce takes 1.5 us, and dot takes 0.6 us.
    add = ones(count, wide).dot if count <= TERMS else np.add.reduce
    empty, array, array_type = np.empty, np.array, ARRAY
    along: Launch | None = None
    behind: Launch | None = None

    def add_up(x: Array) -> Array:
        nonlocal along, behind
        if along is None or behind is None:
            behind = bound(loop, dtype, 1, rest)
            along = bound(loop, dtype, parts, _PART)
        if type(x) is not array_type:
            require_arrays(x)
        x, totals = x.reshape(-1), empty(count, wide)
        along((x, totals))
        if rest:
            behind((x[whole:], totals[parts:]))
        made = array(add(totals) * scale, dtype)
        return made.reshape(final) if final else made

    return add_up


def mean(facts: CallFacts) -> Run | None:
    """Return the function for the mean over the last axes, or over all axes."""
    found = _reduced(facts)
    return None if found is None else sum(facts, 1.0 / found[1])


@silent
def extreme(facts: CallFacts, name: str) -> Run | None:
    """Return the function for the largest ("top") or smallest ("bottom") number over the last axes;
    NaN if one is NaN.
    """
    run, dtype = loop_of(_apart(facts, name), facts.dtype), facts.dtype
    reduce = np.maximum.reduce if name == "top" else np.minimum.reduce
    return _one_number_a_row(
        facts, name, 0.0, lambda x: reduce(_of_parts(run, x, (dtype,), 0.0)[0])
    )


@silent
def var(facts: CallFacts, name: str = "var_of_rows") -> Run | None:
    """Return the function for the variance over the last axes, or over all axes."""
    found = _reduced(facts)
    if found is None:
        return None
    n = found[1]
    left = max(n - facts.numbers[1], 0.0)
    scale = 1.0 / left if left else math.inf
    total = loop_of(_apart(facts, "sum"), facts.dtype)
    deviate = loop_of("deviations", facts.dtype)
    number, add = facts.dtype.type, np.add.reduce

    def whole(x: Array) -> Any:
        centre = float(number(add(_of_parts(total, x, (np.float64,), 0.0)[0]) / n))
        rest, squares = map(add, _of_parts(deviate, x, (np.float64,) * 2, centre))
        return (squares - rest * (rest / n)) * scale

    return _one_number_a_row(facts, name, scale, whole)


@silent
def std(facts: CallFacts) -> Run | None:
    """Return the function for the standard deviation."""
    square = var(facts, "std_of_rows")
    found = _reduced(facts)
    if square is None or found is None or found[0] > 1 or found[1] <= 8 * _PART:
        return square
    sqrt = np.sqrt

    def root(x: Array) -> Any:
        found = square(x)
        return sqrt(found, found)

    return root


@silent
def norm(facts: CallFacts) -> Run | None:
    """Return the function for the Euclidean norm over the last axes, or over all axes."""
    if facts.numbers[1] != 2.0:
        return None
    run, add, sqrt = loop_of(_apart(facts, "squares"), facts.dtype), np.add.reduce, np.sqrt

    def whole(x: Array) -> Any:
        return sqrt(add(_of_parts(run, x, (np.float64,), 0.0)[0]))

    return _one_number_a_row(facts, "norm_of_rows", 0.0, whole)


def logsumexp(facts: CallFacts) -> Run | None:
    """Return the function for log(sum(exp(x))) over the last axes."""
    return _one_number_a_row(facts, "logsumexp", 0.0)


def reduction_gradient(
    facts: CallFacts, name: str, a: float = 0.0
) -> tuple[Run | None, ...] | None:
    """Return the function for the gradient of a reduction, by the loop `name`. The function takes
    g, x, and the result if the result is an operand of the loop.
    """
    found = _reduced(facts)
    if found is None:
        return None
    rows, n = found
    dtype, shape = facts.dtype, facts.shapes[0] or ()
    run, empty = loop_of(name, dtype), maker_of(shape, dtype)

    def by_input(g: Array, *others: Array) -> Array:
        made = empty(shape, dtype)
        run((*gapless(g, *others), made), rows, n, a)
        return made

    return (by_input,)


def var_gradient(facts: CallFacts) -> tuple[Run | None, ...] | None:
    """Return the function for the gradient of the variance, from g and x."""
    found = _reduced(facts)
    left = 0.0 if found is None else found[1] - facts.numbers[1]
    # A division by 0 is left to the ordinary kernel.
    return reduction_gradient(facts, "var_gradient", 2.0 / left) if left > 0 else None


def mapped(facts: CallFacts, name: str) -> Run | None:
    """Return a function that runs the loop `name` on rows along the last axis, with a result of the
    same shape.
    """
    rows = _rows(facts)
    if rows is not None and facts.contiguous[0]:
        return result_by(name, facts.shape, facts.dtype, *rows)
    return _mapped_of_several(facts, name)


def mapped_gradient(facts: CallFacts, name: str) -> tuple[Run | None, ...] | None:
    """Return the function for the gradient by the loop `name`, from g and the result."""
    found = _mapped_of_several(facts, name)
    return None if found is None else (found,)


def _mapped_of_several(facts: CallFacts, name: str) -> Run | None:
    rows = _rows(facts)
    if rows is None:
        return None
    shape, dtype = facts.shape, facts.dtype
    run, empty = loop_of(name, dtype), maker_of(shape, dtype)

    def many_rows(*arrays: Array) -> Array:
        made = empty(shape, dtype)
        run((*gapless(*arrays), made), *rows)
        return made

    return many_rows


def layer_norm(facts: CallFacts) -> Run | None:
    """Return the function for layer norm of a matrix. It returns the result, and the mean and
    deviation of each row.
    """
    if not _is_layer_norm(facts):
        return None
    shape, dtype, eps, array_type = facts.shape, facts.dtype, float(facts.numbers[0]), ARRAY
    weight_given, bias_given = (one is not None for one in facts.shapes[1:])
    in_order = _are_in_order(facts)
    one, nothing = np.ones(shape[1], dtype), np.zeros(shape[1], dtype)
    column, small_empty, empty, launch = (shape[0], 1), np.empty, maker_of(shape, dtype), None
    loop = _paired("layer_norm", shape[0], shape[1], dtype, far=True)

    def many_rows(x: Array, weight: Any, bias: Any) -> tuple[Array, Array, Array]:
        nonlocal launch
        out, mean = empty(shape, dtype), small_empty(column, dtype)
        deviation = small_empty(column, dtype)
        weight, bias = weight if weight_given else one, bias if bias_given else nothing
        if not (in_order and type(x) is type(weight) is type(bias) is array_type):
            x, weight, bias = gapless(x, weight, bias)
        if launch is None:
            launch = bound(loop, dtype, shape[0], shape[1], eps)
        launch((x, weight, bias, out, mean, deviation))
        return out, mean, deviation

    return many_rows


def _are_in_order(facts: CallFacts) -> bool:
    """Return whether all given inputs are in C order."""
    return all(
        is_in_order or shape is None
        for is_in_order, shape in zip(facts.contiguous, facts.shapes, strict=True)
    )


def layer_norm_gradient(facts: CallFacts) -> tuple[Run | None, ...] | None:
    """Return functions for the gradients of layer norm by input, weight and bias, computed
    together.
    """
    if not _is_layer_norm(facts):
        return None
    (rows, n), dtype = facts.shape, facts.dtype
    one, empty = np.ones(n, dtype), maker_of((rows, n), dtype)
    alone = loop_of(_paired("layer_norm_gradient", rows, n, dtype), dtype)
    # Short rows are not read two at a time, so one pass for all gradients is faster. Forward and
    # backward of 1e6 float32 in rows of 64 take 776 us with one pass and 839 us with two. In rows
    # of 160 they take 620 us either way, and in rows of 250 two passes are faster, because memory
    # is the bottleneck (one core of an AMD EPYC, Zen 4).
    in_one_pass = n * dtype.itemsize <= _SHORT_BYTES
    with_parameters = (_added_in_bands if in_one_pass else _added_in_columns)(rows, n, dtype)

    def by_all(g: Array, others: Any, x: Array, weight: Any, wanted: Any) -> tuple[Any, Any, Any]:
        made = None
        if wanted[0]:
            made = empty((rows, n), dtype)
            given = (*gapless(g, x, *others, one if weight is None else weight), made)
        else:
            given = (*gapless(g, x, *others),)
        if wanted[1] or wanted[2]:
            return made, *with_parameters(given)
        alone(given, rows, n)
        return made, None, None

    return by_all, None, None


# A function that takes g, x, means and deviations, and returns the gradients by weight and bias. If
# the gradient by x is needed, the function also takes weight and an output for that gradient.
WithParameters = Callable[[tuple[Array, ...]], tuple[Array, Array]]


def _added_in_bands(rows: int, n: int, dtype: Any) -> WithParameters:
    bands = -(-rows // _BAND)
    of_bands = (n,) if bands == 1 else (bands, n)
    everything, down = loop_of("layer_norm_gradients", dtype), loop_of("normal_bands", dtype)
    join, large, empty = loop_of("both_columns", dtype), maker_of(of_bands, dtype), np.empty

    def make(given: tuple[Array, ...]) -> tuple[Array, Array]:
        totals = large(of_bands, dtype), large(of_bands, dtype)
        (everything if len(given) > 4 else down)((*given, *totals), bands, n, rows, _BAND)
        if bands == 1:
            return totals
        made = empty(n, dtype), empty(n, dtype)
        join((*totals, *made), bands, n, 1.0)
        return made

    return make


@silent
def _added_in_columns(rows: int, n: int, dtype: Any) -> WithParameters:
    alone = loop_of(_paired("layer_norm_gradient", rows, n, dtype), dtype)
    down = loop_of("normal_columns", dtype)
    empty, divide, one = np.empty, np.divide, dtype.type(1)

    def make(given: tuple[Array, ...]) -> tuple[Array, Array]:
        if len(given) > 4:
            alone(given, rows, n)
        g, x, mean, deviation = given[:4]
        made = empty(n, dtype), empty(n, dtype)
        down((g, x, mean, divide(one, deviation), *made), rows, n, 1.0)
        return made

    return make


def rms_norm(facts: CallFacts) -> Run | None:
    """Return the function for RMS norm of a matrix. It returns the result and each row's factor."""
    if not _is_layer_norm(facts):
        return None
    shape, dtype = facts.shape, facts.dtype
    eps, column, in_order = float(facts.numbers[0]), (shape[0], 1), _are_in_order(facts)
    one, empty, small_empty = np.ones(shape[1], dtype), maker_of(shape, dtype), np.empty
    array_type, launch = ARRAY, None

    def many_rows(x: Array, weight: Any) -> tuple[Array, Array]:
        nonlocal launch
        out, scale = empty(shape, dtype), small_empty(column, dtype)
        if weight is None:
            weight = one
        if not (in_order and type(x) is type(weight) is array_type):
            x, weight = gapless(x, weight)
        if launch is None:
            launch = bound("rms_norm", dtype, shape[0], shape[1], eps)
        launch((x, weight, out, scale))
        return out, scale

    return many_rows


def rms_norm_gradient(facts: CallFacts) -> tuple[Run | None, ...] | None:
    """Return functions for the gradients of RMS norm by its input and weight."""
    if not _is_layer_norm(facts):
        return None
    shape, dtype = facts.shape, facts.dtype
    along, down = loop_of("rms_norm_gradient", dtype), loop_of("scaled_columns", dtype)
    one, empty = np.ones(shape[1], dtype), maker_of(shape, dtype)

    def by_input(g: Array, others: Any, x: Array, weight: Any) -> Array:
        made, (scale,) = empty(shape, dtype), others
        along((*gapless(g, x, one if weight is None else weight, scale), made), *shape)
        return made

    def by_weight(g: Array, others: Any, x: Array) -> Array:
        total, (scale,) = np.empty(shape[1], dtype), others
        down((*gapless(g, x, scale), total), *shape, 1.0)
        return total

    return by_input, by_weight
