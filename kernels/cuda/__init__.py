"""Kernels of NVIDIA GPUs: CUDA C++ source, and Python code that computes its launches.

`pointwise.py` generates source from a scalar body; a `.cu` file is the source of structured
kernels. The Python module with the same name as a `.cu` file computes `Launch`es from shapes and
strides. A `Launch` has a source, the kernel's name, a grid and arguments. This planning touches no
device and does not import CuPy. So the same plans and sources run on a GPU through CuPy
(`launch.py`) and on the CPU in the tests' emulator, and compile with NVIDIA's compiler alone
(`compile.py`). Plans are cached by layouts, without their arrays (`prepared.py`).

Results do not depend on the GPU: grids are chosen by layouts, and no atomics add numbers, unless
the user waived repeatable results (core/determinism.py; only at_once.cu has such atomics). No block
waits for another block: long rows are cut into chunks, and a second launch combines the results of
the chunks in order.
"""
