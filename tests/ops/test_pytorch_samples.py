"""Unusual calls among PyTorch's own sample inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.func import jvp
from fastdist.nn import functional as F

INF = float("inf")
WRITERS: dict[str, Any] = {
    "scatter": lambda x, e, s: x.scatter(0, e, s),
    "scatter of a number": lambda x, e, s: x.scatter(0, e, 2.0),
    "scatter_add": lambda x, e, s: x.scatter_add(0, e, s),
    "scatter_reduce": lambda x, e, s: x.scatter_reduce(0, e, s, "amax"),
    "scatter with reduce": lambda x, e, s: x.scatter(0, e, s, reduce="add"),
}


@pytest.mark.parametrize("dtype", [fd.uint8, fd.int16, fd.bool, fd.float32, fd.int64])
def test_an_empty_index_of_gather_and_scatter_has_any_dtype(dtype: fd.dtype) -> None:
    x, empty = fd.arange(5.0, requires_grad=True), fd.empty(0, dtype=dtype)
    found = x.gather(0, empty)
    assert (found.shape, found.dtype) == ((0,), fd.float32)
    found.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [0.0] * 5
    assert x.detach().reshape(1, 5).gather(0, empty.reshape(0, 1)).shape == (0, 1)
    for name, write in WRITERS.items():
        assert write(x.detach(), empty, fd.empty(0)).tolist() == [0, 1, 2, 3, 4], name


def test_an_index_that_names_something_is_of_whole_numbers() -> None:
    x = fd.arange(5.0)
    for index in (fd.tensor([1], dtype=fd.uint8), fd.tensor([1.0])):
        with pytest.raises(RuntimeError, match="Expected dtype int32/int64 for index"):
            x.gather(0, index)
        with pytest.raises(RuntimeError, match="Expected dtype int32/int64 for index"):
            x.scatter_add(0, index, fd.ones(1))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("shape", [(0,), (0, 0), (2, 0), (0, 0, 2), (2, 0, 3, 3)])
def test_batch_norm_of_no_channels_is_empty(shape: tuple[int, ...], training: bool) -> None:
    x, weight = fd.zeros(shape, requires_grad=True), fd.ones(0, requires_grad=True)
    mean, variance = fd.zeros(0), fd.ones(0)
    found = F.batch_norm(x, mean, variance, weight, fd.zeros(0), training)
    found.sum().backward()
    assert found.shape == shape and x.grad is not None and x.grad.shape == shape
    assert weight.grad is not None and weight.grad.shape == mean.shape == (0,)


def test_batch_norm_of_one_axis_with_numbers_is_refused() -> None:
    with pytest.raises(RuntimeError, match="Expected at least 2 dimensions"):
        F.batch_norm(fd.ones(3), None, None, training=True)


@pytest.mark.parametrize("dtype", [fd.bool, fd.uint8, fd.int32])
def test_sum_to_size_counts_in_int64_unless_it_sums_nothing(dtype: fd.dtype) -> None:
    x = fd.ones(2, 3).to(dtype)
    for size in ((1, 3), (3,), (1, 1), ()):
        assert x.sum_to_size(size).dtype == fd.int64
    assert x.sum_to_size(2, 3).dtype == dtype
    assert x[0, 0].sum_to_size(()).dtype == fd.int64
    assert fd.tensor(1.5).sum_to_size(()).dtype == fd.float32


def test_tensordot_broadcasts_and_keeps_the_dtype_of_whole_numbers() -> None:
    x, y = fd.ones(2, 1, dtype=fd.int8), fd.arange(6, dtype=fd.int8).reshape(3, 2)
    found = fd.tensordot(x, y, 1)
    assert (found.dtype, found.tolist()) == (fd.int8, [[6, 9], [6, 9]])
    assert fd.tensordot(y, x.t(), ([0], [0])).tolist() == [[6, 6], [9, 9]]


@pytest.mark.filterwarnings("ignore:Casting complex values to real")
@pytest.mark.parametrize("op", [fd.softmax, fd.log_softmax, F.softmin])
def test_softmax_casts_complex_numbers_to_the_dtype_asked_for(op: Any) -> None:
    real = fd.tensor([1.0, 3.0])
    given = fd.complex(real, real).requires_grad_()
    found = op(given, 0, dtype=fd.float64)
    assert found.dtype == fd.float64 and found.allclose(op(real.double(), 0))
    found[0].backward()
    assert given.grad is not None and given.grad.real.any() and not given.grad.imag.any()
    with pytest.raises(NotImplementedError, match="'ComplexFloat'"):
        op(given, 0)


@pytest.mark.parametrize(
    ("values", "jvps", "gradient"),
    [
        ([-INF, 0.0, 1.0], [0.0, 2.0, 2.0 + 1 / (1 + np.exp(-1.0))], True),
        ([0.0, -INF, 0.0], [1.0, 1.0, 2.0], True),
        ([-INF, -INF, 0.0], [0.0, 0.0, 3.0], True),
    ],
)
def test_running_log_sums_pass_over_log_0(values: Any, jvps: Any, gradient: bool) -> None:
    x = fd.tensor(values, dtype=fd.float64, requires_grad=True)
    direction = fd.tensor([1.0, 2.0, 3.0], dtype=fd.float64)
    found = jvp(lambda one: one.logcumsumexp(0), (x.detach(),), (direction,))[1]
    np.testing.assert_allclose(found.numpy(), jvps, rtol=1e-14)
    x.logcumsumexp(0).backward(direction)
    assert x.grad is not None and x.grad.isfinite().all()
    assert (x.grad * direction).sum().item() == pytest.approx((found * direction).sum().item())


def covariances() -> Any:
    rng = np.random.default_rng(3)
    for shape in ((3, 5), (5,), (1, 4), (2, 1), (1,)):
        n = shape[-1]
        for imaginary in (0.0, 1j):
            x = rng.standard_normal(shape) + imaginary * rng.standard_normal(shape)
            for correction in (0, 1, 2):
                for fweights in (None, rng.integers(1, 4, n)):
                    for aweights in (None, rng.random(n) + 0.1):
                        yield x, correction, fweights, aweights


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore:cov:UserWarning")
def test_covariances_are_numpy_s() -> None:
    for x, correction, fweights, aweights in covariances():
        weights = {"fweights": fweights, "aweights": aweights}
        known = {name: None if w is None else fd.tensor(w) for name, w in weights.items()}
        found = fd.cov(fd.tensor(x), correction=correction, **known).numpy()
        wanted = np.cov(x, ddof=correction, **weights)
        shown = f"{x.shape} {x.dtype} {correction} {weights}"
        if np.isfinite(wanted).all():
            np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-14, err_msg=shown)
        else:
            assert not np.isfinite(found).all(), shown


def test_weights_that_sum_to_zero_are_refused() -> None:
    x = fd.arange(6.0).reshape(2, 3)
    for weights in ({"aweights": fd.zeros(3)}, {"fweights": fd.zeros(3, dtype=fd.int64)}):
        with pytest.raises(RuntimeError, match="weights sum to zero, can't be normalized"):
            fd.cov(x, **weights)


@pytest.mark.parametrize("kind", [fd.complex64, fd.complex128])
def test_half_numbers_meet_complex_ones(kind: fd.dtype) -> None:
    # fastdist has no complex32, so a complex number and a half tensor give complex64.
    half, many = fd.ones(2, dtype=fd.float16), fd.full((2,), 1j, dtype=kind)
    for found in (half + many, many * half, half - many, fd.where(half > 0, half, many)):
        assert found.dtype == kind
    for found in (half + many[0], half * 1j, 1j + half, fd.ones((), dtype=fd.float16) * 1j):
        assert found.dtype == fd.complex64
    assert fd.result_type(half, many) == fd.promote_types(fd.float16, kind) == kind


def hermitian(rank: int, dtype: fd.dtype) -> Any:
    rng = np.random.default_rng(rank)
    x = rng.standard_normal((3, rank)) + 1j * rng.standard_normal((3, rank))
    x = x if dtype.is_complex else x.real
    return fd.tensor(x @ x.conj().T, dtype=dtype)


@pytest.mark.parametrize("dtype", [fd.float64, fd.complex128])
@pytest.mark.parametrize("rank", [2, 3])
def test_pinv_of_hermitian_matrices_is_differentiated_by_every_entry(
    rank: int, dtype: fd.dtype
) -> None:
    x, direction = hermitian(rank, dtype), fd.randn(3, 3, dtype=dtype)

    def derivatives(function: Any) -> tuple[fd.Tensor, fd.Tensor]:
        leaf = x.clone().requires_grad_()
        return (
            jvp(function, (x,), (direction,))[1],
            fd.autograd.grad(function(leaf), leaf, direction)[0],
        )

    found = derivatives(lambda y: fd.linalg.pinv(y, hermitian=True))
    for one, wanted in zip(found, derivatives(fd.linalg.pinv), strict=True):
        assert one.allclose(wanted, 1e-8, 1e-8)


@pytest.mark.parametrize("dtype", [fd.float64, fd.complex128])
@pytest.mark.parametrize("upper", [False, True])
def test_tangents_of_cholesky_that_are_not_hermitian_are_taken_as_pytorch_does(
    upper: bool, dtype: fd.dtype
) -> None:
    x, direction = hermitian(3, dtype), fd.randn(3, 3, dtype=dtype)
    found = jvp(lambda y: fd.linalg.cholesky(y, upper=upper), (x,), (direction,))[1]
    factor = fd.linalg.cholesky(x)
    met = fd.linalg.inv(factor) @ direction @ fd.linalg.inv(factor).mH
    wanted = factor @ (met.tril() + met.tril(-1)) * 0.5
    assert found.allclose(wanted.mH if upper else wanted, 1e-8, 1e-8)
