"""The kernels: NumPy and Numba code for the CPU, and CUDA C++ for NVIDIA GPUs.

Imported as `fastdist.kernels`. A kernel takes raw arrays and numbers and writes into `out`. It
allocates nothing that outlives the call, and does not use Tensors. A kernel has the same file,
name and parameters in cpu/ and in cuda/.
"""
