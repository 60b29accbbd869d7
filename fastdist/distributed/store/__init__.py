"""The store: a small shared dictionary through which the workers of a job find each other.

requests.py     the requests to a store, and its answers
state.py        every operation's effect, and which requests wait for which keys; no threads
store.py        the interface of all stores
hash_store.py   within one process; local_store.py: its dictionary under a lock
file_store.py   over a file system: each process replays a log that all of them append to
tcp_store.py    over ZeroMQ; wire.py has the bytes, server.py the thread that serves, connection.py
                the client's end, access.py the security
served_watch.py its watch; ports.py: where it is hosted
prefix_store.py a part of another store, under a prefix
own_methods.py  requests to a store of which a program wrote the methods
membership.py  the members of a group: who joins, follows a lost member or leaves
environment.py  what launchers and cluster managers put into environment variables
host_list.py    lists of hosts in those variables
wait_log.py     the line on stderr that names the workers that are still missing
mistakes.py     logs an error of a request once

The three stores give the same results for every operation: one suite runs on all of them
(tests/distributed/store/test_store_contract.py). A request for a missing key waits at the
dictionary, so clients do not poll. An error of one request is the answer to that request alone:
the whole job uses this process, and the server continues.

docs/glossary.md explains the terms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.missing import load_later
from .prefix_store import PrefixStore
from .store import Change, Store, Watch
from .tcp_store import TCPStore, host_store

if TYPE_CHECKING:
    from .file_store import FileStore
    from .hash_store import HashStore

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

# Workers of a launcher are clients of its store: the code that keeps one takes 0.3 MB.
load_later(__name__, {"FileStore": "file_store", "HashStore": "hash_store"})
