"""How numbers are made: the kernels of the CPU (NumPy, Numba) and of NVIDIA GPUs (CUDA C++ text).

Imported as `fastdist.kernels`. A kernel takes raw arrays and numbers, writes into `out`, allocates
nothing that outlives the call, and knows nothing of Tensors. Twin files in cpu/ and cuda/ have the
same function names and parameters.
"""
