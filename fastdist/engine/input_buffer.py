"""Accumulates the gradients of a Node's outputs until the last one arrives."""

from __future__ import annotations

import numpy as np

from ..graph.accumulate_grad import is_dense
from ..graph.add_gradients import add_gradients
from ..tensor.tensor import Tensor


class InputBuffer:
    """One slot for each output of a Node; None where no gradient has arrived.

    Thread  guarded by the lock of the GraphTask
    """

    __slots__ = ("_owned", "values")

    def __init__(self, size: int) -> None:
        self.values: list[Tensor | None] = [None] * size
        # Bit i is set if this pass allocated the tensor of slot i: only then may a gradient be
        # added to the tensor in place.
        self._owned = 0

    def add(self, position: int, value: Tensor | None, fresh: bool = False) -> None:
        """Add one gradient to a slot; None adds nothing. With `fresh`, the pass owns the tensor
        from now on.
        """
        if value is None:
            return
        have = self.values[position]
        if have is None:
            self.values[position] = value
            if fresh and value._layout.contiguous:
                array = value._array
                # A C-contiguous device array is always writable.
                if array.__class__ is not np.ndarray or is_dense(array, value._layout):
                    self._owned |= 1 << position
            return
        bit = 1 << position
        self.values[position] = add_gradients(have, value, bool(self._owned & bit))
        self._owned |= bit

    def owns(self, position: int) -> bool:
        """Return whether this pass alone uses a slot's tensor."""
        return bool(self._owned & (1 << position))
