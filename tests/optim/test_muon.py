"""Muon steps along the orthogonal matrix that is nearest to the average of the gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastdist
from fastdist import optim

RNG = np.random.default_rng(10)
SHAPES = [(3, 3), (2, 5), (5, 2), (1, 4)]


def by_formula(
    place: Any, gradients: list[Any], lr: float, *, nesterov: bool, adjust: str | None
) -> Any:
    rows, columns = place.shape
    mean, momentum, decay = np.zeros_like(place), 0.95, 0.1
    ratio = 0.2 * max(rows, columns) ** 0.5 if adjust == "match_rms_adamw" else None
    ratio = max(1.0, rows / columns) ** 0.5 if ratio is None else ratio
    for gradient in gradients:
        mean = mean + (1 - momentum) * (gradient - mean)
        way = gradient + momentum * (mean - gradient) if nesterov else mean
        u, s, v = np.linalg.svd(way / np.linalg.norm(way), full_matrices=False)
        for _ in range(5):
            s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
        place = place * (1 - lr * decay) - lr * ratio * (u * s) @ v
    return place


@pytest.mark.one_in(4)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("nesterov", [True, False])
@pytest.mark.parametrize("adjust", [None, "original", "match_rms_adamw"])
def test_the_singular_values_of_a_step_are_near_one(
    shape: tuple[int, int], nesterov: bool, adjust: str | None
) -> None:
    start, gradients = RNG.standard_normal(shape), [RNG.standard_normal(shape) for _ in range(3)]
    parameter = fastdist.tensor(start, requires_grad=True)
    optimizer = optim.Muon([parameter], lr=0.1, nesterov=nesterov, adjust_lr_fn=adjust)
    for gradient in gradients:
        parameter.grad = fastdist.tensor(gradient)
        optimizer.step()
    expected = by_formula(start, gradients, 0.1, nesterov=nesterov, adjust=adjust)
    np.testing.assert_allclose(parameter.detach(), expected, rtol=1e-4, atol=1e-5)


def test_what_is_no_matrix_is_refused() -> None:
    with pytest.raises(ValueError, match="Muon only supports 2D parameters whereas we found a"):
        optim.Muon([fastdist.zeros(3, requires_grad=True)])
