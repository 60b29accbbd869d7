"""The store: a small shared dictionary through which the workers of a job find each other.

requests.py      the requests to a store, and its answers
state.py         the effect of every operation, and the requests that wait for keys; no threads
store.py         the interface of all stores; answers.py: arguments as bytes, and answers
hash_store.py    a store within one process
local_store.py   the base of the stores whose dictionary is in this process, under a lock
file_store.py    a store in a file: each process replays a log to which all of them append
tcp_store.py     a store over ZeroMQ
wire.py          the bytes of a TCPStore's requests and answers
server.py        the thread that serves a TCPStore
connection.py    a client's connection to a served TCPStore
access.py        the security of a TCPStore
served_watch.py  the watch of a TCPStore; ports.py: checks and takes over ports
prefix_store.py  a view of another store, under a prefix
own_methods.py   requests to a user-defined store, executed by calls of its methods
membership.py    the members of a group: they join, follow a lost member, or leave
environment.py   the environment variables of launchers and cluster managers
host_list.py     the lists of hosts in these variables
wait_log.py      the line on stderr that names the workers that are still missing
mistakes.py      logs each error of a request once

The three stores give the same results for every operation: one test suite runs on all of them
(tests/distributed/store/test_store_contract.py). A request for a missing key waits in the process
that has the dictionary, so clients do not poll. An error of one request is the answer to that
request only, and the server continues, because the whole job depends on the server.

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

# Imported on demand: workers of a launcher are only clients of a store, and these modules import
# the code of the server, which takes 0.3 MB.
load_later(__name__, {"FileStore": "file_store", "HashStore": "hash_store"})
