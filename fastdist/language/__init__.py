"""The scalar language, in which pointwise ops are declared.

One line of arithmetic, such as `input / (1 + abs(input))`, is what NumPy, Numba, CUDA, autograd and
the fuser read (`scalar.py`). A program is several assignments of such lines to arrays
(`program.py`): a fused chain of ops, or the update of an optimiser. The package parses,
rewrites and prints; `dispatch` derives, and `kernels` compile and run.
"""
