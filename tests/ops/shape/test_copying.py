"""Copies to other devices keep the layout; tril and triu keep the bits of the kept elements."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fastdist as fd
from fastdist.kernels.cpu.shape.copying import triangle
from tests.dense_layouts import DENSE, GAPS


@pytest.mark.parametrize("name", [*DENSE, *GAPS])
def test_moves_keep_dense_layouts(name: str) -> None:
    here = {**DENSE, **GAPS}[name](fd.arange(120.0))
    there = here.to("sim:0")
    other, back = there.to("sim:1"), there.cpu()
    for moved in (there, other, back):
        assert moved.tolist() == here.tolist()
        assert name in GAPS or moved.stride() == here.stride()


def test_gradients_come_back_through_a_move() -> None:
    leaf = fd.arange(24.0).requires_grad_()
    moved = leaf.reshape(2, 3, 4).permute(2, 0, 1).to("sim:0").cpu()
    weights = fd.arange(24.0).reshape(4, 2, 3)
    (moved * weights).sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.tolist() == weights.permute(1, 2, 0).reshape(-1).tolist()


DTYPES = ["bool", "uint8", "int16", "float16", "float32", "int64", "float64", "complex64"]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", [*DTYPES, "complex128"])
@pytest.mark.parametrize("upper", [False, True])
def test_triangles_are_numpys(dtype: str, upper: bool) -> None:
    rng = np.random.default_rng(0)
    for shape in ((3, 3), (2, 5), (5, 2), (2, 3, 4, 6), (1, 7), (0, 3), (3, 0)):
        whole = rng.integers(-3, 4, (*shape[:-1], 2 * shape[-1])).astype(dtype)
        for x in (np.ascontiguousarray(whole[..., ::2]), whole[..., ::2], whole[..., ::-2]):
            for diagonal in (-9, -1, 0, 1, 2, 9):
                out = np.full_like(x, 1)
                triangle(x, out, diagonal, upper)
                wanted = np.triu(x, diagonal) if upper else np.tril(x, diagonal)
                np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("size", [4, 300])
def test_nan_and_signed_zeros_stay_and_infinities_beside_leave_no_trace(size: int) -> None:
    x = np.full((size, size), np.inf, np.float32)
    x[1, 0], x[2, 0] = np.nan, -0.0
    for _ in range(2):  # the second call uses a cached mask
        out = np.full((size, size), np.nan, np.float32)
        triangle(x, out, 0, False)
        assert np.isnan(out[1, 0]) and out[2, 0] == 0 and np.signbit(out[2, 0])
        above = out[np.triu_indices(size, 1)]
        assert (above == 0).all() and not np.signbit(above).any()


def test_diag_of_a_matrix_is_a_copy_and_its_gradient_reaches_the_diagonal() -> None:
    x = fd.arange(12.0).reshape(3, 4)
    found = x.diag(1)
    found.fill_(0.0)
    assert x.diag(1).tolist() == [1, 6, 11] and x.trace().item() == 15.0
    assert x.t().diag(-1).tolist() == [1, 6, 11] and x.long().trace().dtype is fd.int64
    x.requires_grad_()
    (x.diag(1).sum() + x.trace()).backward()
    assert x.grad.tolist() == [[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    with fd.no_grad():
        assert not x.diag().requires_grad


@pytest.mark.parametrize("dtype", [fd.float32, fd.float64])
def test_a_trace_passes_on_nan_infinity_and_overflow_without_warning(dtype: fd.dtype) -> None:
    most, inf, nan = fd.finfo(dtype).max, math.inf, math.nan
    traces = [(most, most, inf), (inf, -inf, nan), (nan, 1.0, nan), (-inf, 1.0, -inf)]
    for *numbers, expected in traces:
        found = fd.tensor(numbers, dtype=dtype).diag_embed().trace()
        assert found.dtype is dtype and found.shape == ()
        assert np.array_equal(found.numpy(), expected, equal_nan=True)
    assert fd.ones(0, 3, dtype=dtype).trace().item() == 0
    assert fd.full((100, 80), 0.1, dtype=fd.float64).trace().item() == pytest.approx(8, rel=1e-15)
