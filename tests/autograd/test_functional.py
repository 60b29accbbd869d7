"""Jacobians and Hessians equal their closed formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist import Tensor
from fastdist.autograd import functional


def vector() -> Tensor:
    return fd.tensor([0.5, -1.0, 2.0], dtype=fd.float64)


def test_vjp_is_the_vector_times_the_jacobian() -> None:
    v = fd.tensor([1.0, 2.0, 3.0], dtype=fd.float64)
    y, found = functional.vjp(lambda x: x.exp(), vector(), v)
    assert np.allclose(y.numpy(), np.exp(vector().numpy()))
    assert np.allclose(found.numpy(), v.numpy() * np.exp(vector().numpy()))


def test_jvp_is_the_jacobian_times_the_vector_of_several_inputs() -> None:
    a, b = vector(), vector()
    v = (fd.ones(3, dtype=fd.float64), fd.zeros(3, dtype=fd.float64))
    _, found = functional.jvp(lambda x, y: (x * y, y), (a, b), v)
    assert np.allclose(found[0].numpy(), b.numpy()) and found[1].tolist() == [0.0] * 3


@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
def test_jacobian_has_the_shape_of_output_then_input(strategy: str) -> None:
    w = fd.tensor(np.arange(6.0).reshape(2, 3))
    found = functional.jacobian(lambda x: w @ x.view(3, 1), vector(), strategy=strategy)
    assert tuple(found.shape) == (2, 1, 3)
    assert np.allclose(found.numpy().reshape(2, 3), w.numpy())


def test_jacobian_of_tuples_is_nested_by_output_and_input() -> None:
    found = functional.jacobian(lambda x, y: (x * y, x.sum()), (vector(), vector()))
    assert np.allclose(found[0][1].numpy(), np.diag(vector().numpy()))
    assert found[1][0].tolist() == [1.0, 1.0, 1.0] and found[1][1].tolist() == [0.0] * 3


def test_jacobian_with_create_graph_can_be_differentiated() -> None:
    x = vector().requires_grad_()
    functional.jacobian(lambda x: x * x * x, x, create_graph=True).sum().backward()
    assert np.allclose(x.grad.numpy(), 6 * vector().numpy())


def test_hessian_is_the_matrix_of_second_derivatives() -> None:
    found = functional.hessian(lambda x: (x * x * x).sum(), vector())
    assert np.allclose(found.numpy(), np.diag(6 * vector().numpy()))


def test_hvp_and_vhp_agree_on_a_symmetric_hessian() -> None:
    v = fd.tensor([1.0, 2.0, 3.0], dtype=fd.float64)

    def function(x: Tensor) -> Tensor:
        return (x.exp() * x.sum()).sum()

    value, forward = functional.hvp(function, vector(), v)
    again, backward = functional.vhp(function, vector(), v)
    assert value.item() == again.item() and np.allclose(forward.numpy(), backward.numpy())


def test_strict_names_the_output_that_has_no_derivative() -> None:
    with pytest.raises(RuntimeError, match=r"^Output 1 of the .* does not require gradients"):
        functional.vjp(
            lambda x: (x * 2.0, fd.ones(1)), vector(), (vector(), fd.ones(1)), strict=True
        )
    with pytest.raises(RuntimeError, match=r"^Output 0 of the .* does not require gradients"):
        functional.jvp(lambda x: fd.ones(1), vector(), vector(), strict=True)


def test_strict_names_the_input_that_is_ignored() -> None:
    given = (vector(), vector())
    with pytest.raises(RuntimeError, match=r"^The output of .* is independent of input 1\."):
        functional.vjp(lambda x, y: x.sum(), given, strict=True)
    with pytest.raises(RuntimeError, match=r"^Output 1 of .* is independent of input 0\."):
        functional.jacobian(lambda x, y: (x * y, y * 2.0), given, strict=True)


def test_vector_of_another_shape_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"^Entry 0 in v has invalid size: should be \(3,\)"):
        functional.vjp(lambda x: x * 2.0, vector(), fd.ones(2))


BOTH = (vector(), vector())
STRICT = [
    ("jvp", lambda x, y: x.sum(), {"v": BOTH}, "The output .* is independent of input 1"),
    ("jvp", lambda x, y: (x.detach() * y).sum(), {"v": BOTH}, "is independent of input 0"),
    ("jvp", lambda x, y: (x + y).sum(), {"v": BOTH, "create_graph": True}, "The jacobian of"),
    ("vjp", lambda x, y: (x + y**2).sum(), {"create_graph": True}, "The jacobian of .* input 0"),
    ("jacobian", lambda x, y: (x + y).sum(), {"create_graph": True}, "The jacobian of .* input 0"),
    ("hessian", lambda x, y: (x + y).sum(), {}, "While computing the hessian, .* input 0"),
    ("vhp", lambda x, y: (x + y**2).sum(), {"v": BOTH}, "While computing the hessian, .* input 0"),
    ("hvp", lambda x, y: (x**2 + y).sum(), {"v": BOTH}, "While computing the hessian, .* input 1"),
    ("vhp", lambda x, y: (x * y).sum(), {"v": BOTH, "create_graph": True}, "The hessian of"),
    ("hvp", lambda x, y: (x * y).sum(), {"v": BOTH, "create_graph": True}, "The hessian of"),
    ("hvp", lambda x, y: (x.sum(), y.sum()), {"v": BOTH}, "given to hvp should return a single"),
    ("vhp", lambda x, y: x * y, {"v": BOTH}, "given to vhp should contain a single element"),
]


@pytest.mark.parametrize(("name", "function", "more", "words"), STRICT)
def test_strict_refuses_what_does_not_depend_on_an_input(
    name: str, function: Any, more: dict[str, Any], words: str
) -> None:
    with pytest.raises(RuntimeError, match=words):
        getattr(functional, name)(function, BOTH, strict=True, **more)


@pytest.mark.parametrize("name", ["jvp", "vhp", "hvp"])
def test_strict_gives_the_same_numbers_where_all_depends_on_each_input(name: str) -> None:
    def function(x: Any, y: Any) -> Any:
        return (x**3 * y**2).sum()

    loose = getattr(functional, name)(function, BOTH, BOTH)
    strict = getattr(functional, name)(function, BOTH, BOTH, strict=True)
    assert str(strict) == str(loose)
