"""The small shared dictionary through which the workers of a job find and check each other."""

# The design note of this room.
#
# One dictionary, `state.py`, pure and without threads, knows what every op means and who waits for
# what. Three stores carry requests to it: `hash_store.py` under a lock, `file_store.py` by
# replaying a log that all processes append to, `tcp_store.py` over ZeroMQ (`wire.py` the bytes,
# `server.py` the thread that serves, `connection.py` one client's end, `access.py` who may). So all
# three mean the same by every op, and one suite, tests/distributed/store/test_store_contract.py,
# holds them to it. A missing key parks the request where the dictionary is; nobody asks twice.
# Whatever one request raises is that one's answer, which `mistakes.py` logs once: all of the job
# meets here, and goes on.

from __future__ import annotations

from .file_store import FileStore
from .hash_store import HashStore
from .prefix_store import PrefixStore
from .store import Change, Store, Watch
from .tcp_store import TCPStore, host_store

__all__ = [
    "Change",
    "FileStore",
    "HashStore",
    "PrefixStore",
    "Store",
    "TCPStore",
    "Watch",
    "host_store",
]
