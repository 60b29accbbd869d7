"""Sums with products: what 0 scales is passed over, and what does not fit is refused."""

from __future__ import annotations

from typing import Any

import pytest

import fastdist as fd

NAN = float("nan")
SHAPES = {
    "addmm": ((2, 3), (2, 4), (4, 3)),
    "addmv": ((2,), (2, 4), (4,)),
    "addbmm": ((2, 3), (5, 2, 4), (5, 4, 3)),
    "baddbmm": ((5, 2, 3), (5, 2, 4), (5, 4, 3)),
    "addr": ((2, 3), (2,), (3,)),
}
by_name = pytest.mark.parametrize("name", SHAPES)
by_blas = pytest.mark.parametrize("name", [one for one in SHAPES if one != "addr"])


def of_ones(name: str) -> list[Any]:
    return [fd.ones(shape, requires_grad=True) for shape in SHAPES[name]]


@by_blas
def test_nan_in_a_product_that_alpha_0_scales_does_not_come_through(name: str) -> None:
    input, one, other = of_ones(name)
    broken = fd.full_like(one, NAN).requires_grad_()
    found = getattr(fd, name)(input, broken, other, beta=2, alpha=0)
    assert found.eq(2).all()
    found.sum().backward()
    assert broken.grad.eq(0).all() and input.grad.eq(2).all()
    inplace = input.detach().clone()
    getattr(inplace, name + "_")(broken.detach(), other.detach(), alpha=0)
    assert inplace.eq(1).all()


@by_name
def test_nan_in_an_input_that_beta_0_scales_does_not_come_through(name: str) -> None:
    input, one, other = of_ones(name)
    broken = fd.full_like(input, NAN).requires_grad_()
    found = getattr(fd, name)(broken, one, other, beta=0)
    assert found.eq(getattr(fd, name)(fd.zeros_like(input), one, other)).all()
    found.sum().backward()
    assert broken.grad.eq(0).all()


@by_name
@pytest.mark.parametrize("beta", [0, 1])
def test_an_input_that_is_larger_than_the_product_is_refused(name: str, beta: int) -> None:
    input, one, other = of_ones(name)
    with pytest.raises(RuntimeError, match=r"expanded size .* must match the existing"):
        getattr(fd, name)(fd.ones(7, *input.shape), one, other, beta=beta)


@by_blas
def test_an_input_of_another_dtype_is_refused(name: str) -> None:
    input, one, other = of_ones(name)
    with pytest.raises(RuntimeError, match="must have the same dtype, but got float64 and float32"):
        getattr(fd, name)(input.double(), one, other)


def test_addr_promotes_an_input_that_is_not_read() -> None:
    assert fd.addr(fd.ones(2, 3).double(), fd.ones(2), fd.ones(3), beta=0).dtype is fd.float64
