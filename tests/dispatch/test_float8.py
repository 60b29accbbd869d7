"""The computations that float8 tensors support, and those that are rejected."""

from __future__ import annotations

import pytest

import fastdist as fd


def _pair() -> fd.Tensor:
    return fd.tensor([1.0, 3.5], dtype=fd.float8_e5m2)


def test_equality_products_and_choices_are_computed() -> None:
    x = _pair()
    assert (x == x).tolist() == [True, True] and (x == 1).tolist() == [True, False]
    assert (x * x).tolist() == [1.0, 12.0] and (x * x).dtype is fd.float8_e5m2
    assert fd.where(x == 1, x, 0).tolist() == [1.0, 0.0]
    assert x.isnan().tolist() == [False, False]


@pytest.mark.parametrize(
    ("call", "kernel"),
    [
        (lambda x: x + x, "add_stub"),
        (lambda x: x + 1, "add_stub"),
        (lambda x: x - x, "add_stub"),
        (lambda x: x < x, "lt_cpu"),
        (lambda x: x.exp(), "exp_vml_cpu"),
        (lambda x: x.sum(), "sum_cpu"),
        (lambda x: fd.rand(2, dtype=x.dtype), "check_uniform_bounds"),
        (lambda x: fd.randn(2, dtype=x.dtype), "normal_kernel_cpu"),
    ],
)
def test_other_ops_are_refused_and_say_what_to_do(call: object, kernel: str) -> None:
    with pytest.raises(NotImplementedError) as caught:
        call(_pair())  # type: ignore[operator]
    text = str(caught.value)
    assert f"\"{kernel}\" not implemented for 'Float8_e5m2'" in text
    assert ".to(fastdist.float32) first" in text


def test_a_float8_tensor_meets_no_other_dtype() -> None:
    with pytest.raises(RuntimeError, match=r"Float8 Types is not supported, att.*Flo"):
        _ = _pair() + fd.ones(2)
    assert (_pair()[0] + fd.ones(2)).tolist() == [2.0, 2.0]  # a tensor without axes is accepted
