"""CUDA programs over many tensors, run on the CPU shim, against the CPU kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from fastdist.kernels.cpu.pointwise import multi_tensor as cpu
from fastdist.kernels.cuda.pointwise.multi_tensor import plan, plan_given, plan_norms
from fastdist.language.program import read_program
from tests.fibre_shim.driver import run

PROGRAM = read_program(
    "m = m + new * (g - m)\np = p * keep - rate * m",
    ("p", "g", "m"),
    ("new", "keep", "rate"),
)


TWO_OF_THEM = "p = p * keep - rate * g"


def both(
    program: Any, numbers: list[list[float]], given: list[np.ndarray]
) -> tuple[list[np.ndarray], list[np.ndarray], list[str]]:
    """Return the arrays after the CPU kernel and after the launches, and the kernels' names."""
    on_cpu, on_cuda = ([one.copy() for one in given] for _ in range(2))
    cpu.apply(program, numbers, *on_cpu)
    launches = plan(program, numbers, on_cuda)
    run(launches, 0)
    return on_cpu, on_cuda, [step.name for step in launches]


def arrays(shapes: Sequence[tuple[int, ...]], count: int, dtype: str) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [random.random(shape).astype(dtype) for _ in range(count) for shape in shapes]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_each_row_runs_all_lines_in_order(dtype: str) -> None:
    shapes = [(5,), (2, 3), (0,), (300,), (9000,)]
    numbers = [[0.1, 0.9, 0.5]] * len(shapes)
    on_cpu, on_cuda, names = both(PROGRAM, numbers, arrays(shapes, 3, dtype))
    tolerance = 2e-3 if dtype == "float16" else 1e-6
    for one, other in zip(on_cpu, on_cuda, strict=True):
        np.testing.assert_allclose(other, one, rtol=tolerance, atol=tolerance)
    assert names == ["multi_tensor"]


def test_rows_of_other_numbers_are_another_launch() -> None:
    shapes = [(5,), (6,), (7,), (8,)]
    numbers = [[0.1, 0.9, rate] for rate in (0.5, 0.5, 0.25, 0.5)]
    on_cpu, on_cuda, names = both(PROGRAM, numbers, arrays(shapes, 3, "float32"))
    for one, other in zip(on_cpu, on_cuda, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-6)
    assert names == ["multi_tensor"] * 3


def test_more_rows_than_a_table_holds_are_several_launches() -> None:
    program = read_program(TWO_OF_THEM, ("p", "g"), ("keep", "rate"))
    shapes = [(n % 7,) for n in range(250)]
    on_cpu, on_cuda, names = both(program, [[0.5, 0.1]] * 250, arrays(shapes, 2, "float32"))
    for one, other in zip(on_cpu, on_cuda, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-6)
    assert names == ["multi_tensor"] * 3


def test_memory_that_is_not_aligned_is_moved_element_by_element() -> None:
    program = read_program(TWO_OF_THEM, ("p", "g"), ("keep", "rate"))
    memory = np.random.default_rng(0).random(64).astype("float32")
    p, g = memory[1:20], memory[40:59]
    expected = p * np.float32(0.5) - np.float32(0.1) * g
    (step,) = plan(program, [[0.5, 0.1]], [p, g])
    assert "PACK = 1" in step.source
    run([step], 0)
    np.testing.assert_allclose(p, expected, rtol=1e-6)


def test_rows_that_share_memory_come_one_after_the_other() -> None:
    program = read_program(TWO_OF_THEM, ("p", "g"), ("keep", "rate"))
    p, g = np.ones(8, np.float32), np.arange(8, dtype=np.float32)
    launches = plan(program, [[0.5, 0.0]] * 2, [p, p, g, g])
    assert len(launches) == 2
    run(launches, 0)
    assert p.tolist() == [0.25] * 8


def test_nothing_is_launched_for_empty_rows() -> None:
    program = read_program(TWO_OF_THEM, ("p", "g"), ("keep", "rate"))
    empty = [np.empty(0, np.float32) for _ in range(2)]
    assert plan(program, [[0.5, 0.1]], empty) == []


@pytest.mark.one_in(3)
@pytest.mark.parametrize("skip", [0.0, 1.0])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_numbers_of_the_device_are_read_by_row_unless_all_is_skipped(
    dtype: str, skip: float
) -> None:
    rows = 200  # so many rows need two tables of arguments
    given = arrays([(n % 5 + 1,) for n in range(rows)], 3, dtype)
    column = np.linspace(0.1, 0.9, rows)
    numbers = [0.25, None, 0.5]
    head = [np.array([skip], np.float32), column]
    on_cuda, on_cpu = ([one.copy() for one in given] for _ in range(2))
    run(plan_given(PROGRAM, numbers, True, [*head, *on_cuda]), 0)
    cpu.apply_given(PROGRAM, numbers, True, *head, *on_cpu)
    if not skip:
        cpu.apply(PROGRAM, [[0.25, keep, 0.5] for keep in column], *given)
    for one, other, expected in zip(on_cpu, on_cuda, given, strict=True):
        assert one.tobytes() == expected.tobytes()
        np.testing.assert_allclose(other, expected, rtol=2e-3 if dtype == "float16" else 1e-6)


@pytest.mark.parametrize("odd", [np.inf, np.nan, 1.0])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_what_is_not_finite_sets_the_flag(dtype: str, odd: float) -> None:
    program = read_program("g = g * inverse", ("g",), ("inverse",))
    given = arrays([(5,), (0,), (9000,)], 1, dtype)
    given[2][8990] = odd
    flags, column = [np.zeros(1, np.float32) for _ in range(2)], np.full(3, 0.5)
    on_cuda, on_cpu = ([one.copy() for one in given] for _ in range(2))
    run(plan_given(program, [None], False, [column, *on_cuda], flag=flags[0]), 0)
    cpu.apply_watched(program, [None], flags[1], column, *on_cpu)
    assert [flag.item() for flag in flags] == [float(not np.isfinite(odd))] * 2
    for one, other in zip(on_cpu, on_cuda, strict=True):
        assert one.tobytes() == other.tobytes() or np.isnan(odd)


def test_arrays_that_are_written_and_new_are_one_launch_whatever_the_others_share() -> None:
    program = read_program("out = a + s * b", ("out", "a", "b"), ("s",))
    a, b = np.ones(8, np.float32), np.arange(8, dtype=np.float32)
    outs = [np.empty(8, np.float32) for _ in range(2)]
    launches = plan(program, [[2.0]] * 2, [*outs, a, a, b, b], is_new=True)
    assert len(launches) == 1
    run(launches, 0)
    assert [out.tolist() for out in outs] == [(1 + 2 * b).tolist()] * 2


@pytest.mark.one_in(3)
@pytest.mark.parametrize("order", [1.0, 2.0, np.inf])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_norms_of_many_arrays_are_those_of_the_cpu(dtype: str, order: float) -> None:
    shapes = [(1,), (2, 3), (300,), (1500,), *[(n,) for n in range(1, 200)]]
    given = [2 * x - 1 for x in arrays(shapes, 1, dtype)]
    given[2][17] = np.nan
    found, expected = ([np.empty((), dtype) for _ in shapes] for _ in range(2))
    launches = plan_norms(order, list(zip(found, given, strict=True)))
    assert len(launches) == 2
    run(launches, 0)
    cpu.norms(order, *expected, *given)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert np.isnan(found[2])
