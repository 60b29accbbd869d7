"""nonzero of few elements on the CPU, by a table of the indices of all elements."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ...core.torch_function import NOT_TAKEN
from ...tensor.tensor import Tensor, from_array
from ..unrecorded_rows import plain_layout

# A table for more elements would take too much memory.
_FEW: Final = 1024


def nonzero_of_few(input: Tensor, *, as_tuple: bool = False) -> Any:
    """Return one row of indices for each nonzero element, or NOT_TAKEN for other calls than those
    with few elements.
    """
    layout = plain_layout(input)
    if layout is None or as_tuple is not False or not layout.shape or not 0 < layout.numel <= _FEW:
        return NOT_TAKEN
    table = layout.routes.get(nonzero_of_few)
    if table is None:
        columns = np.indices(layout.shape).reshape(len(layout.shape), -1)
        table = layout.routes.remember(nonzero_of_few, columns)
    return from_array(table.take(input._array.ravel().nonzero()[0], 1).T)
