"""Dropout's random results have no reference: tests/nn/test_activations.py tests them."""

from __future__ import annotations

import numpy as np

from tests.ops.cases import Case, F, case

CASES: dict[str, list[Case]] = {
    "rrelu": [
        case(lambda x: F.rrelu(x, 0.1, 0.3), lambda x: np.where(x > 0, x, 0.2 * x), (3, 4)),
        case(lambda x: F.rrelu(x, 0.2, 0.2, True), lambda x: np.where(x > 0, x, 0.2 * x), (3, 4)),
    ],
}
COVERED_BY: dict[str, str] = {}
ELSEWHERE = frozenset(
    {"alpha_dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout"}
)
