"""Second derivatives at 0 of functions of norms: right for squared norms, NaN if none exists.

test_slopes_at_zero.py has the functions that need the derivative of the norm's gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fastdist as fd
import fastdist.nn.functional as F


def zeros(*shape: int) -> Any:
    return fd.zeros(*shape, dtype=fd.float64)


def reverse_over_reverse(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def hessian(x: Any) -> Any:
        x = x.detach().clone().requires_grad_()
        (slope,) = fd.autograd.grad(f(x), x, create_graph=True)
        rows = [fd.autograd.grad(one, x, retain_graph=True)[0] for one in slope]
        return fd.stack(rows)

    return hessian


WAYS: dict[str, Callable[[Callable[[Any], Any]], Callable[[Any], Any]]] = {
    "reverse over reverse": reverse_over_reverse,
    "hessian": fd.func.hessian,
    "jacrev of jacrev": lambda f: fd.func.jacrev(fd.func.jacrev(f)),
    "jacfwd of jacrev": lambda f: fd.func.jacfwd(fd.func.jacrev(f)),
    "jacfwd of jacfwd": lambda f: fd.func.jacfwd(fd.func.jacfwd(f)),
    "jacrev of jacfwd": lambda f: fd.func.jacrev(fd.func.jacfwd(f)),
}
_BY_PRODUCT = "use_mm_for_euclid_dist"
# By name: (a function whose Hessian at 0 is a multiple of the identity, the multiple's factor).
SMOOTH: dict[str, tuple[Callable[[Any], Any], float]] = {
    "linalg.norm": (lambda x: fd.linalg.norm(x) ** 2, 2.0),
    "vector_norm": (lambda x: fd.linalg.vector_norm(x).square(), 2.0),
    "matrix_norm": (lambda x: fd.linalg.matrix_norm(x[None]) ** 2, 2.0),
    "Tensor.norm": (lambda x: x.norm() ** 2.0, 2.0),
    "pow": (lambda x: fd.pow(x.norm(dim=0, keepdim=True), 2).sum(), 2.0),
    "dist": (lambda x: fd.dist(x, zeros(3)) ** 2, 2.0),
    "pairwise_distance": (
        lambda x: (F.pairwise_distance(x[None], zeros(1, 3), eps=0.0) ** 2).sum(), 2.0
    ),
    "cdist": (lambda x: (fd.cdist(x[None], zeros(2, 3)) ** 2).sum(), 4.0),
    "cdist by a product": (
        lambda x: (fd.cdist(x[None], zeros(2, 3), compute_mode=_BY_PRODUCT) ** 2).sum(), 4.0
    ),
    "gaussian": (lambda x: (-(x.norm() ** 2)).exp(), -2.0),
    "gaussian of cdist": (lambda x: (-fd.cdist(x[None], zeros(1, 3)) ** 2 / 2).exp().sum(), -1.0),
    "fourth power": (lambda x: x.norm() ** 4, 0.0),
    "normalize": (lambda x: F.normalize(x, dim=0).sum(), 0.0),
    "cosine_similarity": (lambda x: F.cosine_similarity(x, zeros(3) + 1, dim=0), 0.0),
}  # fmt: skip


@pytest.mark.one_in(5)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", SMOOTH)
def test_functions_that_are_smooth_at_0_have_their_hessian_there(name: str, way: str) -> None:
    f, factor = SMOOTH[name]
    found = WAYS[way](f)(zeros(3))
    fd.testing.assert_close(found, factor * fd.eye(3, dtype=fd.float64))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("f", [lambda x: x.norm(), lambda x: x.norm() * x.norm().detach()])
def test_other_second_derivatives_at_0_are_nan(f: Callable[[Any], Any], way: str) -> None:
    assert bool(WAYS[way](f)(zeros(3)).diagonal().isnan().all())


def test_the_diagonal_of_a_kernel_matrix_has_its_second_derivatives() -> None:
    """Compare exp(-cdist(x, x)**2) with a formula of the rows' differences, which has no norm."""
    fd.manual_seed(0)
    x = fd.randn(4, 2, dtype=fd.float64)

    def by_differences(x: Any) -> Any:
        return (-(x[:, None] - x[None]).square().sum(-1)).exp().sin().sum()

    wanted = fd.func.hessian(by_differences)(x)
    for mode in ("donot_use_mm_for_euclid_dist", _BY_PRODUCT):
        found = fd.func.hessian(
            lambda x, mode=mode: (-(fd.cdist(x, x, compute_mode=mode) ** 2)).exp().sin().sum()
        )(x)
        fd.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-7)


def test_hessians_of_a_batch_are_right_where_a_row_is_0() -> None:
    rows = fd.tensor([[0.0, 0.0], [3.0, 4.0]], dtype=fd.float64)
    found = fd.func.vmap(fd.func.hessian(lambda x: x.norm() ** 2))(rows)
    fd.testing.assert_close(found, 2 * fd.eye(2, dtype=fd.float64).expand(2, 2, 2))


def test_first_derivatives_at_0_stay_0() -> None:
    x = zeros(3).requires_grad_()
    for f in (fd.linalg.norm, lambda x: fd.cdist(x[None], zeros(1, 3)).sum()):
        (found,) = fd.autograd.grad(f(x), x, create_graph=True)
        assert found.tolist() == [0.0] * 3
        assert fd.func.jvp(f, (zeros(3),), (zeros(3) + 1,))[1].item() == 0.0


def test_a_row_of_0_leaves_the_derivatives_of_other_rows() -> None:
    """Test a derivative that only involves rows other than the zero row."""
    x = fd.tensor([[0.0, 0.0], [3.0, 4.0]], dtype=fd.float64, requires_grad=True)
    (slope,) = fd.autograd.grad(x.norm(dim=1).sum(), x, create_graph=True)
    (found,) = fd.autograd.grad(slope[1, 0], x)
    fd.testing.assert_close(found[1], fd.tensor([16.0, -12.0], dtype=fd.float64) / 125)
    assert found[0].tolist() == [0.0, 0.0]


def test_a_gradient_of_one_norm_says_nothing_about_another() -> None:
    """The quotient stored with a gradient is used for one norm only, until the gradient changes."""
    a, b = (fd.tensor(v, dtype=fd.float64, requires_grad=True) for v in ([3.0, 4.0], [0.6, 0.8]))
    n, m = a.norm(), b.norm()
    (g,) = fd.autograd.grad(n**2, n, create_graph=True)
    (found,) = fd.autograd.grad(m, b, grad_outputs=g, create_graph=True)
    fd.testing.assert_close(found, 10 * b)
    n = a.norm()
    n.register_hook(lambda g: g.mul_(3.0))
    (found,) = fd.autograd.grad(n**2, a, create_graph=True)
    fd.testing.assert_close(found, 6 * a)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("exponent", [2, 2.5, 3.0, 4])
def test_powers_of_norms_have_their_hessians_beside_a_row_of_0(exponent: float, way: str) -> None:
    def f(x: Any) -> Any:
        return (x.view(2, 2).norm(dim=1) ** exponent).sum()

    found = WAYS[way](f)(fd.tensor([0.3, -1.2, 0.0, 0.0], dtype=fd.float64))
    x, size = fd.tensor([0.3, -1.2], dtype=fd.float64), 1.53**0.5
    bent = (exponent - 2) / 1.53 * fd.outer(x, x)
    wanted = fd.zeros(4, 4, dtype=fd.float64)
    wanted[:2, :2] = exponent * size ** (exponent - 2) * (fd.eye(2, dtype=fd.float64) + bent)
    if exponent == 2:
        wanted[2:, 2:] = 2 * fd.eye(2, dtype=fd.float64)
    fd.testing.assert_close(found, wanted)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("order", [2.5, 3.0, 4.0])
def test_norms_of_other_orders_have_their_hessians_beside_a_0(order: float, way: str) -> None:
    found = WAYS[way](lambda x: fd.linalg.vector_norm(x, order))(
        fd.tensor([0.3, -1.2, 0.0], dtype=fd.float64)
    )
    x = fd.tensor([0.3, -1.2], dtype=fd.float64)
    slope = x.sign() * x.abs() ** (order - 1)
    size = (x.abs() ** order).sum() ** (1 / order)
    wanted = fd.zeros(3, 3, dtype=fd.float64)
    wanted[:2, :2] = (order - 1) * (
        fd.diag(x.abs() ** (order - 2)) * size ** (1 - order)
        - fd.outer(slope, slope) * size ** (1 - 2 * order)
    )
    fd.testing.assert_close(found, wanted)
