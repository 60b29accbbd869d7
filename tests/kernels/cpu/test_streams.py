"""Large arrays are read as several streams of rows, with the same bits as in one stream."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.kernels.cpu.rows import long_rows
from fastdist.kernels.cpu.rows.row_kernels import row_loop
from fastdist.kernels.cpu.rows.row_steps import APART, KERNELS, PAIRED, Row

CALLS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: x.sum(1),
    "mean": lambda x: x.mean(1),
    "amax": lambda x: x.amax(1),
    "amin": lambda x: x.amin(1),
    "norm": lambda x: x.norm(2, 1),
    "whole sum": lambda x: x.sum(),
    "whole max": lambda x: x.max(),
    "whole norm": lambda x: x.norm(),
    "whole var": lambda x: x.var(),
}


def sample(shape: tuple[int, ...], dtype: str) -> Any:
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    x[-1, 0], x[shape[0] // 3, -1], x[shape[0] // 2, 0] = math.nan, math.inf, -math.inf
    return x


@pytest.mark.one_in(5)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(1, 70), (3, 1000), (5, 64), (64, 1), (301, 163), (66, 2113)])
@pytest.mark.parametrize("name", APART)
def test_rows_have_the_same_bits_in_any_number_of_streams(
    name: str, shape: tuple[int, int], dtype: str
) -> None:
    x, made = sample(shape, dtype), []
    ways = [loop for loop in (name, f"{name}_apart", f"{name}_paired") if loop in KERNELS]
    assert len(ways) == 2 + (name in PAIRED)
    for loop in ways:
        kernel = KERNELS[loop]
        assert isinstance(kernel, Row)
        outs = [np.full(shape[0], 7, dtype if k == "numbers" else "f8") for _, k in kernel.operands]
        row_loop(loop, dtype)((x, *outs[1:]), *shape, 0.5, 0.0)
        made.append(np.stack(outs))
        assert (kernel.streams > 1) == (loop != name)
    for one in made[1:]:
        np.testing.assert_array_equal(one, made[0])


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rows", [1, 2, 3, 7, 8, 9, 16, 19, 101])
@pytest.mark.parametrize("name", ["sum_of_short_rows", "top_of_shortest_rows"])
def test_any_number_of_short_rows_is_reduced_and_nothing_beside_them_written(
    name: str, rows: int, dtype: str
) -> None:
    for n in (1, 8, 9, 32, 33, 100):
        x, outs = sample((rows, n), dtype), np.full(rows + 2, 7, dtype)
        row_loop(name, dtype)((x, outs[1:-1]), rows, n, 1.0, 0.0)
        with np.errstate(invalid="ignore"):
            expected = x.max(1) if "top" in name else x.astype(np.float64).sum(1)
        np.testing.assert_allclose(outs, [7, *expected, 7], rtol=1e-5, atol=1e-5)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CALLS)
def test_what_is_large_is_reduced_in_streams_by_any_number_of_threads(
    name: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run: list[str] = []
    compiled = long_rows._compiled
    monkeypatch.setattr(long_rows, "_compiled", lambda *of: (run.append(of[0]), compiled(*of))[1])
    monkeypatch.setattr(long_rows, "_FAR_BYTES", 2 * 670 * 523 * np.dtype(dtype).itemsize)
    # Use shapes that no other test uses, because the loop for a shape is chosen only once.
    x, threads, far = fd.tensor(sample((671, 523), dtype)), fd.get_num_threads(), []
    near = CALLS[name](x).numpy()
    assert run and not any(loop.endswith("_apart") for loop in run)
    run.clear()
    try:
        for count in (1, 2):
            fd.set_num_threads(count)
            far.append(CALLS[name](fd.cat([x, x])).numpy())
    finally:
        fd.set_num_threads(threads)
    assert run and all(loop.endswith("_apart") or loop == "deviations" for loop in run)
    np.testing.assert_array_equal(*far)
    if near.ndim:
        np.testing.assert_array_equal(near, far[0][:671])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_layer_norm_of_a_row_has_the_same_bits_among_few_rows_and_many(dtype: str) -> None:
    values = sample((48, 523), dtype)
    values[7::3, 0] += 100  # rows that begin far from their mean are read twice
    g = np.random.default_rng(1).standard_normal(values.shape).astype(dtype)
    x = fd.tensor(values, requires_grad=True)
    out = fd.nn.functional.layer_norm(x, (523,))
    out.backward(fd.tensor(g))
    assert x.grad is not None
    for begin in range(0, 48, 12):  # fewer rows would use the kernels for small arrays
        part = fd.tensor(values[begin : begin + 12], requires_grad=True)
        found = fd.nn.functional.layer_norm(part, (523,))
        found.backward(fd.tensor(g[begin : begin + 12]))
        assert part.grad is not None
        for few, many in ((found.detach(), out.detach()), (part.grad, x.grad)):
            np.testing.assert_array_equal(few.numpy(), many.numpy()[begin : begin + 12])
