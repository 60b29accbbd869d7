"""Direction numbers of Sobol' sequences, from SciPy's table."""

from __future__ import annotations

from typing import Any

import numpy as np


def direction_numbers(dimension: int, bits: int) -> np.ndarray[Any, Any]:
    """Return for each coordinate the integer that each bit of a point's place adds.

    Shape   (dimension, bits)
    Note    scipy.stats takes half a second to import: only who draws such points waits for it
    """
    from scipy.stats import qmc

    numbers: np.ndarray[Any, Any] = qmc.Sobol(dimension, scramble=False, bits=bits)._sv.astype(
        np.int64
    )
    return numbers
