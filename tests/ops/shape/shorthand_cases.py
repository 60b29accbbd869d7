"""Sample calls of functions that combine two or three ops."""

from __future__ import annotations

import numpy as np

import fastdist as fd
from tests.ops.cases import F, case, ints, plain

NAN = np.array([[1.0, np.nan, 2.0], [3.0, 2.0, np.nan]])

CASES = {
    "split_with_sizes": [
        case(lambda x: x.split_with_sizes([1, 3], 1)[1], lambda x: x[:, 1:], (2, 4))
    ],
    "narrow_copy": [case(lambda x: x.narrow_copy(1, 1, 2), lambda x: x[:, 1:3], (2, 4))],
    "std_mean": [case(lambda x: fd.std_mean(x, 1)[0], lambda x: x.std(1, ddof=1), (3, 4))],
    "var_mean": [case(lambda x: fd.var_mean(x)[1], np.mean, (3, 4))],
    "nansum": [plain(lambda x: x.nansum(1), lambda x: np.nansum(x, 1), NAN)],
    "nanmean": [plain(lambda x: fd.nanmean(x, 1), lambda x: np.nanmean(x, 1), NAN)],
    "diff": [case(lambda x: x.diff(2, 0), lambda x: np.diff(x, 2, 0), (4, 3))],
    "dist": [case(fd.dist, lambda x, y: np.linalg.norm(x - y), (3,), (3,))],
    "vdot": [case(lambda x, y: x.vdot(y), np.vdot, (3,), (3,))],
    "repeat_interleave": [
        case(lambda x: x.repeat_interleave(2), lambda x: np.repeat(x, 2), (2, 3)),
        case(
            lambda x, n: fd.repeat_interleave(x, n, 1),
            lambda x, n: np.repeat(x, n, 1),
            (2, 3),
            ints(2, 0, 1),
        ),
    ],
    "meshgrid": [
        case(
            lambda x, y: fd.meshgrid(x, y, indexing="ij")[0] * y,
            lambda x, y: x[:, None] * y,
            (2,),
            (3,),
        ),
        case(
            lambda x, y: fd.meshgrid([x, y], indexing="xy")[1],
            lambda x, y: np.meshgrid(x, y)[1],
            (2,),
            (3,),
        ),
        *[
            case(
                lambda x, y, z, i=i: fd.meshgrid(x, y, z, indexing="ij")[i],
                lambda x, y, z, i=i: np.meshgrid(x, y, z, indexing="ij")[i],
                *((2,), (), (3,)),
            )
            for i in range(3)
        ],
    ],
    "atleast_1d": [case(fd.atleast_1d, np.atleast_1d, ())],
    "atleast_2d": [case(fd.atleast_2d, np.atleast_2d, (3,))],
    "atleast_3d": [
        case(fd.atleast_3d, np.atleast_3d, (2, 3)),
        case(fd.atleast_3d, np.atleast_3d, (3,)),
    ],
    "dstack": [
        case(lambda x, y: fd.dstack([x, y]), lambda x, y: np.dstack([x, y]), (2, 3), (2, 3))
    ],
    "pad": [
        case(lambda x: F.pad(x, (1, 2)), lambda x: np.pad(x, ((0, 0), (1, 2))), (2, 3)),
        case(
            lambda x: F.pad(x, (1, 0, 0, 1), value=2.0),
            lambda x: np.pad(x, ((0, 1), (1, 0)), constant_values=2.0),
            (2, 3),
        ),
        case(
            lambda x: F.pad(x, (2, 1), "reflect"),
            lambda x: np.pad(x, ((0, 0), (2, 1)), "reflect"),
            (2, 3),
        ),
        case(
            lambda x: F.pad(x, (2, 1, 1, 0), "replicate"),
            lambda x: np.pad(x, ((0, 0), (1, 0), (2, 1)), "edge"),
            (1, 2, 3),
        ),
        case(
            lambda x: F.pad(x, (1, 2), "circular"),
            lambda x: np.pad(x, ((0, 0), (1, 2)), "wrap"),
            (2, 3),
        ),
    ],
    **{
        name: [case(getattr(fd, name), lambda x: x, (2, 3))]
        for name in ("conj", "conj_physical", "real", "resolve_conj", "resolve_neg")
    },
    "conj_physical_": [plain(lambda x: x.conj_physical_(), lambda x: x, (2, 3))],
    "isreal": [plain(fd.isreal, np.isreal, (2, 3))],
    "adjoint": [case(fd.adjoint, lambda x: x.swapaxes(-2, -1), (2, 3, 4))],
    "frexp": [
        case(lambda x: fd.frexp(x)[0], lambda x: np.frexp(x)[0], (2, 3)),
        plain(lambda x: fd.frexp(x).exponent, lambda x: np.frexp(x)[1], (2, 3), high=100.0),
    ],
    "gradient": [
        case(lambda x: fd.gradient(x)[1], lambda x: np.gradient(x)[1], (4, 3)),
        case(
            lambda x: fd.gradient(x, spacing=0.5, dim=0, edge_order=2)[0],
            lambda x: np.gradient(x, 0.5, axis=0, edge_order=2),
            (4, 3),
        ),
        case(
            lambda x, y: fd.gradient(x, spacing=[y.abs().cumsum(0)], dim=1, edge_order=2)[0],
            lambda x, y: np.gradient(x, np.abs(y).cumsum(), axis=1, edge_order=2),
            (4, 3),
            (3,),
        ),
        case(
            lambda x, y: fd.gradient(x, spacing=(y.abs().cumsum(0),), dim=0)[0],
            lambda x, y: np.gradient(x, np.abs(y).cumsum(), axis=0),
            (5, 2),
            (5,),
        ),
    ],
    "column_stack": [
        case(
            lambda x, y: fd.column_stack([x, y]), lambda x, y: np.column_stack([x, y]), (2,), (2, 3)
        )
    ],
}
COVERED_BY: dict[str, str] = {}
# Functions without samples here: those with the same result for all real tensors (test_angle.py),
# those that only create or accept complex numbers (test_complex.py), and casts to bfloat16
# (core/test_dtypes.py).
ELSEWHERE = frozenset(
    {
        "bfloat16",
        "cdouble",
        "cfloat",
        "complex",
        "imag",
        "is_conj",
        "is_neg",
        "polar",
        "view_as_complex",
    }
    | {"view_as_real"}
)
