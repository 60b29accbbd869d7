"""CUDA kernels that move elements, run on the CPU shim, against the CPU kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fastdist.core.dtypes import bfloat16
from fastdist.kernels.cuda.launch import Launch
from fastdist.kernels.cuda.shape import copying
from tests.fibre_shim.driver import SEEDS, run
from tests.kernels.cuda.cpu_twins import cpu_twins
from tests.properties import in_one_test

cpu = cpu_twins("shape.copying")
# A kernel and its arguments. The length of the last axis is a multiple of a pack of 4-byte elements
# for some shapes, but not for others.
MOVES: list[tuple[str, tuple[Any, ...]]] = [
    *[("flip", (axes,)) for axes in ((0,), (-1,), (1,), (0, 2), (0, 1, 2))],
    *[("roll", ((shift,), None)) for shift in (3, -4, 1000)],
    *[("roll", ((shift,), (axis,))) for shift in (4, -3, 1) for axis in (0, 1, 2)],
    ("roll", ((2, -1, 4), (0, 1, 2))),
    *[("triangle", (by, upper)) for by in (-9, -2, 0, 3, 40) for upper in (False, True)],
]
SHAPES = [(3, 5, 16), (3, 5, 7), (2, 9, 8), (1, 1, 4), (4, 1, 12)]
LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "together": lambda x: x,
    "turned": lambda x: np.ascontiguousarray(x.T).T,
    "with gaps": lambda x: np.repeat(x, 2, 1)[:, ::2],
    "apart": lambda x: np.repeat(x, 3, 2)[..., ::3],
    "off by one": lambda x: np.concatenate([x, x], 2)[..., 1 : x.shape[2] + 1],
}


def planned(
    name: str, x: Any, out: Any, numbers: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> list[Launch]:
    """Return the planned launches of a kernel."""
    found: list[Launch] = []
    monkeypatch.setattr(copying, "launch", found.extend)
    getattr(copying, name)(x, out, *numbers)
    return found


def aligned(x: np.ndarray, dtype: Any) -> np.ndarray:
    """Return a copy of x in C order, aligned like GPU memory."""
    room = np.zeros(x.size + 16, dtype)
    start = -room.__array_interface__["data"][0] % 16 // room.itemsize
    room[start : start + x.size] = x.ravel()
    return room[start : start + x.size].reshape(x.shape)


@pytest.mark.one_in(4)
@in_one_test("layout", LAYOUTS)
@pytest.mark.parametrize("name", range(len(MOVES)))
def test_elements_go_where_they_go_on_the_cpu(
    name: int, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, numbers = MOVES[name]
    for place, shape in enumerate(SHAPES):
        x = LAYOUTS[layout](aligned(np.arange(1.0, 1 + np.prod(shape)).reshape(shape), np.float32))
        expected, out = np.empty(shape, np.float32), aligned(np.full(shape, -7.0), np.float32)
        getattr(cpu, kernel)(x, expected, *numbers)
        run(planned(kernel, x, out, numbers, monkeypatch), SEEDS[place % len(SEEDS)])
        np.testing.assert_array_equal(out, expected)


@pytest.mark.one_in(4)
@in_one_test("dtype", ["bool", "int64", "complex128", bfloat16.numpy])
@pytest.mark.parametrize("name", range(len(MOVES)))
def test_packs_are_16_bytes_of_each_dtype(
    name: int, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, numbers = MOVES[name]
    x = aligned(np.arange(3 * 5 * 32).reshape(3, 5, 32) % 120, dtype)
    expected, out = np.empty(x.shape, dtype), aligned(np.zeros(x.shape), dtype)
    getattr(cpu, kernel)(x, expected, *numbers)
    run(planned(kernel, x, out, numbers, monkeypatch), SEEDS[name % len(SEEDS)])
    np.testing.assert_array_equal(out.view("u1"), expected.view("u1"))


# The expected launches. In move_packs a thread moves 16 bytes; adjacent rows count as one axis.
WAYS = {
    "rows that go round": ("roll", ((1,), (0,)), (8, 3), "move_packs", 1),
    "all elements": ("roll", ((3,), None), (4, 5), "move_packs", 1),
    "turned rows": ("flip", ((0,),), (6, 8), "move_packs", 2),
    "rows of odd length turned": ("flip", ((0,),), (6, 7), "move", 2),
    "a triangle": ("triangle", (0, True), (2, 3, 8), "move_packs", 3),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_thread_makes_16_bytes_where_the_layout_lets_it(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, numbers, shape, name, axes = WAYS[way]
    x, out = [aligned(np.zeros(shape), np.float32) for _ in range(2)]
    (made,) = planned(kernel, x, out, numbers, monkeypatch)
    assert made.name == name and f"constexpr int DIMS = {axes};" in made.source
