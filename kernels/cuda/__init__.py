"""Kernels of NVIDIA GPUs: CUDA C++ source, and Python code that computes its launches.

`pointwise.py` generates source from a scalar body; a `.cu` file is the source of structured
kernels. The Python module of the same name computes `Launch`es from shapes and strides: source,
name, grid, arguments. This planning touches no device and does not import CuPy. So the same plans
and sources run on a GPU through CuPy (`launch.py`), on the CPU in the tests' emulator, and through
NVIDIA's compiler alone (`compile.py`). Plans are cached by layouts, without their arrays
(`prepared.py`).

Results do not depend on the GPU: grids are chosen by layouts, and atomics add nothing, unless the
user waived repeatable results (core/determinism.py; only at_once.cu has such atomics). No block
waits for another one: long rows are cut into chunks, whose results a second launch combines in
order.
"""
