"""PyTorch's switches of backend libraries: they can be set, and few change results here.

On a GPU, `cuda.matmul.allow_tf32` and `cudnn.allow_tf32` choose whether float32 matrix products and
convolutions may be computed in TF32. The switches that let PyTorch choose other algorithms change
nothing here, because sums always run in one order. The `is_available()` of each library returns
whether it is in use.
"""

from __future__ import annotations

from ..core.missing import load_later
from . import cpu, cuda, cudnn, mkl, mkldnn, mps, openmp

__all__ = ["cpu", "cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp"]

# PyTorch's older build flags: NumPy's LAPACK and SciPy's transforms are always available.
has_lapack, has_mkl, has_openmp, has_spectral = True, False, True, True

load_later(__name__, {"opt_einsum": "", "quantized": ""})
