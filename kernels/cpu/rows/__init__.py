"""Kernels along rows: reductions, softmax, norms and losses, as generated LLVM vector code."""
