"""Dropout modules, which set random elements to 0 (or to selu's lowest value) in training."""

from __future__ import annotations

from ..tensor.tensor import Tensor
from . import functional
from .module import Module


class _Dropout(Module):
    """Base of modules that drop elements with probability p.

    Raises  ValueError if p is not a probability
    """

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        """Return the probability, and `inplace`."""
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
    """In training, sets each element to 0 with probability p and scales the others by 1 / (1 - p).

    Raises  ValueError if p is not a probability

    Args:
        p: The probability that an element is dropped.
        inplace: Whether to overwrite the input.

    Example:
        >>> layer = nn.Dropout(0.5).eval()
        >>> layer(torch.ones(2))
        tensor([1., 1.])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return input, with random elements set to 0 in training mode."""
        return functional.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_Dropout):
    """In training, zeroes whole channels with probability p and scales the others by 1/(1-p).

    Shape   (N, C, L) or (C, L) -> the same
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return input, with random channels set to 0 in training mode."""
        return functional.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_Dropout):
    """Dropout1d for images: zeroes whole channels.

    Shape   (N, C, H, W) -> the same
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return input, with random channels set to 0 in training mode."""
        return functional.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_Dropout):
    """Dropout1d for volumes: zeroes whole channels.

    Shape   (N, C, D, H, W) or (C, D, H, W) -> the same
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return input, with random channels set to 0 in training mode."""
        return functional.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_Dropout):
    """In training, sets elements to selu's lowest value with probability p.

    Then all elements are scaled and shifted, so that the expected mean and variance stay the same.

    Source  Klambauer et al. 2017, "Self-Normalizing Neural Networks"
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return input, with random elements replaced in training mode."""
        return functional.alpha_dropout(input, self.p, self.training, self.inplace)


class FeatureAlphaDropout(_Dropout):
    """Replaces whole channels, and otherwise works like AlphaDropout.

    Shape   (N, C, ...) -> the same
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return input, with random channels replaced in training mode."""
        return functional.feature_alpha_dropout(input, self.p, self.training, self.inplace)
