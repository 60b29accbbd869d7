"""Kernels along rows as LLVM code: reductions, softmax, norms and losses of many numbers."""
