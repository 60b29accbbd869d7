"""Kernels along rows that first run NumPy calls, and later compiled loops with the same results.

A program with few calls never loads the compiler, and no call waits for it: after some calls a
thread loads stored loops, and after more calls it compiles missing ones. See Note [The same bits].
"""

# Note [The same bits]
# Each kernel of small_row_steps has two versions: NumPy calls (numpy_twins.py) and a compiled loop
# (exact_row_code.py). Both give the same bits, so it does not matter when the loop is ready, or
# whether it ever is. Before a loop is used, it is compared with the NumPy version on rows of
# several lengths. If the results differ, for example because a version of NumPy adds in another
# order, only NumPy is used. A softmax of 8 x 64 float32 takes 16 us with NumPy: 10 us are for exp,
# which uses the same operations as the loop. The loop takes 0.33 us (AMD EPYC, Zen 5).
from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from ..index.indices import ALL_INSIDE
from ..jit.array_objects import require_arrays
from ..small.call_facts import Run
from .numpy_twins import twin
from .row_steps import Row
from .small_row_steps import SMALL
from .small_tables import log_loop, table

if TYPE_CHECKING:
    import logging

Array = np.ndarray[Any, Any]
Key = tuple[str, str]

# If loops are not stored, NumPy serves this many calls of a process before the compiler is loaded.
CALLS_BEFORE: Final = 20_000
# NumPy serves this many calls of a kernel before the kernel's loop is looked up in the store of
# compiled kernels: the loop saves 10 to 20 us per call, and the look-up takes 2 to 4 ms. If another
# kernel has loaded the needed modules (0.3 MB), the look-up is made at the first call.
CALLS_BEFORE_A_LOOK: Final = 200
_COMPILER: Final = f"{__package__.rpartition('.')[0]}.jit.compiler"
_READER: Final = f"{__package__.rpartition('.')[0]}.jit.kernel_cache"
# The result of `loaded` if the loop is not stored.
MISSING: Final = "missing"
_COMPARED: Final = ((3, 7), (2, 64), (1, 300))


class _State:
    # The number of calls that NumPy has served, in total and for each kernel.
    calls = 0
    calls_of: ClassVar[dict[Key, int]] = {}
    loops: ClassVar[dict[Key, Any]] = {}
    # Kernels that are not stored, and kernels that only NumPy may compute.
    missing: ClassVar[set[Key]] = set()
    refused: ClassVar[set[Key]] = set()


def _logger() -> logging.Logger:
    import logging  # imported late: 0.3 MB, which most processes do not need

    return logging.getLogger(__name__)


def loop_or_none(name: str, dtype: Any) -> Any:
    """Return the compiled loop with this name; None while NumPy must be used.

    Thread  any
    """
    key = name, str(dtype.name)
    found = _State.loops.get(key)
    if found is None and key not in _State.refused:
        _State.calls += 1
        calls = _State.calls_of[key] = _State.calls_of.get(key, 0) + 1
        if _State.calls > CALLS_BEFORE or _COMPILER in sys.modules:
            _later(key, compiled)
        elif key not in _State.missing and (calls > CALLS_BEFORE_A_LOOK or _READER in sys.modules):
            _later(key, loaded)
    return found


def _later(key: Key, find: Callable[[str, str], Any]) -> None:
    """Let the background thread call `find`, which is `loaded` or `compiled`."""
    from ..jit.background import compile_later

    def find_it() -> None:
        try:
            found = find(*key)
        except Exception:  # a missing loop must not make an op fail
            _State.refused.add(key)
            _logger().warning("%s of %s stays with NumPy: it does not compile", *key, exc_info=True)
            return
        if found is MISSING:
            _State.missing.add(key)
        elif found is None:
            _State.refused.add(key)
            _logger().info("%s of %s stays with NumPy: a compiled loop makes other bits", *key)
        else:
            _State.loops[key] = found

    compile_later(("exact rows", find.__name__, key), find_it)


def compiled(name: str, dtype: str) -> Any:
    """Return the compiled loop with this name, or None if its results differ from NumPy's."""
    if log_loop() is None:
        return None
    from .row_kernels import row_loop

    return _compared(row_loop(name, dtype), name, dtype)


def loaded(name: str, dtype: str) -> Any:
    """Return the stored loop in the form of `compiled`; MISSING if it is not stored."""
    if log_loop() is None:
        return None
    from .row_kernels import stored_row_loop

    loop = stored_row_loop(name, dtype)
    return MISSING if loop is None else _compared(loop, name, dtype)


def _compared(loop: Any, name: str, dtype: str) -> Any:
    """Return `loop`, or None if its results differ from NumPy's in any bit."""
    for checks in (False, True):
        loop.prepare(1, 1, 0.0, 0.0, checks=checks)
    row, kind = SMALL[name], np.dtype(dtype)
    for rows, n in _COMPARED:
        a, b = (float(rows), 32.0) if row.has_bands else (1.0 if row.has_groups else 0.37, 1.0)
        count = 1 if row.has_bands else rows
        given = _operands(row, kind, rows, n)
        by_numpy, by_loop = (tuple([one.copy() for one in given]) for _ in range(2))
        twin(row, kind, count, n, a, b)(by_numpy)
        loop(by_loop, count, n, a, b)
        if any(x.tobytes() != y.tobytes() for x, y in zip(by_numpy, by_loop, strict=True)):
            return None
    return loop


def _operands(row: Row, dtype: Any, rows: int, n: int) -> list[Array]:
    """Return operands for the comparison: numbers of both signs, in a fixed sequence."""
    made = []
    for place, (_, kind) in enumerate(row.operands):
        shape = {"rows": (rows, n), "columns": (n,)}.get(kind, (rows,))
        if kind in ("bands", "turns", "turn_sums"):
            shape = (1, n)
        elif kind == "turn_numbers":
            shape = (1,)
        if kind == "table":
            made.append(table(n))
        elif kind == "outside":
            made.append(ALL_INSIDE.copy())
        elif kind == "sum":
            made.append(np.zeros((), dtype))
        elif kind == "places":
            made.append(np.arange(rows) % n)
        else:
            turns = np.arange(np.prod(shape), dtype=np.int64) * (7 + place) % 101
            values = (turns - (0 if kind == "numbers" else 50)).reshape(shape) / 13 + 0.1
            made.append(values.astype(dtype))
    return made


def bound(name: str, dtype: Any, rows: int, n: int, a: float = 0.0, b: float = 0.0) -> Run:
    """Return the function that runs a kernel over a tuple of operands. The last operand is the
    table for n. Types are not checked.
    """
    by_numpy: Run | None = None
    run: Callable[[int, int], Any] | None = None
    job, kept = 0, []

    def launch(operands: tuple[Array, ...]) -> None:
        nonlocal run, job, by_numpy
        if run is not None:
            run(job, id(operands))
            return
        loop = loop_or_none(name, dtype)
        if loop is None:
            if by_numpy is None:
                by_numpy = twin(SMALL[name], dtype, rows, n, a, b)
            by_numpy(operands)
            return
        found, words = loop.prepare(rows, n, a, b)
        kept.append(words)  # all are kept, because several threads may make words at the same time
        job = words.ctypes.data
        run = found
        found(words.ctypes.data, id(operands))

    return launch


def result_by(name: str, final: Any, dtype: Any, rows: int, n: int, a: float = 0.0) -> Run:
    """Return the function that computes a result of shape `final` from one array in C order.

    Note    no Python call is between this function and the loop, because each would take a tenth of
            the time
    """
    empty, lengths, array_type = np.empty, table(n), np.ndarray
    by_numpy: Run | None = None
    run: Callable[[int, int], Any] | None = None
    job, kept = 0, []

    def make(x: Array) -> Array:
        nonlocal run, job, by_numpy
        operands = x, empty(final, dtype), lengths
        if run is None:
            if type(x) is not array_type:
                require_arrays(x)
            loop = loop_or_none(name, dtype)
            if loop is None:
                if by_numpy is None:
                    by_numpy = twin(SMALL[name], dtype, rows, n, a, 0.0)
                by_numpy(operands)
                return operands[1]
            found, words = loop.prepare(rows, n, a, 0.0, checks=True)
            kept.append(words)
            job = words.ctypes.data
            run = found
        if run(job, id(operands)):  # x is not an array, or its class is a subclass
            require_arrays(x)
            operands = np.asarray(x), operands[1], lengths
            run(job, id(operands))
        return operands[1]

    return make
