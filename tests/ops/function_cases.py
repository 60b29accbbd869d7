"""Sample calls of further functions, which count, sort, measure and write."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

import fastdist as fd
from fastdist.nn import functional as F
from tests.ops.cases import Case, bools, case, ints, plain

TIES = np.array([[1.0, 2.0, 2.0, 0.0], [2.0, 2.0, 2.0, 1.0], [0.0, 0.0, 1.0, 0.0]])
NAN = np.array([[1.0, np.nan, 2.0, 0.5], [3.0, 2.0, np.nan, 4.0]])
WHERE = ints([0, 2, 1], [2, 2, 0])


def reduced(ufunc: Any, start: Any) -> Any:
    """Return NumPy's scatter_reduce by a ufunc along axis 0; a `start` replaces written values."""

    def reference(x: np.ndarray, src: np.ndarray) -> np.ndarray:
        out = x.copy()
        if start is not None:
            np.put_along_axis(out, WHERE, start, 0)
        for i, j in np.ndindex(*WHERE.shape):
            out[WHERE[i, j], j] = ufunc(out[WHERE[i, j], j], src[i, j])
        return out

    return reference


def scatter_reduce(reduce: str, *, include_self: bool = True) -> Any:
    return lambda x, src: x.scatter_reduce(
        0, fd.tensor(WHERE, device=x.device), src, reduce, include_self=include_self
    )


def quantile(x: fd.Tensor, *args: Any, **more: Any) -> fd.Tensor:
    """Return x.quantile, computed in float64 for half types, which quantile rejects."""
    return (
        x.double().quantile(*args, **more).to(x.dtype)
        if x.dtype in (fd.half, fd.bfloat16)
        else x.quantile(*args, **more)
    )


ORDER: dict[str, list[Case]] = {
    "median": [
        case(lambda x: x.median(), np.median, (5,)),
        case(lambda x: fd.median(x, 1)[0], lambda x: np.median(x, 1), (2, 3)),
        plain(lambda x: x.median(0).indices, lambda x: np.array([0, 0, 0, 2]), TIES),
        plain(lambda x: x.median(1, True)[0], lambda x: np.full((2, 1), np.nan), NAN),
    ],
    "nanmedian": [
        plain(lambda x: x.nanmedian(), lambda x: np.float64(2.0), NAN),
        plain(lambda x: x.nanmedian(1)[0], lambda x: np.array([1.0, 3.0]), NAN),
    ],
    "kthvalue": [
        case(lambda x: x.kthvalue(2, 0)[0], lambda x: np.sort(x, 0)[1], (4, 3)),
        plain(lambda x: x.kthvalue(4).indices, lambda x: np.array([1, 2]), NAN),
    ],
    "mode": [
        plain(lambda x: x.mode()[0], lambda x: np.array([2.0, 2.0, 0.0]), TIES),
        plain(lambda x: x.mode(0, True).indices, lambda x: ints([2, 1, 1, 2])[None], TIES),
    ],
    "quantile": [
        case(lambda x: quantile(x, 0.3, 1), lambda x: np.quantile(x, 0.3, 1), (3, 4)),
        case(
            lambda x: fd.quantile(x, fd.tensor([0.1, 0.7], dtype=x.dtype, device=x.device)),
            lambda x: np.quantile(x, [0.1, 0.7]),
            (3, 4),
            differentiable=False,
        ),
        *[
            case(
                lambda x, way=way: quantile(x, 0.4, 0, True, interpolation=way),
                lambda x, way=way: np.quantile(x, 0.4, 0, keepdims=True, method=way),
                (4, 3),
            )
            for way in ("lower", "higher", "midpoint", "nearest")
        ],
    ],
    "nanquantile": [
        plain(lambda x: x.nanquantile(0.3, 1), lambda x: np.nanquantile(x, 0.3, 1), NAN)
    ],
    "cummax": [
        case(lambda x: x.cummax(1)[0], lambda x: np.maximum.accumulate(x, 1), (3, 5)),
        plain(
            lambda x: x.cummax(1).indices,
            lambda x: ints([0, 1, 2, 2], [0, 1, 2, 2], [0, 1, 2, 2]),
            TIES,
        ),
    ],
    "cummin": [case(lambda x: x.cummin(0)[0], lambda x: np.minimum.accumulate(x, 0), (5, 3))],
    "cummax_along": [
        case(
            lambda x: fd.ops.reduce.cumulative_extremes.cummax_along.public(x, 0)[0],
            lambda x: np.maximum.accumulate(x, 0),
            (5, 3),
        )
    ],
    "cummin_along": [
        case(
            lambda x: fd.ops.reduce.cumulative_extremes.cummin_along.public(x, 1)[0],
            lambda x: np.minimum.accumulate(x, 1),
            (2, 5),
        )
    ],
    "logcumsumexp": [
        case(lambda x: x.logcumsumexp(1), lambda x: np.logaddexp.accumulate(x, 1), (2, 5))
    ],
}


def clipped(x: np.ndarray) -> np.ndarray:
    size = np.linalg.norm(x, axis=1, keepdims=True)
    return np.where(size > 0.5, x * (0.5 / (size + 1e-7)), x)


def distances(x: np.ndarray, y: np.ndarray, p: float) -> np.ndarray:
    return np.linalg.norm(x[..., :, None, :] - y[..., None, :, :], p, -1)


MEASURES: dict[str, list[Case]] = {
    "celu": [
        case(lambda x: fd.celu(x, 1.5), lambda x: np.where(x > 0, x, 1.5 * np.expm1(x / 1.5)), (5,))
    ],
    "hardtanh": [
        case(lambda x: F.hardtanh(x, -0.5, 1.0), lambda x: x.clip(-0.5, 1.0), (2, 3)),
        plain(F.hardtanh, lambda x: x.clip(-1, 1), ints([-3, 0, 2])),
    ],
    "cdist": [
        *[
            case(
                lambda x, y, p=p: fd.cdist(x, y, p),
                lambda x, y, p=p: distances(x, y, p),
                (3, 4),
                (2, 4),
                tolerance=1e-4,
            )
            for p in (1.0, 1.5, 2.0, 3.0, np.inf)
        ],
        case(fd.cdist, lambda x, y: distances(x, y, 2), (2, 3, 4), (1, 2, 4)),
    ],
    "pdist": [
        case(
            fd.pdist,
            lambda x: np.array([np.linalg.norm(a - b) for a, b in itertools.combinations(x, 2)]),
            (4, 3),
        )
    ],
    "histc": [
        plain(lambda x: x.histc(4, -1, 1), lambda x: np.histogram(x, 4, (-1, 1))[0] * 1.0, (30,)),
    ],
    "histogramdd": [
        plain(
            lambda x: fd.histogramdd(x, [2, 3]).hist,
            lambda x: np.histogramdd(x, [2, 3])[0],
            TIES[:, :2],
        ),
        plain(
            lambda x: fd.histogramdd(x, 3, density=True).bin_edges[1],
            lambda x: np.histogramdd(x, 3)[1][1],
            TIES[:, :2],
        ),
        plain(
            lambda x, w: fd.histogramdd(x, 3, range=[-1, 1, 0, 2], weight=w, density=True).hist,
            lambda x, w: np.histogramdd(x, 3, [(-1, 1), (0, 2)], density=True, weights=w)[0],
            TIES[:, :2],
            np.array([1.0, 0.5, 2.0]),
        ),
    ],
    "histogram": [
        plain(
            lambda x: fd.histogram(x, 4, range=(-1.0, 1.0), weight=x.abs(), density=True)[0],
            lambda x: np.histogram(x, 4, (-1, 1), weights=np.abs(x), density=True)[0],
            (30,),
        ),
    ],
    "isin": [
        plain(fd.isin, np.isin, ints([3, 1], [7, 3]), ints(3, 5, 9)),
        plain(lambda x: fd.isin(x, 2.0, invert=True), lambda x: x != 2.0, TIES),
    ],
    "unique_consecutive": [
        plain(
            lambda x: x.unique_consecutive(return_counts=True)[1],
            lambda x: np.array([2, 1, 3]),
            ints(4, 4, 1, 2, 2, 2),
        ),
        plain(
            lambda x: fd.unique_consecutive(x, return_inverse=True, dim=0)[1],
            lambda x: np.array([0, 0, 1]),
            ints([1, 2], [1, 2], [1, 3]),
        ),
    ],
    "cov": [
        case(lambda x: x.cov(), np.cov, (3, 5)),
    ],
    "corrcoef": [case(lambda x: x.corrcoef(), np.corrcoef, (3, 6), tolerance=1e-4)],
    "trapezoid": [
        case(
            lambda x: fd.trapezoid(x, dx=0.5, dim=0),
            lambda x: np.trapezoid(x, dx=0.5, axis=0),
            (4, 3),
        ),
        case(fd.trapezoid, np.trapezoid, (2, 4), (4,)),
    ],
    "cumulative_trapezoid": [
        case(
            fd.cumulative_trapezoid,
            lambda y: np.cumsum((y[:, 1:] + y[:, :-1]) / 2, 1),
            (2, 4),
        )
    ],
    "kron": [case(fd.kron, np.kron, (2, 2), (3,))],
    "cross": [case(lambda x, y: x.cross(y, 1), np.cross, (2, 3), (2, 3))],
    "addbmm": [
        case(
            lambda x, a, b: fd.addbmm(x, a, b, beta=0.5, alpha=2.0),
            lambda x, a, b: 0.5 * x + 2 * np.einsum("bij,bjk->ik", a, b),
            (2, 2),
            (3, 2, 4),
            (3, 4, 2),
            tolerance=1e-4,
        )
    ],
    "renorm": [
        case(
            lambda x: x.renorm(2, 0, 0.5),
            clipped,
            (3, 4),
        )
    ],
}

WRITES: dict[str, list[Case]] = {
    "masked_scatter": [
        case(
            lambda x, m, y: x.masked_scatter(m, y),
            lambda x, m, y: np.where(
                m, y.ravel()[np.maximum(np.cumsum(m) - 1, 0)].reshape(2, 3), x
            ),
            (2, 3),
            bools("101", "011"),
            (5,),
        )
    ],
    "put": [
        case(
            lambda x, i, y: x.put(i, y),
            lambda x, i, y: np.array([[x[0, 0], y[0], x[0, 2]], [x[1, 0], x[1, 1], y[1]]]),
            (2, 3),
            ints(1, -1),
            (2,),
        ),
        case(
            lambda x, i, y: fd.put(x, i, y, True),
            lambda x, i, y: x + np.array([[0, y.sum(), 0], [0, 0, 0]]),
            (2, 3),
            ints(1, 1),
            (2,),
        ),
    ],
    "select_scatter": [
        case(lambda x, y: x.select_scatter(y, 0, 1), lambda x, y: np.stack([x[0], y]), (2, 3), (3,))
    ],
    "slice_scatter": [
        case(
            lambda x, y: x.slice_scatter(y, 1, 0, None, 2),
            lambda x, y: np.stack([y[:, 0], x[:, 1], y[:, 1]], 1),
            (2, 3),
            (2, 2),
        )
    ],
    "diagonal_scatter": [
        case(
            lambda x, y: x.diagonal_scatter(y, 1),
            lambda x, y: np.array([[x[0, 0], y[0], x[0, 2]], [x[1, 0], x[1, 1], y[1]]]),
            (2, 3),
            (2,),
        )
    ],
    "scatter_reduce": [
        case(scatter_reduce("sum"), reduced(np.add, None), (3, 3), (2, 3)),
        case(scatter_reduce("prod"), reduced(np.multiply, None), (3, 3), (2, 3), tolerance=1e-4),
        case(scatter_reduce("amax"), reduced(np.maximum, None), (3, 3), (2, 3)),
        case(scatter_reduce("sum", include_self=False), reduced(np.add, 0.0), (3, 3), (2, 3)),
        case(scatter_reduce("prod", include_self=False), reduced(np.multiply, 1.0), (3, 3), (2, 3)),
        case(
            scatter_reduce("amin", include_self=False), reduced(np.minimum, np.inf), (3, 3), (2, 3)
        ),
        case(
            scatter_reduce("mean", include_self=False),
            lambda x, y: reduced(np.add, 0.0)(x, y) / [[1, 1, 1], [1, 1, 1], [1, 2, 1]],
            (3, 3),
            (2, 3),
        ),
    ],
    "index_reduce": [
        case(
            lambda x, i, y: x.index_reduce(1, i, y, "mean"),
            lambda x, i, y: np.stack(
                [(x[:, 0] + y[:, 1]) / 2, (x[:, 1] + y[:, 0] + y[:, 2]) / 3], 1
            ),
            (2, 2),
            ints(1, 0, 1),
            (2, 3),
        )
    ],
}


def at_strides(x: np.ndarray) -> np.ndarray:
    return np.stack([x.ravel()[1 + i : 4 + i] for i in range(2)])


VIEWS: dict[str, list[Case]] = {
    "windows": [
        case(
            lambda x: x.unfold(1, 2, 1),
            lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, 1),
            (2, 4),
        ),
        case(lambda x: x.sum().unfold(0, 1, 1), lambda x: x.sum().reshape(1), (2,)),
    ],
    "as_strided": [
        case(lambda x: x.contiguous().as_strided((2, 3), (1, 1), 1) * 1, at_strides, (3, 4))
    ],
    "as_strided_scatter": [
        case(
            lambda x, y: x.contiguous().as_strided_scatter(y, (2,), (3,), 1),
            lambda x, y: np.array([[x[0, 0], y[0], x[0, 2]], [x[1, 0], y[1], x[1, 2]]]),
            (2, 3),
            (2,),
        )
    ],
    "rot90": [
        case(lambda x: x.rot90(1, (0, 1)), np.rot90, (2, 3)),
        case(lambda x: fd.rot90(x, -1), lambda x: np.rot90(x, -1), (2, 3)),
    ],
    "tensor_split": [
        case(lambda x: x.tensor_split(3, 1)[0], lambda x: x[:, :2], (2, 5)),
        case(lambda x: fd.tensor_split(x, (1, 3))[1], lambda x: x[1:3], (5,)),
    ],
    "hsplit": [case(lambda x: fd.hsplit(x, 2)[1], lambda x: x[:, 2:], (2, 4))],
    "vsplit": [case(lambda x: fd.vsplit(x, 2)[1], lambda x: x[2:], (4, 2))],
    "dsplit": [case(lambda x: fd.dsplit(x, (1,))[1], lambda x: x[..., 1:], (2, 1, 3))],
    "diag_embed": [
        case(
            lambda x: fd.diag_embed(x, 1),
            lambda x: np.stack([np.diag(row, 1) for row in x]),
            (2, 3),
        )
    ],
    "diagflat": [case(lambda x: x.diagflat(-1), lambda x: np.diagflat(x, -1), (2, 2))],
    "block_diag": [
        case(
            fd.block_diag,
            lambda x, y: np.block([[x, np.zeros((2, 3))], [np.zeros((1, 2)), y[None]]]),
            (2, 2),
            (3,),
        )
    ],
    "cartesian_prod": [
        case(fd.cartesian_prod, lambda x, y: np.array([*itertools.product(x, y)]), (2,), (3,))
    ],
    "combinations": [
        case(fd.combinations, lambda x: np.array([*itertools.combinations(x, 2)]), (4,)),
        plain(lambda x: fd.combinations(x, 0), lambda x: x[:0], (4,)),
    ],
    "vander": [case(lambda x: fd.vander(x, 3), lambda x: np.vander(x, 3), (4,))],
    "unravel_index": [
        plain(
            lambda i: fd.stack(fd.unravel_index(i, (2, 3))),
            lambda i: np.stack(np.unravel_index(i, (2, 3))),
            ints(4, 0, 5),
        )
    ],
}
CASES = {**ORDER, **MEASURES, **WRITES, **VIEWS}
COVERED_BY = {
    "nth_along": "kthvalue",
    "reduced": "scatter_reduce",
    "strided": "as_strided",
    "softmax_slope": "softmax",
    "log_softmax_slope": "log_softmax",
    "cross_entropy_slope": "cross_entropy",
    "logsumexp_slope": "logsumexp",
    "variance_slope": "var",
    "euclidean_slope": "norm",
}
ELSEWHERE = frozenset({"float_power_", "tril_indices", "triu_indices", "logspace"})
