"""Kernels of NVIDIA GPUs: CUDA C++ text, and Python that says how it is launched.

`pointwise.py` writes text from a scalar body; a `.cu` file is the text of a structured kernel. The
Python beside it looks at shapes and strides and returns `Launch`es: text, name, grid, arguments.
Planning touches no device and imports no CuPy. So the same plan and the same text run on a GPU
through CuPy (`launch.py`), on the CPU in the tests' fibres, and through NVIDIA's compiler alone
(`compile.py`). What was planned for some layouts is kept without its arrays (`prepared.py`).

Results do not depend on the GPU: grids are chosen from layouts, and nothing is added by atomics,
unless the user waived that results repeat (core/determinism.py; at_once.cu alone heeds it). Nor
does a block wait for another one: rows that are long are cut into chunks, which a second launch
joins in their order.
"""
