"""The op table has no cases of sparse tensors: their own test files test them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from fastdist.dispatch.op import OPS
from fastdist.namespace.names import words
from tests.ops.cases import Case, ints, plain


def gathered(x: Any, starts: Any, places: Any) -> Any:
    ends = pairwise(starts)
    return np.stack([x[places[one:end]].sum(0) for one, end in ends])


CASES: dict[str, list[Case]] = {
    "gather_add": [
        plain(
            lambda x, starts, places: OPS["gather_add"].public(x, starts, places, None),
            gathered,
            (7, 3),
            ints(0, 2, 2, 5, 6),
            ints(6, 0, 3, 3, 1, 5),
        )
    ]
}
COVERED_BY: dict[str, str] = {}
# Functions that test_conversion.py, test_rules.py and test_products.py test.
ELSEWHERE = words(
    "coalesce dsmm indices is_coalesced smm sparse_mask spmm to_dense to_sparse to_sparse_coo "
    "values"
)
