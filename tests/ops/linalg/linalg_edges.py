"""Linear algebra without elements, without axes, and with infinite values: see edge_cases.py."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

import fastdist as fd
import fastdist.linalg as LA
from tests.ops.cases import case, plain
from tests.ops.linalg import ldl_cases, linalg_cases
from tests.ops.linalg.linalg_cases import HALF

CASES = linalg_cases.CASES | ldl_cases.CASES

# Not tested at infinity: LAPACK rejects such values, or gives NaN where NumPy's formula does not.
FINITE_ALONE = frozenset(
    f"{name}-{i}"
    for name in CASES.keys() - HALF | {"linalg.matrix_exp", "matrix_exp", "matrix_power"}
    for i in range(len(CASES[name]))
)
# Samples (op, index): first those with a size in their arguments or formula, then those that reject
# tensors without axes.
NAMES_THE_SIZE = {
    ("linalg.vander", 0), ("linalg.tensorinv", 0), ("linalg.lu_factor", 6), ("linalg.lu_factor", 7),
    ("linalg.qr", 6), ("linalg.qr", 7), ("linalg.lstsq", 2), ("geqrf", 0),
}  # fmt: skip
NAMES_AN_AXIS = {("linalg.matrix_rank", 0)}
MORE: dict[str, dict[str, Any]] = {
    "frobenius_norm": {"dim": (0, 1)},
    "linalg.matrix_power": {"n": 2},
    "linalg.norm": {"ord": 2},
    "linalg.solve_triangular": {"upper": True},
    "matrix_power": {"n": 2},
}


def refusing(name: str) -> Callable[[fd.Tensor], object]:
    """Return a function that passes the same tensor for each tensor argument of the op."""
    function = getattr(LA if name.startswith("linalg.") else fd, name.removeprefix("linalg."))
    taken = [p for p in inspect.signature(function).parameters.values() if p.annotation == "Tensor"]
    if name == "linalg.multi_dot":
        return lambda x: function([x, x])
    return lambda x: function(*[x for p in taken], **MORE.get(name, {}))


SCALAR = {
    "linalg.tensorinv": [case(LA.tensorinv, lambda x: 1 / x, (), low=0.5)],
    "linalg.tensorsolve": [case(LA.tensorsolve, lambda x, b: b / x, (), (), low=0.5)],
    "linalg.vecdot": [case(LA.vecdot, np.multiply, (), ())],
    "linalg.vector_norm": [case(LA.vector_norm, np.abs, ())],
}
EMPTY = {
    "geqrf": [plain(lambda x: fd.geqrf(x)[1], lambda x: x[0], (2, 0))],
    "linalg.tensorinv": [
        case(lambda x: LA.tensorinv(x, 1), lambda x: x.reshape(3, 0, 0), (0, 3, 0))
    ],
    "linalg.vander": [case(lambda x: LA.vander(x, N=2), lambda x: np.zeros((0, 2)), (0,))],
}
REFUSED_SCALAR = {name: refusing(name) for name in sorted(CASES.keys() - SCALAR.keys())}
