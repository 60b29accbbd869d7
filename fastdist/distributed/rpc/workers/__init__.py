"""The workers of the group: how each life of a worker begins, is watched, and ends.

A `Worker` is one life of one rank (worker.py, Note [A worker is a life]). Its `Session` is a pure
state machine for the peer's liveness: events go in, actions come out (session.py). The Worker owns
the descriptors, passes events to its session and carries out the session's actions. `Workers` is
the directory: it has the present life of each name and id.

A session covers liveness, leaving and reconciliation, which all happen on the progress thread. A
session does not hold calls. A call that waits for its answer is in the pipe, because a blocking
caller reads the answer in its own thread. A call that this worker has answered is kept with the
lane on which it arrived (callers.py); the leader of the thread pool reads that lane. If the session
held calls, each call would need the session's lock or another thread.

record.py          the record that a worker publishes about itself
group.py           the group's entries in the store
directory.py       the members by name and rank, as the store keeps them
tree.py            the tree in which the workers of a static group meet
joining.py         how a worker joins or comes back, and how it finds the other members
store_keeper.py    replaces the store when the worker that hosts it ends
workers.py         the directory of live workers: looks up, connects, admits and gives up workers
standing.py        checks whether a life belongs to the group
hooks.py           functions that programs register for silent, lost and returned workers
worker.py          one life of a worker
callers.py         the calls that other workers make to this one
reconciliation.py  the query about calls whose connection broke
session.py         the liveness of a peer
watching.py        checks whether a peer runs, and why a connection fails
progress.py        the progress thread, and timeouts
running.py         distinguishes a stopped process from a held interpreter lock
stuck.py           workers whose threads all wait for calls
end_reasons.py     the reason why a process ends without rpc.shutdown()
latest.py          tables of a bounded size

Leaving the group needs calls, so it is in a layer above this package: rpc/leaving.py.
"""

from __future__ import annotations
