"""Complex matrices, norms and variances: values of NumPy, and derivatives by finite differences."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.linalg import lu as scipy_lu

import fastdist as fd
from fastdist.autograd import gradcheck, gradgradcheck
from fastdist.nn import functional as F

LA = fd.linalg
RNG = np.random.default_rng(11)
A, B = [RNG.standard_normal((3, 3)) + 1j * RNG.standard_normal((3, 3)) for _ in range(2)]


def hermitian(x: Any) -> Any:
    return x + (x.mH if isinstance(x, fd.Tensor) else x.conj().T)


def definite(x: Any) -> Any:
    if isinstance(x, fd.Tensor):
        return x @ x.mH + fd.eye(3, dtype=x.dtype)
    return x @ x.conj().T + np.eye(3)


def numpys_lu(a: Any, b: Any) -> Any:
    permuted, lower, upper = scipy_lu(a)
    return permuted @ (lower * b) @ upper


def numpys_reflections(vectors: Any, scales: Any) -> Any:
    whole = np.eye(3, dtype=complex)
    for i, scale in enumerate(scales):
        v = np.concatenate([np.zeros(i), [1], vectors[i + 1 :, i]])
        whole = whole @ (np.eye(3) - scale * np.outer(v, v.conj()))
    return whole[:, : len(scales)]


def by_vectors(a: Any) -> Any:
    values, vectors = LA.eig(a)
    return vectors @ fd.diag_embed(values.exp()) @ LA.inv(vectors)


def stretched(a: Any) -> Any:
    u, values, right = LA.svd(a, False)
    return (u * values.exp()) @ right


def by_values(a: Any, function: Any) -> Any:
    u, values, right = np.linalg.svd(a, False)
    return (u * function(values)) @ right


# Functions of two complex matrices, in fastdist and in NumPy.
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
    "exponential by eig": (
        lambda a, b: by_vectors(a),
        lambda a, b: sum(np.linalg.matrix_power(a, k) / math.factorial(k) for k in range(40)),
    ),
    "sums of powers of eigvals": (
        lambda a, b: (LA.eigvals(a) ** 3).sum() + LA.eigvals(b).prod(),
        lambda a, b: np.trace(a @ a @ a) + np.linalg.det(b),
    ),
    "sizes of eigh": (
        lambda a, b: LA.eigh(hermitian(a)).eigenvectors.abs(),
        lambda a, b: np.abs(np.linalg.eigh(hermitian(a))[1]),
    ),
    "cholesky": (
        lambda a, b: LA.cholesky(definite(a)) * b,
        lambda a, b: np.linalg.cholesky(definite(a)) * b,
    ),
    "cholesky above": (
        lambda a, b: LA.cholesky(definite(a), upper=True) @ b,
        lambda a, b: np.linalg.cholesky(definite(a)).conj().T @ b,
    ),
    "cholesky_solve": (
        lambda a, b: fd.cholesky_solve(b, LA.cholesky(definite(a))),
        lambda a, b: np.linalg.solve(definite(a), b),
    ),
    "cholesky_inverse": (
        lambda a, b: fd.cholesky_inverse(LA.cholesky(definite(a), upper=True), upper=True),
        lambda a, b: np.linalg.inv(definite(a)),
    ),
    "solve_triangular": (
        lambda a, b: LA.solve_triangular(a, b, upper=True),
        lambda a, b: np.linalg.solve(np.triu(a), b),
    ),
    "solve_triangular on the right": (
        lambda a, b: LA.solve_triangular(a, b, upper=False, left=False),
        lambda a, b: np.linalg.solve(np.tril(a).T, b.T).T,
    ),
    "lu": (
        lambda a, b: LA.lu(a).P.to(a.dtype) @ (LA.lu(a).L * b) @ LA.lu(a).U,
        numpys_lu,
    ),
    "lu_solve": (
        lambda a, b: LA.lu_solve(*LA.lu_factor(a), b),
        np.linalg.solve,
    ),
    "lu_solve of the adjoint on the right": (
        lambda a, b: LA.lu_solve(*LA.lu_factor(a), b, left=False, adjoint=True),
        lambda a, b: np.linalg.solve(a.conj(), b.T).T,
    ),
    "qr": (
        lambda a, b: (LA.qr(a[:, :2]).Q * b[:, :2]) @ LA.qr(a[:, :2]).R,
        lambda a, b: (np.linalg.qr(a[:, :2])[0] * b[:, :2]) @ np.linalg.qr(a[:, :2])[1],
    ),
    "qr of a wide one": (
        lambda a, b: (LA.qr(a[:2]).Q * b[:2, :2]) @ LA.qr(a[:2]).R,
        lambda a, b: (np.linalg.qr(a[:2])[0] * b[:2, :2]) @ np.linalg.qr(a[:2])[1],
    ),
    "reflections": (
        lambda a, b: fd.ormqr(a / 4, b[0], b, transpose=True),
        lambda a, b: numpys_reflections(a / 4, b[0]).conj().T @ b,
    ),
    "a product of reflections": (
        lambda a, b: LA.householder_product(a[:, :2] / 4, b[0, :2]),
        lambda a, b: numpys_reflections(a[:, :2] / 4, b[0, :2]),
    ),
    "svd": (lambda a, b: stretched(a[:, :2]), lambda a, b: by_values(a[:, :2], np.exp)),
    "svd of a wide one": (lambda a, b: stretched(a[:2]), lambda a, b: by_values(a[:2], np.exp)),
    "sizes of singular vectors": (
        lambda a, b: LA.svd(a).U.abs() @ LA.svd(a).Vh.abs(),
        lambda a, b: abs(np.linalg.svd(a)[0]) @ abs(np.linalg.svd(a)[2]),
    ),
    "nuclear norm": (lambda a, b: LA.norm(a, "nuc"), lambda a, b: np.linalg.norm(a, "nuc")),
    "condition": (lambda a, b: LA.cond(a, None), lambda a, b: np.linalg.cond(a)),
    "pinv": (lambda a, b: LA.pinv(a[:, :2]), lambda a, b: np.linalg.pinv(a[:, :2])),
    "pinv of a hermitian one": (
        lambda a, b: LA.pinv(hermitian(a), hermitian=True) @ b,
        lambda a, b: np.linalg.inv(hermitian(a)) @ b,
    ),
    "lstsq": (
        lambda a, b: LA.lstsq(a[:, :2], b).solution,
        lambda a, b: np.linalg.lstsq(a[:, :2], b, rcond=None)[0],
    ),
    "sign of slogdet": (
        lambda a, b: LA.slogdet(a).sign * b,
        lambda a, b: np.linalg.slogdet(a)[0] * b,
    ),
    "size of slogdet": (lambda a, b: LA.slogdet(a)[1], lambda a, b: np.linalg.slogdet(a)[1]),
    "logdet": (
        lambda a, b: fd.logdet(a),
        lambda a, b: np.log(np.linalg.slogdet(a)[0]) + np.linalg.slogdet(a)[1],
    ),
    "matrix_exp": (
        lambda a, b: LA.matrix_exp(a) @ b,
        lambda a, b: sum(np.linalg.matrix_power(a, k) / math.factorial(k) for k in range(40)) @ b,
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


@pytest.mark.one_in(5)
@every_pair
@pytest.mark.parametrize(("dtype", "tolerance"), [(fd.complex64, 1e-4), (fd.complex128, 1e-12)])
def test_values_are_numpy_s(name: str, dtype: fd.dtype, tolerance: float) -> None:
    ours, numpys = PAIRS[name]
    found = ours(fd.tensor(A, dtype=dtype), fd.tensor(B, dtype=dtype)).resolve_conj()
    np.testing.assert_allclose(found.numpy(), numpys(A, B), rtol=tolerance, atol=tolerance)
    assert found.dtype.itemsize in (dtype.itemsize, dtype.itemsize // 2)


@pytest.mark.one_in(5)
@every_pair
def test_derivatives_are_those_of_differences(name: str, samples_alone: bool) -> None:
    given = [fd.tensor(one, requires_grad=True) for one in (A, B)]
    assert gradcheck(PAIRS[name][0], given, check_forward_ad=True)
    # Fast mode checks a single random direction.
    assert gradgradcheck(PAIRS[name][0], given, fast_mode=samples_alone)


def test_a_singular_complex_matrix_is_refused_and_its_determinant_is_0() -> None:
    singular = fd.tensor([[1j, 2j], [2.0, 4.0]], requires_grad=True)
    with pytest.raises(LA.LinAlgError, match="singular"):
        LA.inv(singular)
    found = LA.det(singular)
    assert found.item() == 0
    found.real.backward()
    np.testing.assert_allclose(singular.grad.numpy(), [[4, -2], [2j, -1j]], atol=1e-6)


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


def test_a_loss_that_depends_on_the_phases_of_singular_vectors_is_refused() -> None:
    leaf = fd.tensor(A, requires_grad=True)
    with pytest.raises(
        RuntimeError, match="svd_backward: The singular vectors in the complex case"
    ):
        LA.svd(leaf).U.real.sum().backward()


def test_geqrf_s_reflections_are_those_of_qr() -> None:
    found = fd.ormqr(*fd.geqrf(fd.tensor(A)), fd.tensor(B), transpose=True)
    np.testing.assert_allclose(found, np.linalg.qr(A)[0].conj().T @ B, rtol=1e-12)


def test_the_gradient_of_a_cholesky_factor_is_hermitian() -> None:
    leaf = fd.tensor(definite(A), requires_grad=True)
    (LA.cholesky(leaf) * fd.tensor(B)).abs().sum().backward()
    assert fd.allclose(leaf.grad, leaf.grad.mH)
