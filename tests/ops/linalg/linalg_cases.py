"""Sample calls of linear algebra, on single matrices and batches that are far from singular.

The signs of eigenvectors and singular vectors are LAPACK's choice, so samples use their
squares.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import expm

import fastdist as fd
import fastdist.linalg as LA
from tests.ops.cases import Case, case, ints, plain

INDEX = tuple[Any, ...]


def one_like(x: fd.Tensor) -> fd.Tensor:
    return fd.eye(x.shape[-1], dtype=x.dtype, device=x.device)


def definite(x: fd.Tensor) -> fd.Tensor:
    """Return symmetric matrices whose eigenvalues are above 2 and far from each other."""
    steps = fd.arange(x.shape[-1], device=x.device).to(x.dtype)
    return 0.2 * (x @ x.mT) + one_like(x) * (2 + 3 * steps)


def np_definite(x: np.ndarray) -> np.ndarray:
    return 0.2 * (x @ x.mT) + np.diag(2 + 3.0 * np.arange(x.shape[-1]))


def regular(x: fd.Tensor) -> fd.Tensor:
    return x + 7 * one_like(x)


def np_regular(x: np.ndarray) -> np.ndarray:
    return x + 7 * np.eye(x.shape[-1])


def spread(x: fd.Tensor) -> fd.Tensor:
    """Return matrices of any shape whose singular values differ and are not close to 0."""
    m, n = x.shape[-2:]
    steps = fd.arange(n, device=x.device).to(x.dtype)
    return 0.3 * x + fd.eye(m, n, dtype=x.dtype, device=x.device) * (2 + 3 * steps)


def np_spread(x: np.ndarray) -> np.ndarray:
    m, n = x.shape[-2:]
    return 0.3 * x + np.eye(m, n) * (2 + 3.0 * np.arange(n))


def rebuilt(x: fd.Tensor) -> fd.Tensor:
    """Return the exponential of matrices, computed from their eigenvalues."""
    values, vectors = LA.eig(x)
    return vectors @ fd.diag_embed(values.exp()) @ LA.inv(vectors)


def of_definite(ours: Callable[..., Any], numpys: Callable[..., Any]) -> list[Case]:
    return [
        case(lambda x: ours(definite(x)), lambda x: numpys(np_definite(x)), shape)
        for shape in ((3, 3), (2, 4, 4))
    ]


def of_regular(
    ours: Callable[..., Any], numpys: Callable[..., Any], *others: INDEX, **more: Any
) -> list[Case]:
    """Return samples of a function of a regular matrix: one of shape (3, 3), and a batch of two."""
    return [
        case(
            lambda x, *y: ours(regular(x), *y),
            lambda x, *y: numpys(np_regular(x), *y),
            shape,
            *others,
            **more,
        )
        for shape in ((3, 3), (2, 3, 3))
    ]


def of_spread(ours: Callable[..., Any], numpys: Callable[..., Any], *shapes: INDEX) -> list[Case]:
    return [
        case(lambda x: ours(spread(x)), lambda x: numpys(np_spread(x)), shape)
        for shape in shapes or ((3, 3), (2, 4, 3), (3, 5))
    ]


def np_inv(x: np.ndarray) -> np.ndarray:
    return np.linalg.inv(x)


def np_lower(x: np.ndarray) -> np.ndarray:
    return np.tril(np_regular(x))


def np_lu(x: np.ndarray) -> np.ndarray:
    """Return the LU factors without row swaps in one matrix; the unit diagonal of L is omitted."""
    x = x.copy()
    for k in range(min(x.shape[-2:])):
        x[..., k + 1 :, k] /= x[..., k, None, k]
        x[..., k + 1 :, k + 1 :] -= x[..., k + 1 :, k, None] * x[..., None, k, k + 1 :]
    return x


def np_exp(x: np.ndarray) -> np.ndarray:
    found = term = np.broadcast_to(np.eye(x.shape[-1]), x.shape)
    for k in range(1, 80):
        term = term @ x / k
        found = found + term
    return found


def np_reflected(a: np.ndarray, tau: np.ndarray) -> np.ndarray:
    m, n = a.shape[-2:]
    found = np.broadcast_to(np.eye(m), (*a.shape[:-2], m, m))
    for i in range(tau.shape[-1]):
        v = np.concatenate([np.zeros(i), np.ones(1), np.zeros(m - i - 1)]) + np.where(
            np.arange(m) > i, a[..., :, i], 0.0
        )
        found = found @ (np.eye(m) - tau[..., i, None, None] * v[..., :, None] * v[..., None, :])
    return found[..., :n]


def swapped(x: Any) -> Any:
    """Return the rows in another order, so that a factorization with pivoting swaps them."""
    return x[..., [1, 2, 0], :]


TRIANGLES = {
    "linalg.cholesky": [
        *of_definite(LA.cholesky, np.linalg.cholesky),
        *of_definite(
            lambda x: LA.cholesky(x, upper=True), lambda x: np.linalg.cholesky(x).mT.copy()
        ),
    ],
    "linalg.cholesky_ex": of_definite(lambda x: LA.cholesky_ex(x).L, np.linalg.cholesky),
    "cholesky": of_definite(fd.cholesky, np.linalg.cholesky),
    "cholesky_solve": of_regular(
        lambda x, b: fd.cholesky_solve(b, x.tril()),
        lambda x, b: np.linalg.solve(np.tril(x) @ np.tril(x).mT, b),
        (3, 2),
    ),
    "cholesky_inverse": of_regular(
        lambda x: fd.cholesky_inverse(x.triu(), upper=True),
        lambda x: np_inv(np.triu(x).mT @ np.triu(x)),
    ),
    "linalg.solve_triangular": [
        *of_regular(
            lambda x, b: LA.solve_triangular(x, b, upper=False),
            lambda x, b: np.linalg.solve(np.tril(x), b),
            (3, 2),
        ),
        *of_regular(
            lambda x, b: LA.solve_triangular(x / 7, b, upper=True, left=False, unitriangular=True),
            lambda x, b: b @ np_inv(np.triu(x / 7, 1) + np.eye(x.shape[-1])),
            (2, 3),
        ),
    ],
    "triangular_solve": of_regular(
        lambda x, b: fd.triangular_solve(b, x, transpose=True).solution,
        lambda x, b: np.linalg.solve(np.triu(x).mT, b),
        (3, 2),
    ),
}
SYSTEMS = {
    "linalg.solve": [
        *of_regular(LA.solve, np.linalg.solve, (3, 2)),
        *of_regular(lambda x, b: LA.solve(x, b, left=False), lambda x, b: b @ np_inv(x), (4, 3)),
        case(
            lambda x, b: LA.solve(regular(x), b),
            lambda x, b: np.linalg.solve(np_regular(x), b[..., None])[..., 0],
            (2, 3, 3),
            (2, 3),
        ),
    ],
    "linalg.solve_ex": of_regular(lambda x, b: LA.solve_ex(x, b).result, np.linalg.solve, (3, 1)),
    "linalg.inv": of_regular(LA.inv, np_inv),
    "linalg.inv_ex": of_regular(lambda x: LA.inv_ex(x).inverse, np_inv),
    "inverse": of_regular(fd.inverse, np_inv),
    "linalg.tensorinv": [
        case(
            lambda x: LA.tensorinv(regular(x).reshape(3, 1, *x.shape[1:])),
            lambda x: np_inv(np_regular(x)).reshape(*x.shape, 1),
            (3, 3),
        )
    ],
    "linalg.tensorsolve": [
        case(
            lambda x, b: LA.tensorsolve(regular(x), b),
            lambda x, b: np.linalg.solve(np_regular(x), b),
            (3, 3),
            (3,),
        )
    ],
    "linalg.lu_factor": [
        *of_regular(lambda x: LA.lu_factor(x).LU, np_lu),
        *of_regular(lambda x: LA.lu_factor(x[..., :2]).LU, lambda x: np_lu(x[..., :2])),
        *of_regular(lambda x: LA.lu_factor(x[..., :2, :]).LU, lambda x: np_lu(x[..., :2, :])),
        *of_regular(lambda x: LA.lu_factor(swapped(x)).LU, np_lu),
    ],
    "linalg.lu_factor_ex": of_regular(lambda x: LA.lu_factor_ex(x).LU, np_lu),
    "lu": of_regular(lambda x: fd.lu(x)[0], np_lu),
    "linalg.lu": [
        *of_regular(lambda x: LA.lu(x).U, lambda x: np.triu(np_lu(x))),
        *of_regular(lambda x: LA.lu(swapped(x)).P @ x, lambda x: x[..., [1, 2, 0], :]),
    ],
    "lu_unpack": of_regular(
        lambda x: fd.lu_unpack(*LA.lu_factor(x))[1],
        lambda x: np.tril(np_lu(x), -1) + np.eye(x.shape[-1]),
    ),
    "linalg.lu_solve": [
        *of_regular(
            lambda x, b: LA.lu_solve(*LA.lu_factor(swapped(x)), b),
            lambda x, b: np.linalg.solve(swapped(x), b),
            (3, 2),
        ),
        *of_regular(
            lambda x, b: LA.lu_solve(*LA.lu_factor(swapped(x)), b, adjoint=True),
            lambda x, b: np.linalg.solve(swapped(x).mT, b),
            (3, 2),
        ),
        *of_regular(
            lambda x, b: LA.lu_solve(*LA.lu_factor(swapped(x)), b, left=False),
            lambda x, b: b @ np_inv(swapped(x)),
            (2, 3),
        ),
    ],
    "lu_solve": of_regular(lambda x, b: b.lu_solve(*LA.lu_factor(x)), np.linalg.solve, (3, 2)),
}
DETERMINANTS = {
    "linalg.det": [
        *of_regular(LA.det, np.linalg.det),
        case(
            lambda x: LA.det(x - x * one_like(x)[:1].mT),
            lambda x: np.linalg.det(x - x * np.eye(x.shape[-1])[:1].T),
            (3, 3),
        ),
    ],
    "det": of_regular(fd.det, np.linalg.det),
    "linalg.slogdet": of_regular(
        lambda x: LA.slogdet(-x).logabsdet, lambda x: np.linalg.slogdet(x)[1]
    ),
    "slogdet": of_regular(
        lambda x: fd.slogdet(-x)[0] * x[..., 0, 0],
        lambda x: np.linalg.slogdet(-x)[0] * x[..., 0, 0],
    ),
    "logdet": of_regular(fd.logdet, lambda x: np.linalg.slogdet(x)[1]),
}
SPECTRA = {
    "linalg.eigh": [
        *of_definite(
            lambda x: LA.eigh(x).eigenvectors.square() * LA.eigh(x)[0].unsqueeze(-2),
            lambda x: np.linalg.eigh(x)[1] ** 2 * np.linalg.eigh(x)[0][..., None, :],
        ),
        *of_definite(lambda x: LA.eigh(x, "U")[0], np.linalg.eigvalsh),
    ],
    "linalg.eigvalsh": of_definite(LA.eigvalsh, np.linalg.eigvalsh),
    "linalg.eig": of_regular(
        lambda x: rebuilt(x).real, np.vectorize(expm, signature="(n,n)->(n,n)")
    ),
    "linalg.eigvals": of_regular(
        lambda x: LA.eigvals(x).exp().sum(-1).real,
        lambda x: np.exp(np.linalg.eigvals(x)).sum(-1).real,
    ),
    "linalg.svd": [
        *of_spread(
            lambda x: LA.svd(x, full_matrices=False).U.square(),
            lambda x: np.linalg.svd(x, full_matrices=False)[0] ** 2,
        ),
        *of_spread(
            lambda x: LA.svd(x, full_matrices=False).Vh.square(),
            lambda x: np.linalg.svd(x, full_matrices=False)[2] ** 2,
        ),
        *of_spread(
            lambda x: (lambda u, s, vh: (u[..., :3] * s.unsqueeze(-2)) @ vh[..., :3, :])(
                *LA.svd(x)
            ),
            lambda x: (lambda u, s, vh: (u[..., :3] * s[..., None, :]) @ vh[..., :3, :])(
                *np.linalg.svd(x)
            ),
        ),
    ],
    "svd": of_spread(
        lambda x: fd.svd(x).V.square(),
        lambda x: np.linalg.svd(x, full_matrices=False)[2].mT ** 2,
    ),
    "linalg.svdvals": of_spread(LA.svdvals, np.linalg.svdvals),
}
REFLECTIONS = {
    "linalg.qr": [
        *of_spread(lambda x: LA.qr(x).Q, lambda x: np.linalg.qr(x)[0]),
        *of_spread(lambda x: LA.qr(x).R, lambda x: np.linalg.qr(x)[1]),
        *of_spread(
            lambda x: LA.qr(x, "complete").Q,
            lambda x: np.linalg.qr(x, "complete")[0],
            (3, 3),
            (2, 3, 5),
        ),
    ],
    "qr": of_spread(lambda x: fd.qr(x)[1], lambda x: np.linalg.qr(x)[1]),
    "linalg.householder_product": [
        case(LA.householder_product, np_reflected, (4, 3), (3,)),
        case(LA.householder_product, np_reflected, (2, 4, 3), (2, 2)),
    ],
    "orgqr": [case(fd.orgqr, np_reflected, (4, 3), (3,))],
    "ormqr": [
        case(
            fd.ormqr,
            lambda a, t, c: np_reflected(np.pad(a, ((0, 0), (0, 1))), t) @ c,
            (4, 3),
            (3,),
            (4, 2),
        ),
        case(
            lambda a, t, c: fd.ormqr(a, t, c, left=False, transpose=True),
            lambda a, t, c: c @ np_reflected(np.pad(a, ((0, 0), (0, 1))), t).T,
            (4, 3),
            (3,),
            (2, 4),
        ),
    ],
    "geqrf": [
        plain(
            lambda x: fd.orgqr(*fd.geqrf(x)),
            lambda x: np.linalg.qr(x)[0],
            (4, 3),
        ),
    ],
}
RANKS = {
    "linalg.pinv": [
        *of_spread(LA.pinv, np.linalg.pinv),
        *of_definite(lambda x: LA.pinv(x, hermitian=True), np_inv),
        # An outer product has rank 1 for all x and y.
        case(
            lambda x, y: LA.pinv(fd.outer(x, y)),
            lambda x, y: np.outer(y, x) / (x @ x) / (y @ y),
            (3,),
            (4,),
            low=0.5,
        ),
    ],
    "pinverse": of_spread(fd.pinverse, np.linalg.pinv),
    "linalg.matrix_rank": [
        plain(LA.matrix_rank, np.linalg.matrix_rank, (2, 3, 4)),
        plain(
            lambda x: LA.matrix_rank(x @ x.mT, hermitian=True, rtol=1e-4),
            lambda x: np.linalg.matrix_rank(x @ x.mT, rtol=1e-4),
            (4, 2),
        ),
    ],
    "linalg.lstsq": [
        case(
            lambda x, b: LA.lstsq(spread(x), b).solution,
            lambda x, b: np.linalg.pinv(np_spread(x)) @ b,
            shape,
            right,
        )
        for shape, right in (((4, 3), (4, 2)), ((2, 3, 4), (2, 3, 1)))
    ]
    + [
        case(
            lambda x, b: LA.lstsq(spread(x), b, driver="gels").residuals,
            lambda x, b: np.linalg.lstsq(np_spread(x), b)[1],
            (4, 3),
            (4, 2),
        )
    ],
    "linalg.cond": [
        *of_spread(LA.cond, np.linalg.cond),
        *of_regular(lambda x: LA.cond(x, 1), lambda x: np.linalg.cond(x, 1)),
        *of_regular(lambda x: LA.cond(x, "fro"), lambda x: np.linalg.cond(x, "fro")),
        *of_regular(lambda x: LA.cond(x, "nuc"), lambda x: np.linalg.cond(x, "nuc")),
        *of_regular(lambda x: LA.cond(x, -2), lambda x: np.linalg.cond(x, -2)),
    ],
}
NORMS = {
    "linalg.vector_norm": [
        case(lambda x: LA.vector_norm(x, 3), lambda x: (np.abs(x) ** 3).sum() ** (1 / 3), (3, 4)),
        case(
            lambda x: LA.vector_norm(x, math.inf, 1, keepdim=True),
            lambda x: np.abs(x).max(1, keepdims=True),
            (3, 4),
        ),
    ],
    "linalg.matrix_norm": [
        case(
            lambda x, ord=ord: LA.matrix_norm(spread(x), ord),
            lambda x, ord=ord: np.linalg.matrix_norm(np_spread(x), ord=ord),
            (2, 4, 3),
        )
        for ord in ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf)
    ]
    + [
        case(
            lambda x, ord=ord: LA.matrix_norm(x, ord, (2, 0), keepdim=True),
            lambda x, ord=ord: np.linalg.norm(x, ord, (2, 0), keepdims=True),
            (4, 2, 3),
        )
        for ord in ("fro", "nuc", 1, -2, math.inf)
    ],
    "linalg.norm": [
        case(LA.norm, lambda x: np.sqrt((x * x).sum()), (2, 3, 4)),
        case(lambda x: LA.norm(x, 1), lambda x: np.linalg.norm(x, 1), (3, 4)),
        case(lambda x: LA.norm(x, 0.5), lambda x: np.linalg.norm(x, 0.5), (3,)),
        case(lambda x: LA.norm(x, 2, 1), lambda x: np.linalg.norm(x, 2, 1), (2, 3)),
    ],
    "nuclear_norm": of_spread(fd.nuclear_norm, lambda x: np.linalg.svdvals(x).sum(-1)),
    "frobenius_norm": [
        case(
            lambda x: fd.frobenius_norm(x, (0, 1), keepdim=True),
            lambda x: np.sqrt((x * x).sum((0, 1), keepdims=True)),
            (2, 3, 4),
        )
    ],
}
FUNCTIONS = {
    "linalg.matrix_power": [
        *of_regular(
            lambda x: LA.matrix_power(x / 7, 5), lambda x: np.linalg.matrix_power(x / 7, 5)
        ),
        *of_regular(lambda x: LA.matrix_power(x, -2), lambda x: np.linalg.matrix_power(x, -2)),
        *of_regular(lambda x: LA.matrix_power(x, 1), lambda x: x),
        plain(
            lambda x: LA.matrix_power(x, 0),
            lambda x: np.broadcast_to(np.eye(x.shape[-1]), x.shape),
            (2, 3, 3),
        ),
    ],
    "matrix_power": of_regular(lambda x: x.matrix_power(2), lambda x: np.linalg.matrix_power(x, 2)),
    "linalg.matrix_exp": [
        case(LA.matrix_exp, np_exp, (3, 3)),
        case(
            lambda x: LA.matrix_exp(x * x.new_tensor([[[0.1]], [[2.0]]])),
            lambda x: np_exp(x * np.array([[[0.1]], [[2.0]]])),
            (2, 3, 3),
        ),
    ],
    "matrix_exp": [case(fd.matrix_exp, np_exp, (2, 4, 4))],
    "linalg.multi_dot": [
        case(
            lambda *xs: LA.multi_dot(xs),
            lambda *xs: np.linalg.multi_dot(xs),
            (2, 5),
            (5, 3),
            (3, 4),
            (4, 2),
        ),
        case(lambda *xs: LA.multi_dot(xs), lambda *xs: np.linalg.multi_dot(xs), (5,), (5, 3), (3,)),
    ],
    "chain_matmul": [
        case(fd.chain_matmul, lambda *xs: np.linalg.multi_dot(xs), (2, 5), (5, 3), (3, 4))
    ],
    "linalg.matmul": [case(LA.matmul, np.matmul, (2, 3, 4), (4, 2))],
    "linalg.vecdot": [
        case(LA.vecdot, np.vecdot, (2, 3), (3,)),
        case(lambda x, y: LA.vecdot(x, y, dim=0), lambda x, y: (x * y).sum(0), (2, 3), (2, 3)),
    ],
    "linalg.diagonal": [
        case(
            lambda x: LA.diagonal(x, offset=1),
            lambda x: np.diagonal(x, 1, -2, -1),
            (2, 3, 4),
        )
    ],
    "linalg.cross": [
        case(LA.cross, np.cross, (2, 3), (2, 3)),
        case(
            lambda x, y: LA.cross(x, y, dim=0),
            lambda x, y: np.cross(x, y, axis=0),
            (3, 2),
            (3, 2),
        ),
    ],
    "linalg.vander": [
        case(LA.vander, lambda x: x[..., None] ** np.arange(x.shape[-1]), (2, 3)),
        case(
            lambda x: LA.vander(x, N=4),
            lambda x: np.atleast_1d(x)[..., None] ** np.arange(4.0),
            (3,),
        ),
        plain(LA.vander, lambda x: x[..., None] ** np.arange(3), ints(2, -1, 3)),
    ],
}
CASES: dict[str, list[Case]] = {
    **TRIANGLES,
    **SYSTEMS,
    **DETERMINANTS,
    **SPECTRA,
    **REFLECTIONS,
    **RANKS,
    **NORMS,
    **FUNCTIONS,
}
COVERED_BY = {
    "triangular": "linalg.solve_triangular",
    "cholesky_parts": "linalg.cholesky",
    "cholesky_solved": "cholesky_solve",
    "solve_parts": "linalg.solve",
    "inverse_parts": "linalg.inv",
    "lu_parts": "linalg.lu_factor",
    "permutation": "linalg.lu",
    "determinant": "linalg.det",
    "log_determinant": "linalg.slogdet",
    "eigh_parts": "linalg.eigh",
    "eigenvalues": "linalg.eigvalsh",
    "eig_parts": "linalg.eig",
    "eigvals_alone": "linalg.eigvals",
    "svd_parts": "linalg.svd",
    "singular_values": "linalg.svdvals",
    "qr_parts": "linalg.qr",
    "reflectors": "geqrf",
    "pseudo_inverse": "linalg.pinv",
}
# Functions without samples, as they are random or removed from PyTorch: see test_linalg.py.
ELSEWHERE = frozenset(
    {"svd_lowrank", "pca_lowrank", "eig", "lstsq", "matrix_rank", "solve", "symeig"}
)
# For float16, neither PyTorch nor fastdist has LAPACK. These functions work without LAPACK.
HALF = {
    "linalg.vector_norm", "linalg.norm", "frobenius_norm", "matrix_power", "linalg.matrix_exp",
    "matrix_exp", "linalg.multi_dot", "chain_matmul", "linalg.matmul", "linalg.vecdot",
    "linalg.diagonal", "linalg.cross",
}  # fmt: skip
HALF_TOO = {
    *(f"linalg.matrix_norm-{i}" for i in (0, 2, 3, 6, 7, 8, 10, 12)),
    *(f"linalg.matrix_power-{i}" for i in (0, 1, 4, 5)),
}
NO_HALF = {
    f"{name}-{i}" for name in CASES.keys() - HALF for i in range(len(CASES[name]))
} - HALF_TOO
