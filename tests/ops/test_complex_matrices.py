"""Matrices, norms and deviations of complex numbers: NumPy's values, derivatives by differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.autograd import gradcheck, gradgradcheck
from fastdist.nn import functional as F

LA = fd.linalg
RNG = np.random.default_rng(11)
A, B = [RNG.standard_normal((3, 3)) + 1j * RNG.standard_normal((3, 3)) for _ in range(2)]


def hermitian(x: Any) -> Any:
    return x + (x.mH if isinstance(x, fd.Tensor) else x.conj().T)


# Of two complex matrices: in ours, and in NumPy's words.
PAIRS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "inv": (lambda a, b: LA.inv(a), lambda a, b: np.linalg.inv(a)),
    "det": (lambda a, b: LA.det(a), lambda a, b: np.linalg.det(a)),
    "solve": (lambda a, b: LA.solve(a, b[:, :2]), lambda a, b: np.linalg.solve(a, b[:, :2])),
    "solve on the right": (
        lambda a, b: LA.solve(a, b, left=False),
        lambda a, b: np.linalg.solve(a.T, b.T).T,
    ),
    "negative power": (
        lambda a, b: LA.matrix_power(a, -2),
        lambda a, b: np.linalg.matrix_power(a, -2),
    ),
    "eigvalsh": (
        lambda a, b: LA.eigvalsh(hermitian(a)),
        lambda a, b: np.linalg.eigvalsh(hermitian(a)),
    ),
    "sizes of eigh": (
        lambda a, b: LA.eigh(hermitian(a)).eigenvectors.abs(),
        lambda a, b: np.abs(np.linalg.eigh(hermitian(a))[1]),
    ),
    "norm": (lambda a, b: a.norm(), lambda a, b: np.linalg.norm(a)),
    "norm of rows": (lambda a, b: a.norm(dim=1), lambda a, b: np.linalg.norm(a, axis=1)),
    "vector norm of order 3": (
        lambda a, b: LA.vector_norm(a, 3, 0),
        lambda a, b: (np.abs(a) ** 3).sum(0) ** (1 / 3),
    ),
    "largest": (
        lambda a, b: LA.vector_norm(a, float("inf"), 0),
        lambda a, b: np.abs(a).max(0),
    ),
    "Frobenius": (lambda a, b: LA.norm(a), lambda a, b: np.linalg.norm(a)),
    "norm of columns": (lambda a, b: LA.matrix_norm(a, 1), lambda a, b: np.linalg.norm(a, 1)),
    "var": (lambda a, b: a.var(0), lambda a, b: a.var(0, ddof=1)),
    "std": (lambda a, b: a.std(), lambda a, b: a.std(ddof=1)),
    "linear": (lambda a, b: F.linear(a, b, a[0]), lambda a, b: a @ b.T + a[0]),
    "normalize": (
        lambda a, b: F.normalize(a),
        lambda a, b: a / np.linalg.norm(a, axis=1, keepdims=True),
    ),
}
every_pair = pytest.mark.parametrize("name", PAIRS)


@every_pair
@pytest.mark.parametrize(("dtype", "tolerance"), [(fd.complex64, 1e-4), (fd.complex128, 1e-12)])
def test_values_are_numpy_s(name: str, dtype: fd.dtype, tolerance: float) -> None:
    ours, numpys = PAIRS[name]
    found = ours(fd.tensor(A, dtype=dtype), fd.tensor(B, dtype=dtype))
    np.testing.assert_allclose(found.numpy(), numpys(A, B), rtol=tolerance, atol=tolerance)
    assert found.dtype.itemsize in (dtype.itemsize, dtype.itemsize // 2)


@every_pair
def test_derivatives_are_those_of_differences(name: str) -> None:
    given = [fd.tensor(one, requires_grad=True) for one in (A, B)]
    assert gradcheck(PAIRS[name][0], given, check_forward_ad=True)
    assert gradgradcheck(PAIRS[name][0], given)


def test_a_singular_complex_matrix_is_refused_and_its_determinant_is_0() -> None:
    singular = fd.tensor([[1j, 2j], [2.0, 4.0]], requires_grad=True)
    with pytest.raises(LA.LinAlgError, match="singular"):
        LA.inv(singular)
    found = LA.det(singular)
    assert found.item() == 0
    with pytest.raises(NotImplementedError, match="singular complex matrix's determinant"):
        found.abs().backward()


def test_nothing_deviates_with_a_gradient_of_0() -> None:
    z = fd.full((4,), 1 + 2j, requires_grad=True)
    z.std().backward()
    assert z.grad.tolist() == [0] * 4


def test_a_dtype_and_an_out_are_heeded() -> None:
    z = fd.tensor(A, dtype=fd.complex64)
    assert fd.norm(z, dtype=fd.complex128).dtype is fd.float64
    assert LA.vector_norm(z, dtype=fd.complex128).dtype is fd.float64
    for call in (fd.var, fd.std):
        out = fd.empty(3)
        assert call(z, 0, out=out) is out and fd.equal(out, call(z, 0))
