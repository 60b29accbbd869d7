"""Parameters on remote workers, and functions that use the parameters on these workers."""

from __future__ import annotations

from typing import Any

import numpy as np

import fastdist
from fastdist import Tensor


def parameter(seed: int) -> Tensor:
    """Return a parameter of shape (3, 4) whose values follow from a seed."""
    values = np.random.default_rng(seed).standard_normal((3, 4))
    return fastdist.tensor(values, requires_grad=True)


def times(rref: Any, x: Tensor) -> Tensor:
    """Multiply by a parameter; this runs on the parameter's owner."""
    product: Tensor = rref.local_value() * x
    return product


def value_of(rref: Any) -> np.ndarray[Any, Any]:
    """Return a copy of a parameter's values; this runs on the parameter's owner."""
    values: np.ndarray[Any, Any] = rref.local_value().detach().numpy().copy()
    return values
