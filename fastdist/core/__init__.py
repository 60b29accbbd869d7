"""The ground floor: facts that every room may know and that know no room.

Errors, dtypes and devices, the scalar language in which pointwise ops are declared, Philox random
numbers and generators, Futures and the thread pool, the cache directory, NumPy's BLAS, time ranges,
and what is imported when RPC starts. Nothing here imports another room of fastdist.
"""
