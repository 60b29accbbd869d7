"""Further functions on tensors without elements and without axes: see edge_cases.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fastdist as fd
from tests.ops.cases import Case, case, ints, plain

NO_INTS = np.zeros(0, np.int64)
NO_BOOLS = np.zeros((0, 3), bool)
ZERO = np.array(0)


EMPTY: dict[str, list[Case]] = {
    "mvlgamma": [case(lambda x: fd.mvlgamma(x, 2), lambda x: x, (0, 3))],
    "nanmedian": [plain(lambda x: x.nanmedian(1)[0], lambda x: x[:, 0], (0, 3))],
    "mode": [plain(lambda x: x.mode(1)[0], lambda x: x[:, 0], (0, 3))],
    # A row without elements has no quantile (see test_functions.py), but `q` may be empty.
    "quantile": [
        plain(lambda x, q: x.quantile(q, 2), lambda x, q: np.zeros((0, 2, 3)), (2, 3, 4), (0,))
    ],
    "nanquantile": [plain(lambda x, q: x.nanquantile(q), lambda x, q: q, (2, 3), (0,))],
    "cartesian_prod": [case(fd.cartesian_prod, lambda x, y: np.zeros((0, 2)), (0,), (3,))],
    "isin": [plain(fd.isin, np.isin, NO_INTS, ints(1, 2))],
    "unique_consecutive": [plain(lambda x: x.unique_consecutive(), lambda x: x, NO_INTS)],
    "masked_scatter": [
        case(lambda x, m, y: x.masked_scatter(m, y), lambda x, m, y: x, (0, 3), NO_BOOLS, (2,))
    ],
    "put": [case(lambda x, i, y: x.put(i, y), lambda x, i, y: x, (3,), NO_INTS, (0,))],
    "slice_scatter": [
        case(lambda x, y: x.slice_scatter(y, 0, 1, 1), lambda x, y: x, (2, 3), (0, 3))
    ],
    "diagonal_scatter": [case(lambda x, y: x.diagonal_scatter(y, 3), lambda x, y: x, (2, 3), (0,))],
    "scatter_reduce": [
        case(
            lambda x, i, y: x.scatter_reduce(0, i, y, "prod"),
            lambda x, i, y: x,
            (3,),
            NO_INTS,
            (0,),
        )
    ],
    "index_reduce": [
        case(
            lambda x, i, y: x.index_reduce(0, i, y, "amax"),
            lambda x, i, y: x,
            (3, 2),
            NO_INTS,
            (0, 2),
        )
    ],
    "as_strided": [case(lambda x: x.as_strided((2, 0), (1, 1)), lambda x: np.zeros((2, 0)), (3,))],
    "as_strided_scatter": [
        case(lambda x, y: x.as_strided_scatter(y, (0,), (1,)), lambda x, y: x, (3,), (0,))
    ],
    "block_diag": [case(fd.block_diag, lambda x, y: y, (0, 0), (2, 2))],
    "unravel_index": [
        plain(lambda i: fd.unravel_index(i, (2, 3))[0], lambda i: i, NO_INTS),
    ],
    "histogramdd": [plain(lambda x: fd.histogramdd(x, 2)[0], lambda x: np.zeros((2, 2)), (0, 2))],
    "nonzero_static": [
        plain(lambda x: x.nonzero_static(size=1), lambda x: np.full((1, 2), -1), NO_BOOLS)
    ],
}

SCALAR: dict[str, list[Case]] = {
    "adjoint": [case(fd.adjoint, lambda x: x, ())],
    "cummax_along": [case(lambda x: fd.cummax(x, 0)[0], lambda x: x, ())],
    "cummin_along": [case(lambda x: fd.cummin(x, 0)[0], lambda x: x, ())],
    "cummax": [case(lambda x: x.cummax(0)[0], lambda x: x, ())],
    "cummin": [case(lambda x: x.cummin(-1)[0], lambda x: x, ())],
    "kthvalue": [case(lambda x: x.kthvalue(1)[0], lambda x: x, ())],
    "mode": [case(lambda x: x.mode()[0], lambda x: x, ())],
    "nanmedian": [case(lambda x: x.nanmedian(0)[0], lambda x: x, ())],
    "nanquantile": [case(lambda x: x.nanquantile(0.3, 0, True), lambda x: x, ())],
    "logcumsumexp": [case(lambda x: x.logcumsumexp(0), lambda x: x, ())],
    "put": [case(lambda x, i, y: x.put(i, y), lambda x, i, y: y, (), ZERO, ())],
    "isin": [plain(fd.isin, np.isin, ZERO, ints(1, 0))],
    "unique_consecutive": [plain(lambda x: x.unique_consecutive(), lambda x: x[None], ZERO)],
    "masked_scatter": [
        case(lambda x, m, y: x.masked_scatter(m, y), lambda x, m, y: y, (), np.array(True), ())
    ],
    "scatter_reduce": [
        case(lambda x, i, y: x.scatter_reduce(0, i, y, "prod"), lambda x, i, y: x * y, (), ZERO, ())
    ],
    "index_reduce": [
        case(lambda x, i, y: x.index_reduce(0, i, y, "prod"), lambda x, i, y: x * y, (), ZERO, ())
    ],
    "as_strided": [case(lambda x: x.as_strided((2,), (0,)), lambda x: np.stack([x, x]), ())],
    "as_strided_scatter": [
        case(lambda x, y: x.as_strided_scatter(y, (), ()), lambda x, y: y, (), ())
    ],
    "block_diag": [case(fd.block_diag, lambda x: x.reshape(1, 1), ())],
    "unravel_index": [plain(lambda i: fd.unravel_index(i, (2, 3))[1], lambda i: i, ZERO)],
    "nonzero_static": [plain(lambda x: x.nonzero_static(size=2), lambda x: np.zeros((2, 0)), ZERO)],
}

REFUSED_SCALAR: dict[str, Callable[[fd.Tensor], Any]] = {
    "addbmm": lambda x: fd.addbmm(x, x, x),
    "cartesian_prod": lambda x: fd.cartesian_prod(x, x),
    "cdist": lambda x: fd.cdist(x, x),
    "combinations": fd.combinations,
    "cross": lambda x: x.cross(x, 0),
    "cumulative_trapezoid": fd.cumulative_trapezoid,
    "diag_embed": lambda x: x.diag_embed(),
    "diagonal_scatter": lambda x: x.diagonal_scatter(x),
    "dsplit": lambda x: x.dsplit(1),
    "gradient": lambda x: fd.gradient(x.reshape(1)),
    "histogramdd": lambda x: fd.histogramdd(x, 2),
    "hsplit": lambda x: x.hsplit(1),
    "pdist": fd.pdist,
    "renorm": lambda x: x.renorm(2, 0, 1.0),
    "rot90": lambda x: x.rot90(),
    "select_scatter": lambda x: x.select_scatter(x, 0, 0),
    "slice_scatter": lambda x: x.slice_scatter(x),
    "tensor_split": lambda x: x.tensor_split(1),
    "trapezoid": fd.trapezoid,
    "vander": fd.vander,
    "vsplit": lambda x: x.vsplit(1),
}
# Samples (op, index) whose arguments contain a size: see edge_cases.py.
NAMES_THE_SIZE = {
    ("median", 1),
    *(("quantile", i) for i in range(6)), ("nanquantile", 0), ("as_strided", 0), ("put", 0),
    ("put", 1), ("combinations", 0), ("cartesian_prod", 0),
}  # fmt: skip
NAMES_AN_AXIS = {
    ("as_strided", 0), ("put", 0), ("put", 1), ("median", 1), ("cartesian_prod", 0),
    ("combinations", 0),
}  # fmt: skip
