"""Sums of products: terms with factor 0 are skipped, and mismatched shapes are rejected."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.ops.linalg.einsum import planned
from fastdist.ops.linalg.matmul import matmul

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


def of_bools(*shape: int) -> Any:
    return fd.arange(fd.Size(shape).numel()).reshape(shape) % 2 == 0


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,ij->ij", [(2, 3), (2, 3)]),
        ("ij,ij->ji", [(1, 3), (2, 3)]),
        ("i,j->ij", [(2,), (3,)]),
        ("ij,ik->ijk", [(2, 3), (2, 1)]),
        ("ij,ij,i->ij", [(2, 3), (2, 3), (2,)]),
        ("...i,i->...i", [(2, 2, 3), (3,)]),
        ("ii->i", [(3, 3)]),
        ("ij,i->j", [(1, 2), (1,)]),
    ],
)
def test_einsum_takes_bools_where_nothing_is_summed(equation: str, shapes: list[Any]) -> None:
    given = [of_bools(*shape) for shape in shapes]
    found = fd.einsum(equation, *given)
    wanted = fd.einsum(equation, *[one.long() for one in given])
    assert found.dtype == fd.bool and found.equal(wanted.bool())


def test_einsum_of_bools_that_are_summed_alone_counts() -> None:
    assert fd.einsum("ij->i", of_bools(2, 3)).tolist() == [2, 1]
    found = fd.einsum("ij,ik->k", of_bools(1, 1), of_bools(2, 3))
    assert (found.dtype, found.tolist()) == (fd.int64, [1, 1, 1])


def test_einsum_of_bools_with_a_sum_of_products_is_refused() -> None:
    for equation, shapes in (("ij,jk->ik", [(2, 3), (3, 2)]), ("ij,ij->", [(2, 3), (2, 3)])):
        with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
            fd.einsum(equation, *[of_bools(*shape) for shape in shapes])


def test_einsum_promotes_where_nothing_is_summed() -> None:
    found = fd.einsum("i,j->ij", of_bools(2), fd.tensor([1.5, 2.5]))
    assert (found.dtype, found.tolist()) == (fd.float32, [[1.5, 2.5], [0.0, 0.0]])
    with pytest.raises(RuntimeError, match="same dtype"):
        fd.einsum("i,i->", of_bools(2), fd.ones(2))


def test_einsum_sums_what_the_other_operand_broadcasts_over() -> None:
    x = fd.tensor([[1.0, 2.0, 4.0]], dtype=fd.float64, requires_grad=True)
    y = fd.arange(10.0, dtype=fd.float64).reshape(5, 2).requires_grad_()
    found = fd.einsum("ij,ik->k", x, y)
    assert found.tolist() == [140.0, 175.0]
    gx, gy = fd.autograd.grad(found, (x, y), fd.tensor([1.0, 10.0], dtype=fd.float64))
    assert gx.tolist() == [[270.0] * 3] and gy.tolist() == [[7.0, 70.0]] * 5


@pytest.mark.parametrize(
    ("equation", "shapes", "words"),
    [
        ("ii->i", [(2, 3)], "subscript i is repeated for operand 0 but .* match, 3 != 2"),
        ("ii", [(2, 3)], "subscript i is repeated for operand 0 but .* match, 3 != 2"),
        ("iij->j", [(2, 3, 4)], "subscript i is repeated for operand 0 but .* match, 3 != 2"),
        ("iii", [(2, 2, 3)], "subscript i is repeated for operand 0 but .* match, 3 != 2"),
        ("...ii", [(5, 2, 1)], "subscript i is repeated for operand 0 but .* match, 1 != 2"),
        ("ij,kk->ij", [(2, 3), (4, 5)], "subscript k is repeated for operand 1 .* 5 != 4"),
    ],
)
def test_einsum_refuses_a_repeated_letter_of_unequal_sizes(
    equation: str, shapes: list[Any], words: str
) -> None:
    with pytest.raises(RuntimeError, match=words):
        fd.einsum(equation, *[fd.ones(*shape) for shape in shapes])


@pytest.mark.parametrize("dtype", [fd.float32, fd.float64], ids=str)
def test_the_product_of_two_vectors_has_the_bits_of_a_product_of_matrices(dtype: Any) -> None:
    for length in (1, 7, 33, 500):
        a, b = fd.randn(length, dtype=dtype), fd.randn(length, dtype=dtype)
        expected = (a.reshape(1, -1) @ b.reshape(-1, 1)).reshape(())
        for found in (a.dot(b), a.dot(b), a @ b, fd.dot(a, tensor=b)):
            assert found.shape == () and found.equal(expected)


@pytest.mark.parametrize(
    ("name", "shapes", "wrong"),
    [
        ("mm", [(2, 3), (3, 2)], [(2, 3), (3,)]),
        ("bmm", [(2, 3, 4), (2, 4, 3)], [(2, 3, 4), (4, 3)]),
        ("mv", [(2, 3), (3,)], [(2, 3), (3, 1)]),
        ("dot", [(3,), (3,)], [(3,), (4,)]),
    ],
)
def test_later_products_have_the_node_and_the_checks_of_the_first(
    name: str, shapes: list[Any], wrong: list[Any]
) -> None:
    product: Any = getattr(fd, name)
    a, b = (fd.randn(shape, requires_grad=True) for shape in shapes)
    for _ in range(3):
        out = product(a, b)
        assert out.grad_fn.name() == f"{name.capitalize()}Backward0"
        assert out.equal(a @ b) and product(a, b, out=None).equal(out)
        with pytest.raises(RuntimeError):
            product(a, fd.ones(wrong[1]))
        with pytest.raises(RuntimeError):
            product(a, b.double())
        with fd.autocast("cpu", fd.bfloat16):
            assert product(a, b).dtype is fd.bfloat16


def test_einsum_runs_the_steps_of_its_first_call_with_new_operands() -> None:
    rng = np.random.default_rng(5)
    equation, shapes = "bij,jk,k->ib", ((2, 3, 4), (4, 5), (5,))
    for _ in range(2):
        arrays = [rng.standard_normal(shape) for shape in shapes]
        found = fd.einsum(equation, *map(fd.tensor, arrays))
        np.testing.assert_allclose(found, np.einsum(equation, *arrays))
    found = fd.einsum(equation, fd.ones(1, 3, 4), fd.ones(4, 5), fd.ones(5))
    assert found.tolist() == [[20.0]] * 3
    for _ in range(2):
        with pytest.raises(RuntimeError, match="do not broadcast with remapped shapes"):
            fd.einsum(equation, fd.ones(2, 3, 3), fd.ones(4, 5), fd.ones(5))


def test_einsum_takes_one_call_for_a_product_of_matrices() -> None:
    steps, name = planned("ij,jk->ik", (2, 3), (3, 4))
    assert [function for function, *_ in steps] == [matmul] and name == "ViewBackward0"
    x = fd.ones(2, 3)
    assert fd.einsum("ij->ij", x) is not x


def test_outer_multiplies_vectors_also_where_nothing_is_recorded() -> None:
    x, y = fd.tensor([1.0, 2.0, 3.0]), fd.tensor([4, 5])
    for given in (x, x.clone().requires_grad_(), fd.arange(6.0)[1::2] * 0.5 + 0.5):
        found = fd.outer(given, y)
        assert found.shape == (3, 2) and found.dtype is fd.float32
        assert np.array_equal(found.detach(), np.outer(given.detach(), y))
    assert fd.outer(x[:0], x).shape == (0, 3) and fd.outer(x, x[:0]).shape == (3, 0)
    with pytest.raises(RuntimeError, match="1D"):
        fd.outer(x, fd.ones(2, 2))
