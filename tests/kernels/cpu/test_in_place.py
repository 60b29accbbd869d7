"""Kernels whose output is one of their inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fastdist.kernels.cpu.jit import compiler
from fastdist.kernels.cpu.pointwise.numba_pointwise import compile_loop
from fastdist.kernels.cpu.pointwise.pointwise import SMALL_LIMIT, kernel_for
from fastdist.language.scalar import parse

# Several blocks and a shorter last one.
COUNT = 2 * SMALL_LIMIT + 77


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("which", [0, 1])
def test_the_output_may_be_any_input(dtype: type, which: int) -> None:
    arrays = [np.arange(COUNT, dtype=dtype), np.linspace(0, 1, COUNT, dtype=dtype)]
    expected = arrays[0] - 2 * arrays[1]
    kernel_for(parse("a - T(2) * b", ("a", "b"))).run(arrays, arrays[which])
    assert arrays[which] == pytest.approx(expected)


def test_the_output_may_be_a_strided_input() -> None:
    whole = np.arange(4.0 * COUNT).reshape(2 * COUNT, 2).T[:, ::2]
    expected = whole * whole + 1
    kernel_for(parse("a * a + T(1)", ("a",))).run([whole], whole)
    assert (whole == expected).all()


def test_the_output_may_be_rows_of_an_input_with_gaps() -> None:
    memory = np.ones((300, 50))
    part = memory[:, :40]
    kernel_for(parse("a + T(1)", ("a",))).run([part], part)
    assert (memory[:, :40] == 2.0).all()
    assert (memory[:, 40:] == 1.0).all()


def test_an_output_that_only_begins_where_an_input_does_is_computed_from_the_old_values() -> None:
    memory = np.arange(2.0 * COUNT)
    expected = memory[::2] + 1
    kernel_for(parse("a + T(1)", ("a",))).run([memory[::2]], memory[:COUNT])
    assert (memory[:COUNT] == expected).all()


BODIES = ["where(a > b, a, b * b)", "a * b + a * a * b", "sin(a) + b", "exp(a) * b - a"]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("text", BODIES)
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_in_place_gives_the_bits_of_another_output(text: str, which: int, dtype: type) -> None:
    # All lengths of the last vector, at unaligned addresses.
    kernel = kernel_for(parse(text, ("a", "b")))
    memory = np.random.default_rng(0).normal(0, 40, (2, COUNT + 80)).astype(dtype)
    for cut in range(70):
        inputs = [row[cut + 1 : COUNT + cut // 2] for row in memory.copy()]
        other = np.empty_like(inputs[0])
        kernel.run(inputs, other)
        kernel.run(inputs, inputs[which])
        assert np.array_equal(inputs[which], other, equal_nan=True)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("text", BODIES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_a_number_gives_the_bits_of_an_array_of_it(text: str, dtype: type) -> None:
    kernel = kernel_for(parse(text, ("a", "b")))
    memory = np.random.default_rng(0).normal(0, 40, (300, 50)).astype(dtype)
    for given in (memory, memory[:, :40], memory.T, memory.ravel()[3:]):
        for number in (0.7, -0.0, np.nan):
            expected = np.empty_like(given)
            kernel.run([given, np.full(given.shape, number, dtype)], expected)
            changed = given.copy()
            kernel.run([changed, np.array(number, dtype)], changed)
            assert np.array_equal(changed, expected, equal_nan=True)


@pytest.mark.parametrize("place", [0, 5000, COUNT - 1])
@pytest.mark.parametrize("step", [1, 2])
def test_a_number_that_lies_in_the_output_keeps_its_old_value(place: int, step: int) -> None:
    memory = np.arange(2.0, 2 * COUNT + 2).reshape(-1, step)[:, 0]
    expected = memory * memory[place] + 1
    number = memory[place : place + 1].squeeze()
    kernel_for(parse("a * b + T(1)", ("a", "b"))).run([memory, number], memory)
    assert (memory == expected).all()


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.float16])
@pytest.mark.parametrize("text", ["a * b", "where(a > b, a, b)"])
@pytest.mark.parametrize("numbers", [(), ("b",)])
def test_loops_compute_in_vectors_wherever_their_memory_lies(
    text: str, dtype: type, numbers: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Loops loaded from the cache have no source text.
    monkeypatch.setattr(compiler, "_has_places", lambda: False)
    body, kind = parse(text, ("a", "b")), np.dtype(dtype)
    loop: Any = compile_loop(body.tree, body.names, [kind, kind], kind, numbers)
    code = loop._callback._made._library.get_llvm_str()
    assert "vector.body" in code
    assert "vector.memcheck" not in code
