"""Kernels of the CPU: NumPy for small tensors, Numba for large ones.

The nine packages of `fastdist.ops` have packages of the same names here, with the kernels that
their ops name: the kernel "nn.softmax.softmax" is the function `softmax` in nn/softmax.py. Three
more packages serve all of them:

jit     How this project uses Numba. `kernel_cache` finds kernels by name. It loads a stored kernel
        as object code with `machine_code`, without Numba: `object_file` parses the object code,
        `object_store` stores it, and `source_stamp` hashes everything that the kernel depends on.
        It compiles other kernels with `compiler` and `object_emitter`. `launch` runs a loop on one
        or several threads, and `iteration` applies a loop to arrays of any shape and strides.
        `numba_passes` and `numba_inlining` reduce the time to compile. `machine` and `vectors` have
        LLVM instructions that Numba does not expose.
        `waiting` announces that a call waits for the compiler, and `background` compiles while
        NumPy computes.
rows    Kernels that work along rows (softmax, norms, losses, sums over the last axes). `row_steps`
        defines them in the scalar language, `row_code` and the modules next to it generate LLVM
        vector code, and `long_rows` and `long_columns` choose a kernel by the layouts of a call.
        Short rows have exact kernels: NumPy (`numpy_twins`) and a compiled loop (`exact_row_code`)
        give bit-identical results, and `small_loops` chooses between them. `small_rows`,
        `small_groups` and `small_columns` use these kernels for results and gradients, and
        `small_slopes` uses them for second gradients.
small   Kernels for small arrays. They choose their method once per layout, while other kernels
        choose it at each call.

`pointwise/pointwise.py` chooses a kernel by size, dtype, layout and body alone; whether a kernel is
compiled already has no influence. It chooses `numpy_pointwise` (generated calls of ufuncs, whose
warnings `silence` suppresses) or `numba_pointwise` (one generated inner loop per body and dtypes,
like the loops of a ufunc). `halves` casts, so that kernels get float32 instead of half types;
`half_tables` has lookup tables for slow functions of half types. `memory` aligns large arrays to
cache lines, and `kept_blocks` reuses the memory of large arrays.

Only `jit.compiler` and modules that import it need Numba. The importing modules define loops
(`*_loops.py`, `*_code.py` and some others). Other modules never import them, but pass their names
to `find_function`, `find_loop`, `find_address` and `Loops`. Numba is imported only if a kernel must
be compiled: a program of small tensors, or one whose kernels are stored, never waits for Numba.

See Note [What the first call waits for].
"""

# Note [What the first call waits for] These are medians in ms for the first sum x + y in a process,
# where x and y have a million elements each, on one core of an AMD EPYC (Zen 5), with Python 3.11
# and Numba 0.68; `python -m bench first_calls` measures more.
# With an empty cache the sum took 4000 and now takes 1650. Importing Numba takes 200, and importing
# the modules that Numba loads at first use takes 170 (250 with scipy.linalg, which Numba loaded
# only to test whether it exists). Compiling the inner loop takes 50. Compiling the runner, the
# function of jit/iteration.py that applies a loop to arrays, takes 1200; it took 2100, and 1200
# more for a second runner with parallel=True. Half of the runner's time went into wrappers of
# functions that only other functions call, see jit/numba_inlining.py. Most of the rest is type
# inference in Python, and LLVM takes 300.
# With a full cache the first sum took 450 and now takes 250: a quarter of the time went into
# Python's garbage collector, which is now paused. A later kernel takes 3 to load, and 50 (x + y) to
# 200 (sin) to compile. On a Zen 4, skipping the passes of jit/numba_passes.py reduced the time of
# the first call from 1500 to 1330.
# The next most expensive first calls, in ms of CPU time before and after the change: an LSTM 1040 |
# 880 (matrix products, the cell of the LSTM, the cache of freed memory), batch norm 600 | 530, Adam
# 580 | 480, max_pool2d 540 | 380, conv2d 440 | 440.
# Since then matrix products in panels have become one kernel, which shares its tiles with the other
# products, and the cache of freed memory consists of two functions instead of three: an LSTM takes
# a tenth less. Kernels are now stored as object code without Numba's wrappers: with a full cache
# the first call takes 30 ms of CPU time and 3 MB, and `info --warm` with an empty cache takes 16 s
# of CPU time instead of 30 (AMD EPYC, Zen 3).
