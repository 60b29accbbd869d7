"""Kernels of the CPU: NumPy where tensors are small, Numba where they are large.

The nine packages of `fastdist.ops` come back here with the kernels that those ops name: the kernel
"nn.softmax.softmax" is the function `softmax` in nn/softmax.py. Three packages serve all of them:

jit     Numba as this project uses it: `kernel_cache` finds kernels by their names, as object code
        that `machine_code` loads without Numba (`object_file` reads it, `object_store` keeps it,
        `source_stamp` says what it depends on), or compiles them with `compiler` and
        `object_emitter`; `launch` runs a loop on one or several threads, `iteration` takes it
        through arrays of any shape and strides, `numba_passes` and `numba_inlining` save compile
        time, `machine` and `vectors` hold LLVM instructions that Numba hides, `waiting` reports who
        waits for the compiler, `background` compiles while NumPy serves.
rows    what works along rows (softmax, norms, losses, sums over the last axes): `row_steps` says it
        in the scalar language, `row_code` and its neighbours write it as LLVM vectors, `long_rows`
        and `long_columns` choose among them from the layouts of a call.
        Rows of few numbers have exact kernels: NumPy (`numpy_twins`) and a compiled loop
        (`exact_row_code`) make the same bits, and `small_loops` says which of them serves.
        `small_rows`, `small_groups` and `small_columns` make results and gradients by them,
        `small_slopes` second gradients.
small   kernels for small arrays, which decide once per layout what the others decide per call.

`pointwise/pointwise.py` chooses a side by size, dtype, layout and body alone, never by what happens
to be compiled: `numpy_pointwise` (generated calls of ufuncs, made silent by `silence`) or
`numba_pointwise` (one generated inner loop per body and dtypes, like a ufunc's). `halves` casts, so
that kernels see float32 in place of half types; `half_tables` looks up slow functions of them.
`memory` allocates large arrays at cache lines, and `kept_blocks` reuses their memory.

Only `jit.compiler` and what imports it need Numba: modules of loops (`*_loops.py`, `*_code.py` and
some others), which other modules name in `find_function`, `find_loop`, `find_address` and `Loops`,
and never import. Numba is imported where a kernel must be compiled: a program of small tensors, or
one whose kernels are stored, never waits for it.

See Note [What the first call waits for].
"""

# Note [What the first call waits for] The first add of two million-element tensors on one core of
# an AMD EPYC (Zen 5), Python 3.11, Numba 0.68, in ms, medians; `python -m bench first_calls` has
# all. With an empty cache it took 4000 and now takes 1650: import of Numba 200, what Numba loads on
# first use 170 (250 with scipy.linalg, which it loaded to test for its presence), the loop 50, the
# runner 1200 (2100, and 1200 more for a second one with parallel=True). Half of that went into code
# for each function that only other functions call, see jit/numba_inlining.py; most of the rest is
# type inference in Python, and LLVM's 300. With a full cache it took 450 and now takes 250; a
# quarter went into Python's collector, which is paused meanwhile. A later kernel is loaded in 3 and
# compiled in 50 (x + y) to 200 (sin). On a Zen 4, skipping the passes of jit/numba_passes.py took
# the first call from 1500 to 1330.
# The most expensive first calls after that, in ms of CPU time, before and after: an LSTM 1040 | 880
# (products, its cell, the cache of freed memory), batch norm 600 | 530, Adam 580 | 480, max_pool2d
# 540 | 380, conv2d 440 | 440. Products that take panels are now one kernel, which shares its tiles
# with the other products, and the keeper of memory is two functions in place of three: an LSTM
# takes a tenth less. Kernels are now stored as object code without Numba's wrappers: with a full
# cache the first call takes 30 ms of CPU time and 3 MB, and `info --warm` with an empty one takes
# 16 s of CPU time in place of 30 (AMD EPYC, Zen 3).
