"""How panels tile products, and the ways in which they are made; Numba is not needed for it."""

from __future__ import annotations

import functools
from typing import Final, NamedTuple

from fastdist.system.blas import read_cpu

# How b becomes panels. PACKED packs each panel before it is multiplied. LAYING packs all panels for
# later calls, and multiplies nothing. LAID multiplies panels that were packed before. TURNED packs
# b.T, and ADDS adds the product to the result.
PACKED: Final = 1
LAYING: Final = 2
LAID: Final = 4
TURNED: Final = 8
ADDS: Final = 16


class Tiling(NamedTuple):
    """How numbers of a dtype are tiled: lanes of a vector, and rows of a tile."""

    dtype: str
    lanes: int
    rows: int

    @property
    def size(self) -> int:
        """The bytes of a number."""
        return 4 if self.dtype == "float32" else 8


@functools.cache
def tiling(dtype: str) -> Tiling:
    """Return how float32 or float64 is tiled on this machine."""
    features = read_cpu().features
    wide = "avx512f" in features
    width = 64 if wide else 32 if "avx2" in features else 16
    # x86 has sixteen registers below AVX-512, others thirty-two.
    rows = 8 if wide or "sse2" not in features else 6
    return Tiling(dtype, width // (4 if dtype == "float32" else 8), rows)
