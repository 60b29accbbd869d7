"""How products are divided into panels and tiles; this module does not need Numba."""

from __future__ import annotations

import functools
from typing import Final, NamedTuple

from fastdist.system.blas import read_cpu

# Bit flags: how b is packed into panels. PACKED packs each panel before it is multiplied. LAYING
# packs all panels for later calls, and multiplies nothing. LAID multiplies panels that were packed
# before. TURNED packs b.T. ADDS adds the product to the result.
PACKED: Final = 1
LAYING: Final = 2
LAID: Final = 4
TURNED: Final = 8
ADDS: Final = 16


class Tiling(NamedTuple):
    """The tile of a dtype: the lanes of a vector, and the rows of the tile."""

    dtype: str
    lanes: int
    rows: int

    @property
    def size(self) -> int:
        """The size of a number in bytes."""
        return 4 if self.dtype == "float32" else 8


@functools.cache
def tiling(dtype: str) -> Tiling:
    """Return the tiling of float32 or float64 on this machine."""
    features = read_cpu().features
    wide = "avx512f" in features
    width = 64 if wide else 32 if "avx2" in features else 16
    # x86 has sixteen vector registers without AVX-512; other machines have thirty-two.
    rows = 8 if wide or "sse2" not in features else 6
    return Tiling(dtype, width // (4 if dtype == "float32" else 8), rows)
