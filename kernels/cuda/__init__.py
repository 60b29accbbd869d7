"""Kernels of NVIDIA GPUs: CUDA C++ text, and Python that computes its launches.

`pointwise.py` writes text from a scalar body; a `.cu` file is the text of a structured kernel. The
Python module of the same name looks at shapes and strides and returns `Launch`es: text, name, grid,
arguments. Planning touches no device and imports no CuPy. So the same plan and the same text run on
a GPU through CuPy (`launch.py`), on the CPU in the tests' fibres, and through NVIDIA's compiler
alone (`compile.py`). Plans are cached by layouts, without their arrays (`prepared.py`).

Results do not depend on the GPU: grids are chosen from layouts, and nothing is added by atomics,
unless the user waived repeatable results (core/determinism.py; only at_once.cu uses that). No block
waits for another one: long rows are cut into chunks, which a second launch joins in their order.
"""
