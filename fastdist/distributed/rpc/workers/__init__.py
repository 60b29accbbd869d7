"""The workers of the group: how each life of a worker begins, is watched, and ends.

A `Worker` is one life of one rank (worker.py, Note [A worker is a life]). Its `Session` is a pure
state machine of the peer's liveness: events go in, actions come out (session.py). The Worker owns
the descriptors, feeds its session and carries out the actions. `Workers` is the directory of the
present life of each name and id.

A session covers liveness, leaving and reconciliation, which all happen on the progress thread. It
does not hold calls. A call that waits is in the pipe, because a blocking caller reads its answer in
its own thread. A call that was answered here is kept with the lane that it came by (callers.py),
which the pool's leader reads. If the session held them too, each call would take the session's
lock, or change threads.

record.py          what a worker publishes about itself
group.py           the group as its store knows it; directory.py: who has which name and rank
tree.py            the tree in which the workers of a static group meet
joining.py         how a worker joins or comes back, and which workers were there
store_keeper.py    keeps the store when the worker that hosts it ends
workers.py         the directory: finds, meets, admits and gives up workers
standing.py        which lives belong to the group; hooks.py: what programs want called
worker.py          one life; callers.py: the calls that a worker makes here
reconciliation.py  the fate of calls whose connection broke
session.py         liveness; watching.py: whether a peer runs, and why a connection fails
progress.py        the progress thread, and timeouts
running.py         whether this process was stopped, or one thread held the interpreter lock
stuck.py           workers whose threads all wait for calls
end_reasons.py     why a process ends without rpc.shutdown()
latest.py          tables of a bounded size

Leaving the group takes calls, so it is above this package: rpc/leaving.py.
"""

from __future__ import annotations
