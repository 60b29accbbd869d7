"""PyTorch's switches of the libraries below it: they can be set, and few change results here.

On a GPU `cuda.matmul.allow_tf32` and `cudnn.allow_tf32` choose whether products, and convolutions,
of float32 may be computed in TF32. Switches that allow PyTorch other algorithms change nothing
here: sums run in one order. `is_available()` returns for each library whether it is in use.
"""

from __future__ import annotations

from ..core.missing import load_later
from . import cpu, cuda, cudnn, mkl, mkldnn, mps, openmp

__all__ = ["cpu", "cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp"]

# PyTorch's older names for what it was built with: NumPy's LAPACK and SciPy's transforms are always
# there.
has_lapack, has_mkl, has_openmp, has_spectral = True, False, True, True

load_later(__name__, {"opt_einsum": "", "quantized": ""})
