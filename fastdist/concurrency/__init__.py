"""Threads: Futures, the thread pool that runs callbacks and requests, and locks that handlers lend.

`future.py` has the Future and its callbacks; `unread_errors.py` warns about an error that no caller
reads. `thread_pool.py` runs work and lets one of its threads read messages; `pool_watcher.py` finds
stuck pools. `lent_locks.py` keeps a signal handler from waiting for a lock of the code that it
interrupts. `fastdist.futures` has PyTorch's names of these. The package imports `core` and
`system`.
"""
