"""One launch over many tensors gives the same bits as running the program tensor by tensor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from fastdist.kernels.cpu.jit import launch
from fastdist.kernels.cpu.pointwise import multi_tensor
from fastdist.kernels.cpu.pointwise.multi_tensor import LIMIT
from fastdist.kernels.cpu.pointwise.pointwise import kernel_for
from fastdist.language.program import Program, read_program

ADAM = read_program(
    """
    m = m + new * (g - m)
    v = v * keep + spread * g * g
    top = maximum(top, v)
    p = p - rate * (m / (sqrt(top) / root + eps))
    """,
    ("p", "g", "m", "v", "top"),
    ("new", "keep", "spread", "rate", "root", "eps"),
)
NUMBERS = [0.1, 0.999, 0.001, 1e-3, 0.9, 1e-8]
LENGTHS = [(LIMIT // 3, 1), (7,), (0, 4), (LIMIT // 2,), (1, 3, LIMIT // 2), ()]

Rows = list[list[Any]]


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = launch.get_num_threads()
    launch.set_num_threads(request.param)
    yield request.param
    launch.set_num_threads(before)


def rows_of(program: Program, shapes: list[tuple[int, ...]], dtype: str) -> Rows:
    rng = np.random.default_rng(3)
    rows = [[rng.random(shape).astype(dtype) for _ in program.arrays] for shape in shapes]
    for array in rows[0]:
        array.reshape(-1)[:4] = [np.nan, np.inf, -np.inf, -0.0]
    return [[np.asarray(array, dtype) for array in row] for row in rows]


def copied(rows: Rows) -> Rows:
    return [[array.copy() for array in row] for row in rows]


def by_lines(program: Program, numbers: list[list[float]], rows: Rows) -> None:
    for given, row in zip(numbers, rows, strict=True):
        for target, body in program.lines:
            values = dict(zip(program.arrays, row, strict=True))
            for name, number in zip(program.numbers, given, strict=True):
                values[name] = np.asarray(number, row[0].dtype)
            kernel_for(body).run([values[name] for name in body.names], values[target])


def apply(program: Program, numbers: list[list[float]], rows: Rows) -> None:
    multi_tensor.apply(program, numbers, *[row[i] for i in range(len(rows[0])) for row in rows])


def bits(rows: Rows) -> list[bytes]:
    return [array.tobytes() for row in rows for array in row]


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return the list that collects the results of launches of ADAM."""
    told: list[bool] = []
    compile_program = multi_tensor._compile

    def spy(program: Program, dtype: Any) -> Callable[..., bool]:
        run = compile_program(program, dtype)
        program.readings.pop(dtype)

        def launch_it(*arguments: Any) -> bool:
            told.append(run(*arguments))
            return told[-1]

        return launch_it

    monkeypatch.setattr(multi_tensor, "_compile", spy)
    monkeypatch.setattr(ADAM, "readings", {})
    return told


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_launch_leaves_the_bits_of_its_lines(
    dtype: str, threads: int, launches: list[bool]
) -> None:
    # The last row is long enough for two threads, which split it.
    rows = rows_of(ADAM, [*LENGTHS, (3 * 65536,)], dtype)
    numbers = [[*NUMBERS[:-1], 1e-8 * (1 + i)] for i in range(len(rows))]
    expected = copied(rows)
    by_lines(ADAM, numbers, expected)
    apply(ADAM, numbers, rows)
    assert bits(rows) == bits(expected)
    assert launches == [True]


def test_one_row_of_numbers_serves_all(launches: list[bool]) -> None:
    rows = rows_of(ADAM, LENGTHS, "float32")
    expected = copied(rows)
    by_lines(ADAM, [NUMBERS] * len(rows), expected)
    apply(ADAM, [NUMBERS] * len(rows), rows)
    assert bits(rows) == bits(expected)
    assert launches == [True]


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_few_elements_and_float16_go_by_lines(dtype: str, launches: list[bool]) -> None:
    rows = rows_of(ADAM, LENGTHS if dtype == "float16" else [(5,), (LIMIT - 5,)], dtype)
    expected = copied(rows)
    by_lines(ADAM, [NUMBERS] * len(rows), expected)
    apply(ADAM, [NUMBERS] * len(rows), rows)
    assert bits(rows) == bits(expected)
    assert not launches


def test_few_elements_and_none_go_by_a_launch_that_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ADAM, "readings", {})
    apply(ADAM, [NUMBERS], rows_of(ADAM, [(LIMIT + 1,)], "float32"))
    dtype = np.dtype("float32")
    assert dtype in ADAM.readings
    monkeypatch.setattr(multi_tensor, "_by_lines", None)
    none = [[np.empty((0, 3), dtype) for _ in range(5)]]
    for rows in (rows_of(ADAM, [(5,), (0, 3), (), (7, 9)], "float32"), none):
        expected = copied(rows)
        by_lines(ADAM, [NUMBERS] * len(rows), expected)
        apply(ADAM, [NUMBERS] * len(rows), rows)
        assert bits(rows) == bits(expected)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("shared", ["a row twice", "parts of two rows", "within a row", "moved"])
def test_what_shares_memory_changes_one_after_the_other(
    shared: str, threads: int, launches: list[bool]
) -> None:
    size = 2 * 65536

    def rows_that_share() -> Rows:
        memory = np.random.default_rng(4).random(12 * size).astype("float32")
        first, second = ([memory[(6 * r + i) * size :][:size] for i in range(5)] for r in (0, 1))
        if shared == "a row twice":
            second = first
        elif shared == "parts of two rows":
            second[0] = memory[size // 2 :][:size]  # half of p, and half of g
        elif shared == "within a row":
            first[4] = first[3]
        else:
            first[4] = memory[3 * size + 1 :][:size]
        return [first, second]

    rows, expected = rows_that_share(), rows_that_share()
    by_lines(ADAM, [NUMBERS] * 2, expected)
    apply(ADAM, [NUMBERS] * 2, rows)
    assert bits(rows) == bits(expected)
    assert launches == [False]


def test_arrays_that_share_memory_are_noticed_after_others_that_did_not(
    launches: list[bool],
) -> None:
    memory = np.random.default_rng(4).random((10, 65536)).astype("float32")
    apart, shared = [range(5), range(5, 10)], [range(5), range(4, 9)]
    for places in (apart, apart, shared, apart, apart[:1], apart[::-1]):
        expected = memory.copy()
        by_lines(ADAM, [NUMBERS] * len(places), [[expected[i] for i in row] for row in places])
        apply(ADAM, [NUMBERS] * len(places), [[memory[i] for i in row] for row in places])
        np.testing.assert_array_equal(memory, expected)
    assert launches == [True, True, False, True, True, True]


@pytest.mark.parametrize("shapes", [[(3, 2)] * 4, [(5,), (2, 3), (), (4, 1)]])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_few_rows_are_joined_to_the_bits_of_each(shapes: Any, dtype: str) -> None:
    rows = rows_of(ADAM, [(4, 1), *shapes], dtype)
    expected, numbers = copied(rows), [NUMBERS] * len(rows)
    lines = multi_tensor._lines(ADAM)
    arrays = [row[i] for i in range(len(rows[0])) for row in rows]
    assert multi_tensor._by_columns(ADAM, lines, numbers, arrays)
    by_lines(ADAM, numbers, expected)
    assert bits(rows) == bits(expected)


def test_rows_that_may_share_memory_or_differ_in_numbers_are_not_joined() -> None:
    rows, lines = rows_of(ADAM, [(4, 1), (4, 1)], "float32"), multi_tensor._lines(ADAM)

    def is_joined(given: Rows, numbers: list[list[float]]) -> bool:
        arrays = [row[i] for i in range(len(given[0])) for row in given]
        return multi_tensor._by_columns(ADAM, lines, numbers, arrays)

    view, twice, read = copied(rows), copied(rows), copied(rows)
    view[1][0] = view[0][2][:]
    twice[1][0] = twice[0][0]
    read[1][1] = read[0][0][:]
    for given in (view, twice, read):
        assert not is_joined(given, [NUMBERS] * 2)
    assert not is_joined(rows, [NUMBERS, [*NUMBERS]])


def test_a_stored_launch_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    program = read_program("p = p - rate * g", ("p", "g"), ("rate",))
    looked = []

    def stored(of: Program, dtype: Any) -> None:
        looked.append((of, dtype))

    monkeypatch.setattr(multi_tensor, "_stored_launch", stored)
    rows = rows_of(program, [(4, 1), (2, 2)], "float32")
    for _ in range(multi_tensor.STEPS_BEFORE_A_LOOK + 5):
        apply(program, [[0.5]] * 2, rows)
    assert looked == [(program, np.dtype(np.float32))]


def test_a_stored_launch_makes_the_same_bits() -> None:
    program = read_program("p = p - rate * (g + p)", ("p", "g"), ("rate",))
    large = rows_of(program, [(LIMIT + 1,)], "float32")
    apply(program, [[0.5]], large)  # compiles and stores the kernel
    of_new_process = read_program("p = p - rate * (g + p)", ("p", "g"), ("rate",))
    of_new_process.readings.clear()
    rows = rows_of(program, [(4, 1), (2, 2)], "float32")
    expected = copied(rows)
    launched = multi_tensor._stored_launch(of_new_process, np.dtype(np.float32))
    assert launched is not None
    apply(of_new_process, [[0.5]] * 2, rows)
    by_lines(program, [[0.5]] * 2, expected)
    assert bits(rows) == bits(expected)
