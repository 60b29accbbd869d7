"""Futures, the thread pool for callbacks and requests, and locks that signal handlers lend.

`future.py` has the Future and its callbacks. `unread_errors.py` warns about an error that no caller
reads. `thread_pool.py` runs work, and one of its threads reads messages. `pool_watcher.py` detects
long work and stuck pools. `lent_locks.py` prevents a signal handler from waiting for a lock of the
code that it interrupts. `fastdist.futures` has PyTorch's names for these. The package imports
`core` and `system`.
"""
