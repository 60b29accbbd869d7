"""Dropout."""

from __future__ import annotations

from ..tensor.tensor import Tensor
from . import functional
from .module import Module


class Dropout(Module):
    """While training, zeroes each element with probability p and scales the others by 1/(1-p).

    Raises  ValueError if p is no probability
    """

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return input, thinned out in training mode."""
        return functional.dropout(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        """Return the probability."""
        return f"p={self.p}, inplace={self.inplace}"
