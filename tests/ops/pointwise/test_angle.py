"""Functions for complex numbers give PyTorch's results for real numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fastdist as fd

X = fd.arange(6.0).reshape(2, 3)


def test_a_real_tensor_is_its_own_conjugate_and_real_part() -> None:
    found = [X.conj(), fd.conj_physical(X), X.resolve_conj(), fd.resolve_neg(X), fd.real(X), X.real]
    assert all(one is X for one in found)


def test_nothing_waits_to_be_conjugated_or_negated() -> None:
    assert not (X.is_conj() or fd.is_conj(X) or X.is_neg() or fd.is_neg(X))


def test_a_real_tensor_has_no_imaginary_part() -> None:
    for call in (lambda: X.imag, lambda: fd.imag(X)):
        with pytest.raises(RuntimeError, match="imag is not implemented for tensors with non-comp"):
            call()


def test_angle_is_numpys_for_all_signs_and_dtypes() -> None:
    numbers = np.array([1.0, -1.0, 0.0, -0.0, np.inf, -np.inf, np.nan])
    expected = [0.0, math.pi, 0.0, 0.0, 0.0, math.pi, math.nan]
    np.testing.assert_array_equal(fd.angle(fd.tensor(numbers)).numpy(), expected)
    whole = fd.angle(fd.tensor([-2, 2]))
    assert whole.dtype is fd.float32 and whole.tolist() == [pytest.approx(math.pi), 0.0]


def test_a_vector_has_no_adjoint() -> None:
    assert fd.tensor(3.0).adjoint() == 3.0
    with pytest.raises(RuntimeError, match="only supported on matrices"):
        X[0].adjoint()


def test_frexp_splits_the_ends_of_each_dtype() -> None:
    for dtype in (fd.float16, fd.float32, fd.float64):
        info = fd.finfo(dtype)
        numbers = fd.tensor([info.max, info.tiny * info.eps, -0.0, math.inf], dtype=dtype)
        mantissa, exponent = fd.frexp(numbers)
        expected = np.frexp(numbers.numpy())
        np.testing.assert_array_equal(mantissa.numpy(), expected[0])
        np.testing.assert_array_equal(exponent.numpy(), expected[1])
    with pytest.raises(RuntimeError, match="only supports floating-point"):
        fd.frexp(fd.tensor([1]))
