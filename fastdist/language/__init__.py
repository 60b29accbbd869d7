"""The scalar language, in which pointwise ops are declared.

An expression such as `input / (1 + abs(input))` is the common source for NumPy, Numba, CUDA,
autograd and the fuser (`scalar.py`). A program is a list of assignments of such expressions to
arrays (`program.py`), such as a fused chain of ops or the update of an optimiser. This package
parses, rewrites and prints expressions and programs; the package `dispatch` differentiates them,
and the package `kernels` compiles and runs them.
"""
