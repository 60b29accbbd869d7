"""Kernels of the CPU: NumPy where tensors are small, Numba where they are large.

`pointwise` chooses, by size, dtype, layout and body alone, never by what happens to be compiled.
Its two sides are `numpy_pointwise` (generated calls of ufuncs, made silent by `silence`) and
`numba_pointwise` (one generated inner loop per body and dtypes, in the manner of a ufunc's).
`launch` runs such a loop on one or several threads, `iteration` takes it through arrays of any
shape and strides, `compiler` keeps what Numba made on disk, in our own directory. `vector_math`
holds exp and its kin as `polynomials` that vectorise, `special` what NumPy and libm lack, `machine`
the few LLVM instructions that Numba hides, `vectors` those on vectors, for loops that LLVM leaves.

Nothing but `compiler` and what imports it needs Numba, and it is imported with the first large
tensor: a program of small ones never waits for it.
"""
