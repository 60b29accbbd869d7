"""The short way through matrix products."""

from __future__ import annotations

import warnings

import fastdist


def test_matmul_of_infinities_is_silent_forward_and_backward() -> None:
    x = fastdist.full((8, 8), float("inf"), requires_grad=True)
    y = fastdist.zeros(8, 8, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        product = x @ y
        product.backward(fastdist.full((8, 8), float("inf")))
    assert bool(product.isnan().all())
