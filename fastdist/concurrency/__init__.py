"""Futures, the thread pool for callbacks and requests, and locks that a signal handler can lend.

`future.py` has the Future and its callbacks. `unread_errors.py` warns about an error that no caller
reads. `thread_pool.py` runs work, and one of its threads reads messages. `pool_watcher.py` detects
long work and stuck pools. `lent_locks.py` lets other threads take the locks of code that a signal
handler interrupts, while the handler runs. `fastdist.futures` has PyTorch's names for Futures. The
package imports `core` and `system`.
"""
