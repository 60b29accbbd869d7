"""Points that cover the unit cube evenly: Sobol' sequences."""

from __future__ import annotations

from typing import Any

import numpy as np

from .core.dtypes import DType
from .core.missing import explain_missing
from .kernels.cpu.sobol import direction_numbers
from .ops.create.creation import tensor
from .random_numbers.generator import Generator, default_generator
from .tensor.promotion import get_default_dtype
from .tensor.tensor import Tensor

__all__ = ["SobolEngine"]


class SobolEngine:
    """Draws the points of a Sobol' sequence, optionally scrambled.

    Args:
        dimension: The number of coordinates of a point, 1 to 21201.
        scramble: Whether to scramble the sequence. Each coordinate then uses a random triangular
            matrix and a random shift (Matousek 1998).
        seed: The seed for scrambling; None uses the default generator.

    Raises  ValueError for a dimension outside of 1 to 21201
    Source  Joe and Kuo 2008, "Constructing Sobol sequences with better two-dimensional projections"

    Example:
        >>> SobolEngine(2).draw(3)
        tensor([[0.0000, 0.0000],
                [0.5000, 0.5000],
                [0.7500, 0.2500]])
    """

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= self.MAXDIM:
            raise ValueError(
                f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}], "
                f"got {dimension}"
            )
        self.dimension, self.scramble, self.seed = dimension, scramble, seed
        self.num_generated = 0
        # For each coordinate, 30 integers of 30 bits: one direction number for each bit of a
        # point's index.
        self._directions = direction_numbers(dimension, self.MAXBIT)
        self._shift = np.zeros(dimension, np.int64)
        if scramble:
            self._scramble()

    @property
    def sobolstate(self) -> Tensor:
        """The direction numbers: one row of 30 integers for each dimension."""
        return tensor(self._directions)

    @property
    def shift(self) -> Tensor:
        """The integers that are combined by XOR with the coordinates of all points."""
        return tensor(self._shift)

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: DType | None = None) -> Tensor:
        """Return the next n points.

        Args:
            n: The number of points.
            out: A Tensor that is resized and receives the points; None returns a new Tensor.
            dtype: A floating dtype; None means the default dtype.

        Shape   (n, dimension)
        """
        dtype = get_default_dtype() if dtype is None else dtype
        points = tensor(self._points(n) / 2.0**self.MAXBIT).to(dtype)
        self.num_generated += n
        return points if out is None else out.resize_(points.shape).copy_(points)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: DType | None = None) -> Tensor:
        """Return the next 2**m points. With the points drawn before, they form a balanced set.

        Raises  ValueError if the total number of points drawn would not be a power of 2
        """
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                "The balance properties of Sobol' points require n to be a power of 2. "
                f"{self.num_generated} points have been previously generated, then: "
                f"n={self.num_generated}+2**{m}={total}. If you still want to do this, please use "
                "'SobolEngine.draw()' instead."
            )
        return self.draw(n, out, dtype)

    def reset(self) -> SobolEngine:
        """Restart at the first point."""
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Skip the next n points."""
        self.num_generated += n
        return self

    def _points(self, n: int) -> Any:
        places = np.arange(self.num_generated, self.num_generated + n, dtype=np.int64)
        codes = places ^ (places >> 1)  # Gray codes: neighbours differ in one bit
        points = np.broadcast_to(self._shift, (n, self.dimension)).copy()
        for bit in range(self.MAXBIT):
            chosen = (codes >> bit & 1).astype(bool)
            points[chosen] ^= self._directions[:, bit]
        return points

    def _scramble(self) -> None:
        generator = default_generator if self.seed is None else Generator().manual_seed(self.seed)
        bits, powers = self.MAXBIT, 1 << np.arange(self.MAXBIT, dtype=np.int64)
        self._shift = np.asarray(generator.integers(0, 2, (self.dimension, bits))) @ powers
        drawn = np.asarray(generator.integers(0, 2, (self.dimension, bits, bits)))
        lower = np.tril(drawn, -1) + np.eye(bits, dtype=drawn.dtype)
        # Axis 1 of `parts` is the bits of the direction numbers, from the highest to the lowest.
        parts = self._directions[:, None, :] >> np.arange(bits - 1, -1, -1)[:, None] & 1
        mixed = lower @ parts % 2
        self._directions = (mixed * powers[::-1, None]).sum(axis=1)

    def __repr__(self) -> str:
        parts = [f"dimension={self.dimension}", *(["scramble=True"] if self.scramble else [])]
        parts += [f"seed={self.seed}"] if self.seed is not None else []
        return f"{type(self).__name__}({', '.join(parts)})"


explain_missing(__name__)
