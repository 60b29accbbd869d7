"""Kernels of the CPU: NumPy where tensors are small, Numba where they are large.

`pointwise` chooses, by size, dtype, layout and body alone, never by what happens to be compiled.
Its two sides are `numpy_pointwise` (generated calls of ufuncs, made silent by `silence`) and
`numba_pointwise` (one generated inner loop per body and dtypes, in the manner of a ufunc's).
`launch` runs such a loop on one or several threads, `iteration` takes it through arrays of any
shape and strides, `compiler` keeps what Numba made on disk, in our own directory, `passes` says
what of Numba's work is done for kernels, `parts` are what it makes no code of alone, `waiting`
tells who waits for it, and `background` compiles while NumPy serves: a kernel that has another way
asks it whether it is NumPy's turn. `halves` casts, and has kernels see float32 in place of half
types; `half_tables` looks up what is dear of one of them. `multi_tensor` runs several bodies over
many tensors in one launch. `vector_math` holds exp and its kin as `polynomials` that vectorise,
`special` what NumPy and libm lack, `machine` the few LLVM instructions that Numba hides, `vectors`
those on vectors, for loops that LLVM leaves.

`memory` makes large arrays, which begin at a cache line, and `kept_blocks` what they are made of
again after their end.

What works along rows (softmax, norms, losses, sums over the last axes) stands in `row_steps`, of
which `row_code` makes vectors of LLVM, `along_row_code` what is done along a row, by
`row_numbers`, and `column_code` sums of columns, in the loops of `code_loops`; `row_loops` runs
them on any number of threads, `long_rows` and `long_columns` choose them by the facts of a call;
`repeat` writes a sum's gradient.

Nothing but `compiler` and what imports it needs Numba, and it is imported with the first large
tensor: a program of small ones never waits for it.

See Note [What the first call waits for].
"""

# Note [What the first call waits for] The first add of two million-element tensors on one core of
# an AMD EPYC (Zen 5), Python 3.11, Numba 0.68, in ms, medians; `python -m bench first_calls` has
# all. With an empty cache 4000 once, 1650 now: import of Numba 200, what it loads when it is first
# asked 170 (250 with scipy.linalg, which it loaded to see whether it could), the loop 50, the
# runner 1200 (2100, and 1200 more for a second one with parallel=True). Half of that went into code
# for each function that is only called by others, see parts.py; most of what is left is Python's,
# in the inference of types, and LLVM's 300. With a full cache 450 once, 250 now; a quarter went
# into Python's collector, which rests meanwhile. A later kernel is loaded in 3 and compiled in 50
# (x + y) to 200 (sin). On a Zen 4 what passes.py leaves out took the first call from 1500 to 1330.
# The dearest later ones, in ms of CPU time, before and after: an LSTM 1040 | 880 (products, its
# cell, what keeps freed memory), batch norm 600 | 530, Adam 580 | 480, max_pool2d 540 | 380, conv2d
# 440 | 440. Since products that take panels are one kernel, which shares its tiles with that of
# those that do not, and the keeper of memory is two functions in place of three, an LSTM takes a
# tenth less.
