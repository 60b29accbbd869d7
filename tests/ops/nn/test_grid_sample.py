"""grid_sample: PyTorch 2.13's values in every mode, gradients at borders, rejected arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.nn.functional import affine_grid, grid_sample
from tests.ops.differences import check_first_order, check_second_order, generator

X = fd.tensor([[[[0.0, 3, 1, 4], [2, -1, 5, 0], [1, 2, -2, 6]]]], dtype=fd.float64)
GRID = fd.tensor([[[[-1.3, 0.2], [0.4, -0.7]], [[0.9, 1.6], [-0.1, 0.1]]]], dtype=fd.float64)


@pytest.mark.parametrize(
    ("mode", "padding", "align", "expected"),
    [
        ("bilinear", "zeros", False, [0.0, 1.805, 0.0, 0.8]),
        ("bilinear", "zeros", True, [0.99, 2.26, 1.92, 1.05]),
        ("bilinear", "border", False, [1.7, 1.9, 6.0, 0.8]),
        ("bilinear", "border", True, [1.8, 2.26, 4.8, 1.05]),
        ("bilinear", "reflection", False, [1.52, 1.9, 3.6, 0.8]),
        ("bilinear", "reflection", True, [0.81, 2.26, 2.37, 1.05]),
        ("nearest", "zeros", False, [0.0, 1.0, 0.0, -1.0]),
        ("nearest", "border", True, [2.0, 1.0, 6.0, -1.0]),
        ("nearest", "reflection", True, [2.0, 1.0, 0.0, -1.0]),
        ("bicubic", "zeros", False, [-0.120816, 1.651232, -0.562464, 0.426283]),
        ("bicubic", "border", False, [1.9415, 1.526814, 6.882, 0.417444]),
        ("bicubic", "reflection", True, [0.645112, 2.08689, 2.355091, 0.812145]),
    ],
)
def test_values_are_pytorch_s(mode: str, padding: str, align: bool, expected: list[float]) -> None:
    found = grid_sample(X, GRID, mode, padding, align).flatten().numpy()
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_derivatives_are_those_of_differences(mode: str, padding: str) -> None:
    def f(x: fd.Tensor, grid: fd.Tensor) -> fd.Tensor:
        return grid_sample(x, grid, mode, padding, False)

    random = generator(f"{mode} {padding}")
    arrays = [random.standard_normal((2, 2, 4, 3)), random.uniform(-1.4, 1.4, (2, 3, 2, 2))]
    check_first_order(f, arrays, random)
    check_second_order(f, arrays, random)


def test_nearest_gives_the_grid_zeros() -> None:
    grid = GRID.clone().requires_grad_()
    grid_sample(X, grid, "nearest").sum().backward()
    assert grid.grad.tolist() == fd.zeros_like(GRID).tolist()


def test_places_that_are_nan_or_far_away_read_nothing() -> None:
    grid = fd.tensor([[[[float("nan"), 0.0], [1e30, 0.0], [0.0, float("-inf")]]]])
    found = grid_sample(X.float(), grid, "nearest")
    assert found.flatten().tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: grid_sample(X, GRID, "x"), ValueError, "expected mode to be 'bilinear'"),
        (lambda: grid_sample(X, GRID, "nearest", "x"), ValueError, "expected padding_mode to be"),
        (lambda: grid_sample(X, GRID.float()), RuntimeError, "expected scalar type Double but"),
        (lambda: grid_sample(X, GRID[:0]), RuntimeError, "to have same batch size"),
        (lambda: grid_sample(X, GRID[..., :1]), RuntimeError, "size 2 in last dimension"),
        (lambda: grid_sample(X[:, :, :0], GRID), RuntimeError, "non-empty spatial dimensions"),
        (lambda: grid_sample(X.long(), GRID), NotImplementedError, "not implemented for 'Long'"),
        (lambda: affine_grid(X[0], (1, 1, 2, 2)), ValueError, "2D affine matrices of shape Nx2x3"),
        (lambda: affine_grid(X[0], (1, 2, 2)), NotImplementedError, "only supports 4D and 5D"),
    ],
)
def test_what_cannot_be_is_refused(call: Callable[[], Any], kind: type, text: str) -> None:
    with pytest.raises(kind, match=text):
        call()


def test_a_grid_of_middles_leaves_an_image_as_it_is() -> None:
    theta = fd.tensor([[[1.0, 0, 0], [0, 1, 0]]], dtype=fd.float64)
    for align in (False, True):
        grid = affine_grid(theta, (1, 1, 3, 4), align)
        np.testing.assert_allclose(grid_sample(X, grid, align_corners=align).numpy(), X.numpy())
