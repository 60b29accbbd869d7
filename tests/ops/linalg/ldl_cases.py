"""Sample calls of the LDL factors of symmetric matrices."""

from __future__ import annotations

import numpy as np

from fastdist import linalg as LA
from tests.ops.cases import Case
from tests.ops.linalg.linalg_cases import np_lu, of_regular


def np_ldl(x: np.ndarray) -> np.ndarray:
    """Return the LDL factors of a symmetric matrix without swaps: L, with D on the diagonal."""
    below = np.tril(np_lu(x))
    sizes = np.diagonal(below, 0, -2, -1)
    units = np.tril(np_lu(x), -1)
    return units + np.eye(x.shape[-1]) * sizes[..., None, :]


CASES: dict[str, list[Case]] = {
    "linalg.ldl_factor": of_regular(
        lambda x: LA.ldl_factor(x + x.mT).LD, lambda x: np_ldl(x + x.mT), differentiable=False
    ),
    "linalg.ldl_factor_ex": of_regular(
        lambda x: LA.ldl_factor_ex(x + x.mT).LD, lambda x: np_ldl(x + x.mT), differentiable=False
    ),
    "linalg.ldl_solve": of_regular(
        lambda x, b: LA.ldl_solve(*LA.ldl_factor(x + x.mT), b),
        lambda x, b: np.linalg.solve(x + x.mT, b),
        (3, 2),
        differentiable=False,
    ),
}
COVERED_BY = {"ldl_parts": "linalg.ldl_factor", "ldl_solved": "linalg.ldl_solve"}
