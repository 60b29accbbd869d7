"""Second derivatives at 0 of a square of a norm, with other functions between norm and square."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import fastdist as fd
import fastdist.nn.functional as F
from fastdist.autograd import forward_ad
from fastdist.autograd.functional import hessian as functional_hessian
from fastdist.devices.cuda import CudaBackend
from tests.fibre_shim.installed import cuda_on_fibres
from tests.ops.reduce.test_norms_at_zero import reverse_over_reverse, zeros

Function = Callable[[Any], Any]


def dual_of_recorded(f: Function) -> Function:
    """Return the Hessian of f; its columns are tangents of a gradient that has a graph."""

    def hessian(x: Any) -> Any:
        columns = []
        for unit in fd.eye(x.numel(), dtype=x.dtype).reshape(-1, *x.shape):
            with forward_ad.dual_level():
                dual = forward_ad.make_dual(x.detach().clone().requires_grad_(), unit)
                (slope,) = fd.autograd.grad(f(dual), dual, create_graph=True)
                columns.append(forward_ad.unpack_dual(slope).tangent.detach())
        return fd.stack(columns)

    return hessian


# Methods to compute a Hessian. The first two are tested on every function.
WAYS: dict[str, Callable[[Function], Function]] = {
    "reverse over reverse": lambda f: (
        lambda x: reverse_over_reverse(lambda flat: f(flat.view(x.shape)))(x.reshape(-1))
    ),
    "hessian": fd.func.hessian,
    "dual of recorded": dual_of_recorded,
    "functional": lambda f: lambda x: functional_hessian(f, x),
    "jacrev of jacrev": lambda f: fd.func.jacrev(fd.func.jacrev(f)),
}
BY_PRODUCT = "use_mm_for_euclid_dist"
BY_DIFFERENCES = "donot_use_mm_for_euclid_dist"
TWO = fd.tensor(2.0, dtype=fd.float64)


def complex_of(x: Any) -> Any:
    return fd.complex(x[0], x[1])


def of_norm(function: Callable[[Any], Any]) -> Function:
    """Return the function of x that calls `function` with the norm of x."""
    return lambda x: function(x.norm())


# By name: (a function whose Hessian at 0 is a multiple of the identity, the multiple's factor).
SMOOTH: dict[str, tuple[Function, float]] = {
    "divided": (of_norm(lambda n: (n / 2) ** 2), 0.5),
    "scaled": (of_norm(lambda n: (2 * n) ** 2), 8.0),
    "negative": (of_norm(lambda n: (-n) ** 2), 2.0),
    "product": (of_norm(lambda n: n * n), 2.0),
    "two norms of one tensor": (lambda x: (x.norm() + x.norm()) ** 2, 8.0),
    "sum": (of_norm(lambda n: n**2 + 3 * n.square()), 8.0),
    "exponent of a tensor": (of_norm(lambda n: n**TWO), 2.0),
    "view": (of_norm(lambda n: (n.view(1, 1).t() ** 2).sum()), 2.0),
    "clone": (of_norm(lambda n: n.clone().contiguous().reshape(1)[0] ** 2), 2.0),
    "cast": (of_norm(lambda n: n.to(fd.float32).to(fd.float64) ** 2), 2.0),
    "mean of squares": (lambda x: F.mse_loss(x.norm(), zeros()), 2.0),
    "huber": (lambda x: F.huber_loss(x.norm(), zeros()), 1.0),
    "cosine": (of_norm(fd.cos), -1.0),
    "kernel": (of_norm(lambda n: (-((n / 1.5) ** 2) / 2).exp()), -1 / 2.25),
    "matern": (of_norm(lambda n: (1 + n + n * n / 3) * (-n).exp()), -1 / 3),
    "power below 3": (of_norm(lambda n: (n / 2) ** 2.5), 0.0),
    "rows": (lambda x: (fd.stack([x, 2 * x]).norm(dim=1) / 2).square().sum(), 2.5),
    "norm of norms": (lambda x: (fd.stack([x.norm(), (2 * x).norm()]).norm() / 2) ** 2, 2.5),
    "matrix": (lambda x: (fd.linalg.matrix_norm(x[None]) / 2).square(), 0.5),
    "keepdim": (lambda x: (fd.linalg.norm(x, dim=0, keepdim=True) / 2).square().sum(), 0.5),
    "pairwise": (
        lambda x: (F.pairwise_distance(x[None], zeros(1, 3), eps=0.0) / 2).square().sum(), 0.5
    ),
    "pdist": (lambda x: (F.pdist(fd.stack([x, zeros(3)])) / 2).square().sum(), 0.5),
    "std": (lambda x: (x.std() / 2) ** 2 * 8 + x.sum() ** 2 / 3, 2.0),
    "complex abs": (lambda x: complex_of(x).abs().square() + x[2] ** 2, 2.0),
    "complex norm": (lambda x: (complex_of(x)[None].norm() / 2) ** 2 * 4 + x[2] ** 2, 2.0),
    "distance by product": (
        lambda x: (fd.cdist(x[None], zeros(2, 3), compute_mode=BY_PRODUCT)[0, 0] / 2) ** 2, 0.5
    ),
    "shifted by product": (
        lambda x: fd.cdist(x[None] + 1, zeros(2, 3) + 1, 2.0, BY_PRODUCT).square().sum(), 4.0
    ),
}  # fmt: skip
# Functions without a second derivative at 0 along the first axis.
ROUGH: dict[str, Function] = {
    "norm": fd.linalg.vector_norm,
    "power below 2": of_norm(lambda n: n**1.5),
    "abs": of_norm(fd.abs),
    "abs squared": of_norm(lambda n: n.abs() ** 2),
    "relu": of_norm(F.relu),
    "relu squared": of_norm(lambda n: F.relu(n / 2) ** 2),
    "maximum squared": of_norm(lambda n: fd.maximum(n, zeros()) ** 2),
    "absolute difference": lambda x: F.l1_loss(x.norm(), zeros()),
    "root of the square": of_norm(lambda n: (n**2).sqrt()),
    "product of two": lambda x: x[:1].norm() * x[1:].norm() * (x[0] + 1),
    "square of a sum": lambda x: (x[:1].norm() + x[1:].norm()) ** 2,
    "square of a sum of rows": lambda x: fd.stack([x, x + 0]).norm(dim=1).sum().square(),
    "std": fd.std,
    "complex abs": lambda x: complex_of(x).abs(),
    "exponential": of_norm(lambda n: (-n).exp()),
    "triplet": lambda x: F.triplet_margin_loss(x[None], zeros(1, 3), zeros(1, 3), eps=0.0),
    "distance by product": lambda x: fd.cdist(x[None], zeros(2, 3), 2.0, BY_PRODUCT).sum(),
    "shifted by product": (
        lambda x: (-fd.cdist(x[None] + 1, zeros(2, 3) + 1, 2.0, BY_PRODUCT)).exp().sum()
    ),
}


def in_ways(few: tuple[str, ...], names: dict[str, Any]) -> Any:
    """Return the parameters (name, method).

    Methods after the first two are marked `slow`, except for the names in `few`.
    """
    found = []
    for name in names:
        for i, way in enumerate(WAYS):
            marks = () if i < 2 or name in few else (pytest.mark.slow,)
            found.append(pytest.param(name, way, marks=marks))
    return pytest.mark.parametrize(("name", "way"), found)


@pytest.mark.one_in(5)
@in_ways(("divided", "sum"), SMOOTH)
def test_functions_that_are_smooth_at_0_have_their_hessian_there(name: str, way: str) -> None:
    f, factor = SMOOTH[name]
    wanted = factor * fd.eye(3, dtype=fd.float64)
    fd.testing.assert_close(WAYS[way](f)(zeros(3)), wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.one_in(5)
@in_ways(("norm", "relu", "square of a sum"), ROUGH)
def test_functions_that_are_not_have_none(name: str, way: str) -> None:
    """The result is NaN, or infinity for the square root of a square."""
    assert not bool(WAYS[way](ROUGH[name])(zeros(3))[0, 0].isfinite())


def dual_of_passing(f: Function) -> Function:
    """Return the Hessian of f; its columns are tangents of a gradient that has no graph."""

    def hessian(x: Any) -> Any:
        columns = []
        for unit in fd.eye(x.numel(), dtype=x.dtype):
            with forward_ad.dual_level():
                dual = forward_ad.make_dual(x.detach().clone().requires_grad_(), unit)
                (slope,) = fd.autograd.grad(f(dual), dual)
                columns.append(forward_ad.unpack_dual(slope).tangent)
        return fd.stack(columns)

    return hessian


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "way",
    [
        dual_of_passing,
        lambda f: fd.func.jacfwd(fd.func.jacfwd(f)),
        lambda f: fd.func.jacrev(fd.func.jacfwd(f)),
    ],
)
@pytest.mark.parametrize(
    "name", ["divided", "sum", "std", "complex abs", "distance by product", "shifted by product"]
)
def test_ways_that_do_not_know_a_slope_say_nan(name: str, way: Any) -> None:
    """These methods are only right for squares of norms; for other functions they may give NaN."""
    f, factor = SMOOTH[name]
    found = way(f)(zeros(3))
    wanted = factor * fd.eye(3, dtype=fd.float64)
    assert bool(found.isnan().any()) or bool(fd.allclose(found, wanted))


def squares(a: Any, b: Any) -> Any:
    """Return squared distances between rows, computed without a norm."""
    return (a.unsqueeze(-2) - b.unsqueeze(-3)).square().sum(-1)


def rows_and_scale() -> Any:
    """Return four rows, of which the first two are equal, followed by a row of two scales."""
    fd.manual_seed(0)
    x = fd.randn(5, 2, dtype=fd.float64)
    x[1], x[4] = x[0], fd.tensor([0.7, 1.3])
    return x


EYE = fd.eye(4, dtype=fd.float64)
# Functions that map (distances between the four rows, a scale) to a number.
KERNELS: dict[str, Callable[[Any, Any], Any]] = {
    "squares": lambda d, by: ((2 * d) ** 2 / by).sin().sum(),
    "scaled distance": lambda d, by: (d.div(by).square() / -2).exp().cos().sum(),
    "scaled square": lambda d, by: (d.square() / (-2 * by**2)).exp().cos().sum(),
    "logdet": lambda d, by: ((d / by).square().div(-2).exp() + 0.1 * EYE).logdet(),
}
# The same functions, written with squared distances.
KERNELS_OF_SQUARES: dict[str, Callable[[Any, Any], Any]] = {
    "squares": lambda s, by: (4 * s / by).sin().sum(),
    "scaled distance": lambda s, by: (s / (-2 * by**2)).exp().cos().sum(),
    "scaled square": lambda s, by: (s / (-2 * by**2)).exp().cos().sum(),
    "logdet": lambda s, by: ((s / (-2 * by**2)).exp() + 0.1 * EYE).logdet(),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("mode", [BY_PRODUCT, BY_DIFFERENCES])
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_have_the_hessians_by_rows_and_scale(name: str, mode: str) -> None:
    """Compare functions of distances with the same functions written with squared distances."""
    kernel, of_squares = KERNELS[name], KERNELS_OF_SQUARES[name]

    def found(z: Any) -> Any:
        x, by = z[:4], z[4]
        scaled = x.div(by)
        first = kernel(fd.cdist(x, x, compute_mode=mode), by[0])
        return first + kernel(fd.cdist(scaled, scaled, compute_mode=mode), by[1])

    def wanted(z: Any) -> Any:
        x, by = z[:4], z[4]
        scaled = x.div(by)
        return of_squares(squares(x, x), by[0]) + of_squares(squares(scaled, scaled), by[1])

    z = rows_and_scale()
    expected = fd.func.hessian(wanted)(z)
    for way in ("reverse over reverse", "hessian"):
        hessian = WAYS[way](found)(z).view(expected.shape)
        fd.testing.assert_close(hessian, expected, rtol=1e-9, atol=1e-9)


def test_distances_of_many_rows_go_by_product_and_have_the_hessian() -> None:
    """Test in float32 along one direction; two rows are equal."""
    fd.manual_seed(1)
    x, v = fd.randn(2, 27, 2)
    x[3] = x[7]
    pair = [
        fd.func.jvp(fd.func.grad(f), (x,), (v,))[1]
        for f in (
            lambda x: (-((fd.cdist(x, x) / 2) ** 2)).exp().sum(),
            lambda x: (-squares(x, x) / 4).exp().sum(),
        )
    ]
    fd.testing.assert_close(*pair, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mode", [BY_PRODUCT, BY_DIFFERENCES])
def test_distances_of_rows_from_themselves_do_not_bend(mode: str) -> None:
    """The distance of a row from itself is always 0, so it does not contribute to a Hessian."""
    x = rows_and_scale()[1:4]
    eye = fd.eye(3, dtype=fd.float64)

    def wanted(x: Any) -> Any:
        return ((-(squares(x, x) + eye).sqrt()).exp() * (1 - eye)).sum()

    def found(x: Any) -> Any:
        return (-fd.cdist(x, x, compute_mode=mode)).exp().sum()

    for way in ("reverse over reverse", "hessian"):
        hessian = WAYS[way](found)(x).view(3, 2, 3, 2)
        fd.testing.assert_close(hessian, fd.func.hessian(wanted)(x))


def test_rows_whose_distance_is_0_alone_have_nan() -> None:
    x = rows_and_scale()[:4]
    for mode in (BY_PRODUCT, BY_DIFFERENCES):
        found = fd.func.hessian(lambda x, mode=mode: fd.cdist(x, x, compute_mode=mode).sum())(x)
        is_nan = found.isnan().movedim(2, 1)
        assert bool(is_nan[:2, :2].any()) and not bool(is_nan[2:].any())


@pytest.mark.parametrize("mode", [BY_PRODUCT, BY_DIFFERENCES])
def test_hessians_of_batches_and_of_broadcast_rows(mode: str) -> None:
    x = rows_and_scale()[:4]

    def of(a: Any, b: Any) -> Any:
        return (-((fd.cdist(a, b, compute_mode=mode) / 2) ** 2)).exp().sin().sum()

    def wanted(a: Any, b: Any) -> Any:
        return (-squares(a, b) / 4).exp().sin().sum()

    for pair in (lambda x: (x.view(2, 2, 2), x.view(2, 1, 2, 2)), lambda x: (x.view(4, 1, 2), x)):
        found = WAYS["reverse over reverse"](lambda x, pair=pair: of(*pair(x)))(x)
        expected = fd.func.hessian(lambda x, pair=pair: wanted(*pair(x)))(x)
        fd.testing.assert_close(found.view(expected.shape), expected)
    batch = fd.stack([x, 2 * x, 0 * x])
    found = fd.func.vmap(fd.func.hessian(lambda x: of(x, x)))(batch)
    fd.testing.assert_close(found, fd.func.vmap(fd.func.hessian(lambda x: wanted(x, x)))(batch))
    found = fd.func.vmap(fd.func.hessian(lambda one: of(x, one[None])))(x)
    expected = fd.func.vmap(fd.func.hessian(lambda one: wanted(x, one[None])))(x)
    fd.testing.assert_close(found, expected)


def test_first_derivatives_stay_what_they_are() -> None:
    x = rows_and_scale()[:4].requires_grad_()
    functions: list[Function] = [
        lambda x: (x - x.detach()).norm(dim=1).sum() + x.norm(),
        lambda x: fd.cdist(x, x, compute_mode=BY_PRODUCT).sum(),
        lambda x: (fd.cdist(x, x, compute_mode=BY_PRODUCT) / 2).square().sum(),
        lambda x: x.new_ones(3).mul(x.sum()).std(),
        lambda x: fd.view_as_complex(x - x.detach()).abs().sum() + x.sum(),
    ]
    for f in functions:
        (plain,) = fd.autograd.grad(f(x), x)
        (recorded,) = fd.autograd.grad(f(x), x, create_graph=True)
        assert plain.tolist() == recorded.tolist()


def test_a_freed_graph_leaves_the_first_derivative() -> None:
    x = zeros(3).requires_grad_()
    (found,) = fd.autograd.grad((x.norm() / 2) ** 2, x, retain_graph=False, create_graph=True)
    assert found.tolist() == [0.0] * 3


def test_a_function_without_a_second_derivative_leaves_the_first() -> None:
    class Once(fd.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @fd.autograd.function.once_differentiable
        def backward(ctx: Any, g: Any) -> Any:
            return 2 * g * ctx.saved_tensors[0]

    x = zeros(3).requires_grad_()
    (found,) = fd.autograd.grad(Once.apply(x.norm()), x, create_graph=True)
    assert found.tolist() == [0.0] * 3


def test_hooks_on_a_norm_see_its_gradient_alone() -> None:
    x = zeros(3).requires_grad_()
    n, seen = x.norm(), list[float]()
    n.register_hook(lambda g: seen.append(g.item()))
    n.retain_grad()
    (found,) = fd.autograd.grad((n / 2 + 1) ** 2, x, create_graph=True)
    assert found.tolist() == [0.0] * 3
    assert seen == [1.0]


def test_distances_that_a_graph_holds_are_not_to_be_changed() -> None:
    x = fd.randn(3, 2).requires_grad_()
    d = fd.cdist(x, x, compute_mode=BY_PRODUCT)
    found = (d**2).sum()
    with fd.no_grad():
        d.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        fd.autograd.grad(found, x, create_graph=True)


def test_third_derivatives_are_right_or_nan() -> None:
    """At 0, the quotient is exact to first order in other tensors, but not in the norm."""

    def kernel(x: Any, scale: Any) -> Any:
        return (-((x.norm() / scale) ** 2) / 2).exp()

    scale = fd.tensor(1.3, dtype=fd.float64)
    by_scale = fd.func.jacfwd(fd.func.hessian(kernel), 1)(zeros(2), scale)
    fd.testing.assert_close(by_scale, 2 / 1.3**3 * fd.eye(2, dtype=fd.float64))
    assert bool(fd.func.jacrev(fd.func.hessian(kernel))(zeros(2), scale).isnan().any())


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[CudaBackend]:
    yield from cuda_on_fibres(monkeypatch)


@pytest.mark.slow
def test_the_hessians_on_cuda_are_those_on_the_cpu(cuda: CudaBackend) -> None:
    x = rows_and_scale()[:3].float()

    def kernel(x: Any) -> Any:
        d = fd.cdist(x, x, compute_mode=BY_PRODUCT)
        return (-((d / 2) ** 2)).exp().sum() + (2 * (x[0] - x[1]).norm()).square()

    found = WAYS["reverse over reverse"](kernel)(x.to("cuda"))
    wanted = WAYS["reverse over reverse"](kernel)(x)
    fd.testing.assert_close(found.cpu(), wanted, rtol=1e-5, atol=1e-5)
