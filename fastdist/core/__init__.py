"""The ground floor: facts that every room may know and that know no room.

Errors, dtypes and devices, the scalar language in which pointwise ops are declared, Philox random numbers, Futures and
the thread pool, the cache directory, time ranges. Nothing here imports another room of fastdist.
"""
