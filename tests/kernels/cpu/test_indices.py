"""An out-of-range index raises in every kernel, and no memory around the arrays is written.

Kernels get the index without an earlier check, as if it had changed after the check.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module

import numpy as np
import pytest

from fastdist.kernels.cpu.index.indices import INSIDE
from fastdist.kernels.cpu.jit import background
from fastdist.kernels.cpu.rows import numpy_rows
from fastdist.kernels.cpu.rows.row_kernels import row_loop
from fastdist.kernels.cpu.rows.row_steps import KERNELS
from tests.forked import outcomes
from tests.kernels.index_calls import (
    BAD,
    CALLS,
    INDEX_NAMES,
    OTHER_NAMES,
    Room,
    compiled_functions,
    kernels_with_indices,
    names_of_parameters,
)


def call(name: str, *, large: bool) -> str:
    """Return how a kernel reacts to all bad indices; "raises" is the expected result."""
    kernels = import_module(f"fastdist.kernels.cpu.{name.rpartition('.')[0]}")
    for bad in BAD:
        room = Room()
        for number, one in enumerate(CALLS[name](kernels, room, large, bad)):
            try:
                one()
            except IndexError as error:
                if not any(letter.isdigit() for letter in str(error)):
                    return f"call {number}, {bad}: {error!r} does not say a number"
            except Exception as error:
                return f"call {number}, {bad}: {error!r}"
            else:
                return f"call {number}, {bad}: passes"
            if room.foreign:
                return f"call {number}, {bad}: writes outside"
    return "raises"


@pytest.mark.one_in(2)
@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
@pytest.mark.parametrize("serves", ["compiled", "numpy"])
def test_every_kernel_raises_for_an_index_that_nobody_checked(
    monkeypatch: pytest.MonkeyPatch, serves: str, large: bool
) -> None:
    if serves == "numpy":
        monkeypatch.setattr(background, "numpy_serves", lambda: True)
        monkeypatch.setattr(background, "compile_later", lambda *given: None)
    found = outcomes(CALLS, lambda name: call(name, large=large))
    assert found == dict.fromkeys(CALLS, "raises")


ROWS = [
    name for name, kernel in KERNELS.items() if any(kind == "places" for _, kind in kernel.operands)
]


def along_rows(name: str, run: Callable[..., None]) -> str:
    """Return how a loop along rows reacts to all bad indices; "reports" is the expected result."""
    for bad, (rows, n) in itertools.product(BAD, [(3, 7), (70, 1001)]):
        room, made = Room(), {}
        for operand, kind in KERNELS[name].operands:
            shape = {"rows": (rows, n), "outside": (1,)}.get(kind, (rows,))
            made[operand] = room.array(np.ones(shape), np.float32)
            if kind == "places":
                made[operand] = room.array(np.zeros(rows), np.int64)
                made[operand][rows // 2] = bad
            elif kind == "outside":
                made[operand] = wrong = room.array([INSIDE], np.int64)
        run(tuple(made.values()), rows, n, 1.0, 0.0)
        if wrong[0] != bad:
            return f"{bad} is reported as {wrong[0]}"
        if room.foreign:
            return f"{bad} writes outside"
    return "reports"


@pytest.mark.parametrize("serves", ["compiled", "numpy"])
def test_every_loop_along_rows_reports_a_place_that_a_row_does_not_have(serves: str) -> None:
    def run(name: str) -> str:
        if serves == "numpy":
            return along_rows(name, partial(numpy_rows.run, name))
        return along_rows(name, row_loop(name, "float32"))

    assert ROWS
    assert outcomes(ROWS, run) == dict.fromkeys(ROWS, "reports")


@pytest.mark.one_in(3)
def test_every_kernel_that_takes_indices_is_called_here() -> None:
    assert CALLS.keys() == kernels_with_indices().keys()


@pytest.mark.one_in(3)
def test_every_parameter_of_a_kernel_is_known_to_hold_indices_or_not() -> None:
    assert names_of_parameters() - INDEX_NAMES == OTHER_NAMES


# Numbers that compiled loops read from memory and may use as an index.
TRUSTED = {
    "nn.weighted_loops._along": "copies that weigh has made of its table, checked",
    "nn.weighted_loops.weigh": "copies that it has made of its table, checked",
    "nn.ctc_loops.losses": "a copy of the letters, checked",
    "nn.ctc_loops.gradient": "a copy of the letters, checked",
}


def _read_indices(function: ast.FunctionDef) -> Iterator[str]:
    """Yield the indices that a function reads from an array and uses without a check."""
    read = {
        target.id
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(function):
        if not isinstance(node, ast.Subscript):
            continue
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        for part in parts:
            is_read = isinstance(part, ast.Subscript) or (
                isinstance(part, ast.Name) and part.id in read
            )
            if is_read:
                yield ast.unparse(node)


@pytest.mark.one_in(3)
def test_no_compiled_loop_trusts_an_index_that_it_has_read() -> None:
    found = {
        name: used
        for name, function in compiled_functions().items()
        if (used := sorted(set(_read_indices(function))))
    }
    assert found.keys() == TRUSTED.keys(), (
        f"{found}: load it once, place = np.uint64(index[k]); compare place; use place"
    )
