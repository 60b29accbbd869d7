"""Random matrices for `init.py`: orthogonal ones, and ones with zeros in each column."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ..random_numbers.generator import Generator

_REAL: Final = np.dtype(np.float64)


def draw_orthogonal(generator: Generator, rows: int, columns: int) -> np.ndarray[Any, Any]:
    """Return a matrix whose rows or columns are orthonormal, whichever are fewer.

    Source  Saxe et al. 2013, "Exact solutions to the nonlinear dynamics of learning"
    """
    drawn = generator.normal((max(rows, columns), min(rows, columns)), _REAL)
    q, r = np.linalg.qr(drawn)
    # With these signs the result is uniformly distributed, and the same for every LAPACK.
    q *= np.where(np.diagonal(r) < 0.0, -1.0, 1.0)
    return q if rows >= columns else q.T


def draw_sparse(
    generator: Generator, rows: int, columns: int, zeros: int, std: float
) -> np.ndarray[Any, Any]:
    """Return normal numbers of standard deviation `std`, with `zeros` zeros in each column."""
    drawn: np.ndarray[Any, Any] = std * generator.normal((rows, columns), _REAL)
    order = generator.uniform((rows, columns), _REAL).argsort(axis=0)
    np.put_along_axis(drawn, order[:zeros], 0.0, axis=0)
    return drawn
