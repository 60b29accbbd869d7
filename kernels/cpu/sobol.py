"""Direction numbers of Sobol' sequences, from SciPy's table."""

from __future__ import annotations

from typing import Any

import numpy as np


def direction_numbers(dimension: int, bits: int) -> np.ndarray[Any, Any]:
    """Return, for each coordinate, the integers that a point combines, one per bit of its index.

    Shape   (dimension, bits)
    Note    importing scipy.stats takes half a second, so it is imported only when points are drawn
    """
    from scipy.stats import qmc

    numbers: np.ndarray[Any, Any] = qmc.Sobol(dimension, scramble=False, bits=bits)._sv.astype(
        np.int64
    )
    return numbers
