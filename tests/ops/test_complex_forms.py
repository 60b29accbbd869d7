"""Ops on complex numbers without a complex kernel have NumPy's values and right derivatives."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.autograd import gradcheck, gradgradcheck
from fastdist.nn import functional as F

RNG = np.random.default_rng(5)
A, B = [RNG.standard_normal((3, 4)) + 1j * RNG.standard_normal((3, 4)) for _ in range(2)]
WITH_ZEROS = A * (RNG.uniform(size=A.shape) > 0.3)
IMAGES = RNG.standard_normal((2, 2, 5)) + 1j * RNG.standard_normal((2, 2, 5))
WEIGHT = RNG.standard_normal((3, 2, 3)) + 1j * RNG.standard_normal((3, 2, 3))
ROWS = fd.tensor([[0, 2, 1, 0]])

Program = Callable[[Any, Any], Any]
# By name: (the function of two complex tensors, the same function of NumPy, the arguments).
PROGRAMS: dict[str, tuple[Program, Program, tuple[Any, Any]]] = {
    "acosh": (lambda a, b: a.acosh(), lambda a, b: np.arccosh(a), (A, B)),
    "sinc": (lambda a, b: a.sinc(), lambda a, b: np.sinc(a), (A, B)),
    "softsign": (lambda a, b: F.softsign(a), lambda a, b: a / (1 + abs(a)), (A, B)),
    "tanhshrink": (lambda a, b: F.tanhshrink(a), lambda a, b: a - np.tanh(a), (A, B)),
    "silu": (lambda a, b: F.silu(a), lambda a, b: a / (1 + np.exp(-a)), (A, B)),
    "l1 loss": (F.l1_loss, lambda a, b: abs(a - b).mean(), (A, B)),
    "logaddexp": (
        lambda a, b: a.logaddexp(b).exp(), lambda a, b: np.exp(a) + np.exp(b), (A, B),
    ),
    "logsumexp": (
        lambda a, b: a.logsumexp(1).exp(), lambda a, b: np.exp(a).sum(1), (A, B),
    ),
    "running log-sum": (
        lambda a, b: a.logcumsumexp(1).exp(), lambda a, b: np.exp(a).cumsum(1), (A, B),
    ),
    "lerp": (lambda a, b: a.lerp(b, 0.3 - 1j), lambda a, b: a + (0.3 - 1j) * (b - a), (A, B)),
    "lerp by a tensor": (lambda a, b: a.lerp(b, a * b), lambda a, b: a + a * b * (b - a), (A, B)),
    "lerp in place": (
        lambda a, b: (a * 1).lerp_(b, 0.3 - 1j), lambda a, b: a + (0.3 - 1j) * (b - a), (A, B),
    ),
    "lerp in place of a view": (
        lambda a, b: (a * 1)[1:].lerp_(b[0], a[:2]), lambda a, b: a[1:] + a[:2] * (b[0] - a[1:]),
        (A, B),
    ),
    "silu in place": (
        lambda a, b: F.silu(a * 1, inplace=True), lambda a, b: a / (1 + np.exp(-a)), (A, B),
    ),
    "factors": (
        lambda a, b: a.add(b, alpha=2j).sub(a, alpha=1 - 1j).addcmul(a, b, value=3j),
        lambda a, b: a + 2j * b - (1 - 1j) * a + 3j * a * b,
        (A, B),
    ),
    "product added": (
        lambda a, b: fd.addmm(a, a @ b.T, b, beta=1j, alpha=2 - 1j),
        lambda a, b: 1j * a + (2 - 1j) * (a @ b.T @ b),
        (A, B),
    ),
    "running product with zeros": (
        lambda a, b: a.cumprod(1) * b, lambda a, b: a.cumprod(1) * b, (WITH_ZEROS, B),
    ),
    "covariance": (lambda a, b: fd.cov(a), lambda a, b: np.cov(a), (A, B)),
    "powers": (
        lambda a, b: fd.linalg.vander(a[0]), lambda a, b: np.vander(a[0], increasing=True), (A, B),
    ),
    "vecdot": (fd.linalg.vecdot, lambda a, b: (a.conj() * b).sum(1), (A, B)),
    "renorm": (
        lambda a, b: a.renorm(2, 0, 1.0),
        lambda a, b: a / np.maximum(1, np.linalg.norm(a, axis=1, keepdims=True) + 1e-7),
        (A, B),
    ),
    "scatter": (
        lambda a, b: a.scatter(0, ROWS, b),
        lambda a, b: _written(a, b, add=False),
        (A, B),
    ),
    "scatter add": (
        lambda a, b: a.scatter_add(0, ROWS, b), lambda a, b: _written(a, b, add=True), (A, B),
    ),
    "written rows": (
        lambda a, b: _write(a * 1, b), lambda a, b: _write(a * 1, b), (A, B),
    ),
    "padding": (
        lambda a, b: F.pad(a * b, (1, 0), value=2j),
        lambda a, b: np.pad(a * b, ((0, 0), (1, 0)), constant_values=2j),
        (A, B),
    ),
    "convolution": (
        lambda a, b: F.conv1d(a, b, b[:, 0, 0], padding=1),
        lambda a, b: _convolved(a, b) + b[:, 0, 0][:, None],
        (IMAGES, WEIGHT),
    ),
    "convolution transposed": (
        lambda a, b: F.conv_transpose1d(F.conv1d(a, b), b),
        lambda a, b: _spread(_convolved(a, b)[..., 1:-1], b),
        (IMAGES, WEIGHT),
    ),
    "patches": (
        lambda a, b: F.unfold(a[:, :, None], (1, 3)),
        lambda a, b: np.stack([a[..., i : i + 3].reshape(2, 6) for i in range(3)], -1),
        (IMAGES, WEIGHT),
    ),
}  # fmt: skip


def _written(a: Any, b: Any, *, add: bool) -> Any:
    out = a.copy()
    for j, i in enumerate(ROWS.tolist()[0]):
        out[i, j] = b[0, j] + (out[i, j] if add else 0)
    return out


def _write(x: Any, values: Any) -> Any:
    rows = [2, 0]
    x[fd.tensor(rows) if isinstance(x, fd.Tensor) else rows] = values[:2]
    x[1, 1] = 3j
    return x


def _convolved(x: Any, weight: Any) -> Any:
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1)))
    places = range(padded.shape[-1] - 2)
    return np.stack([np.einsum("ncp,ocp->no", padded[..., i : i + 3], weight) for i in places], -1)


def _spread(x: Any, weight: Any) -> Any:
    out = np.zeros((len(x), weight.shape[1], x.shape[-1] + 2), complex)
    for i in range(x.shape[-1]):
        out[..., i : i + 3] += np.einsum("no,ocp->ncp", x[..., i], weight)
    return out


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(fd.complex64, 2e-5), (fd.complex128, 1e-12)])
def test_values_are_numpy_s(name: str, dtype: fd.dtype, tolerance: float) -> None:
    ours, numpys, arrays = PROGRAMS[name]
    found = ours(*[fd.tensor(one, dtype=dtype) for one in arrays])
    expected = numpys(*arrays)
    size = max(1.0, abs(expected).max())
    np.testing.assert_allclose(found.numpy(), expected, rtol=tolerance, atol=tolerance * size)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", PROGRAMS)
def test_derivatives_are_those_of_differences(name: str, samples_alone: bool) -> None:
    ours, _, arrays = PROGRAMS[name]
    given = [fd.tensor(one, requires_grad=True) for one in arrays]
    assert gradcheck(ours, given, check_forward_ad=True)
    # Fast mode checks a single random direction.
    assert gradgradcheck(ours, given, fast_mode=samples_alone)


def test_logsumexp_of_no_complex_numbers_is_the_logarithm_of_0() -> None:
    assert fd.zeros(2, 0, dtype=fd.complex64).logsumexp(1).tolist() == [-np.inf, -np.inf]
    assert fd.zeros(0, 3, dtype=fd.complex64).logsumexp(1).shape == (0,)


def test_logsumexp_of_complex_numbers_does_not_overflow() -> None:
    x = fd.tensor([1000 + 1j, 1000 - 1j], dtype=fd.complex128)
    assert abs(x.logsumexp(0).item() - (1000 + np.log(2 * np.cos(1)))) < 1e-12
    assert x[:1].logaddexp(x[1:]).isfinite().all()


def test_parts_can_be_assigned() -> None:
    x = fd.tensor([1 + 1j, 2.0])
    x.real, x.imag = fd.tensor([5.0, 6.0]), 3
    assert x.tolist() == [5 + 3j, 6 + 3j]
    plain = fd.zeros(2)
    plain.real = 4.0
    assert plain.tolist() == [4.0, 4.0]
    leaf = fd.ones(2, requires_grad=True)
    y = leaf * 1j
    y.real = leaf * 2
    y.abs().square().sum().backward()
    assert leaf.grad.tolist() == [10.0, 10.0]


def test_numbers_evenly_apart_may_be_complex() -> None:
    assert fd.linspace(0, 1j, 3).tolist() == [0, 0.5j, 1j]
    assert fd.linspace(0, 1, 3, dtype=fd.complex64).tolist() == [0, 0.5, 1]
    np.testing.assert_allclose(fd.logspace(0, 2j, 3), 10 ** np.linspace(0, 2j, 3), rtol=1e-6)
    with pytest.raises(RuntimeError, match="can't be safely cast to passed dtype"):
        fd.linspace(0, 1j, 3, dtype=fd.float32)


def test_a_complex_number_without_an_imaginary_part_is_a_real_one() -> None:
    assert (int(fd.tensor(3 + 0j)), float(fd.tensor(2.5 + 0j))) == (3, 2.5)
    for kind in (int, float):
        with pytest.raises(RuntimeError, match="cannot be converted to type"):
            kind(fd.tensor(1 + 1j))


def test_dtypes_tell_their_twins() -> None:
    assert fd.complex128.to_real() is fd.float64 and fd.float32.to_real() is fd.float32
    assert fd.float16.to_complex() is fd.complex64 and fd.float64.to_complex() is fd.complex128
    with pytest.raises(RuntimeError, match="Unknown Complex ScalarType for Int"):
        fd.int32.to_complex()


def test_real_tensors_take_no_complex_factors() -> None:
    x = fd.ones(2, 2)
    for wrong in (lambda: x.add(x, alpha=1j), lambda: fd.addmm(x, x, x, beta=1j)):
        with pytest.raises(RuntimeError, match="cannot be converted to type"):
            wrong()


MANY: dict[str, Program] = {
    "scatter": lambda x, at: x.scatter(0, at, x * 2j),
    "scatter add": lambda x, at: x.scatter_add(0, at, x * 2j),
    "put": lambda x, at: x.put(at, x * 2j, accumulate=True),
    "index copy": lambda x, at: x.index_copy(0, at, x * 2j),
    "running sum": lambda x, at: x.reshape(100, -1).cumsum(1).flatten(),
    "running product": lambda x, at: (x / x.abs()).reshape(100, -1).cumprod(1).flatten(),
    "acosh": lambda x, at: x.acosh(),
    "lerp": lambda x, at: x.lerp(x * 1j, 0.2),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", MANY)
def test_many_complex_numbers_are_as_few_are(name: str) -> None:
    x = fd.complex(fd.randn(40_000), fd.randn(40_000)).requires_grad_()
    at = fd.arange(40_000).flip(0)
    wide = x.detach().to(fd.complex128).requires_grad_()
    for given in (x, wide):
        found = MANY[name](given, at)
        (2 * found.real + found.imag).sum().backward()
    values = [MANY[name](given.detach(), at).numpy() for given in (x, wide)]
    np.testing.assert_allclose(*values, rtol=1e-4, atol=1e-4)
    size = wide.grad.abs().max().item()
    np.testing.assert_allclose(x.grad.numpy(), wide.grad.numpy(), rtol=1e-3, atol=1e-4 * size)


def test_running_products_of_many_with_a_zero_have_right_gradients() -> None:
    x = fd.complex(fd.randn(3, 6000), fd.randn(3, 6000)).to(fd.complex128)
    x = (x / x.abs()).index_fill(1, fd.tensor([5000]), 0).requires_grad_()
    (x.cumprod(1)[:, 4990:5000].sum()).abs().backward()
    assert x.grad[:, 5000:].abs().max() == 0 and x.grad[:, 100].abs().min() > 0
    rest = x.detach()[:, :5000].clone().requires_grad_()
    (rest.cumprod(1)[:, 4990:].sum()).abs().backward()
    np.testing.assert_allclose(x.grad[:, :5000].numpy(), rest.grad.numpy(), rtol=1e-9)


def test_in_place_forms_refuse_what_the_target_cannot_hold() -> None:
    x = fd.tensor(A[0])
    with pytest.raises(RuntimeError, match="In-place abs is not supported for complex tensors"):
        x.clone().abs_()
    with pytest.raises(RuntimeError, match=r"output with shape \[4\] doesn't match the broadcast"):
        x.clone().lerp_(fd.tensor(A), 0.5)
    version = x._version
    x.lerp_(x + 1, 0.5)
    assert x._version > version
    assert np.allclose(x.numpy(), A[0] + 0.5)


def test_running_log_sums_do_not_overflow_and_keep_infinities() -> None:
    inf = math.inf
    far = fd.tensor([-inf + 1j, -1e3 + 2j, 1e3 + 2j, 1e3 + 1j], dtype=fd.complex128)
    found = far.logcumsumexp(0).tolist()
    assert found[0].real == -inf and found[1:3] == [-1e3 + 2j, 1e3 + 2j]
    assert found[3] == pytest.approx(1e3 + 2j + np.log1p(np.exp(-1j)))
    ends = fd.tensor([complex(1, 2), complex(inf, 1), 3j, complex(0, math.nan), 1j])
    found = ends.logcumsumexp(0).tolist()
    assert found[:3] == [1 + 2j, complex(inf, 1), complex(inf, 1)]
    assert all(math.isnan(one.real) and math.isnan(one.imag) for one in found[3:])
    assert fd.tensor(2 + 7j).logcumsumexp(0).item() == 2 + 7j
    assert fd.empty(0, 3, dtype=fd.complex64).logcumsumexp(1).shape == (0, 3)


def test_a_zero_in_one_row_of_complex_numbers_has_its_running_product_s_gradient() -> None:
    x = fd.tensor([1 + 1j, 0, 2j], requires_grad=True)
    x.cumprod(0).real.sum().backward()
    # The sum is x0 + x0 x1 + x0 x1 x2. An element's gradient is the conjugate of its factor in it.
    expected = [1, ((1 + 1j) * (1 + 2j)).conjugate(), 0]
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-6)
