"""Links: the transports of collectives between CPUs (the backend `zmq`, or `gloo`).

group.py        a group's transport: the collectives, failures of the group, and leaving the group
joining.py      how members find each other through a store, and set up shared memory
members.py      the records of members, their machines, and their names in errors
meeting.py      the step in which members compare their calls; calls.py: the texts of calls
sums.py         reductions; reductions.py: their arithmetic, order and rounding
movement.py     broadcast, gather, scatter, all-to-all
mail.py         send and recv
alarm.py        the ends of waits: a group's first failure, and deadlines; warnings of late members
machine.py      how members on one machine wait for each other; futex.py: how they sleep
segment.py      the shared memory of one machine's members
between.py      the exchanges between leaders of several machines, on behalf of their members
tree.py         meetings of many machines' leaders, in a logarithmic number of rounds
bulk.py         connections of leaders for large arrays; records.py: the data on these connections;
                algorithms.py: the choice of a cipher; cipher.py, aegis.py: the ciphers
pair.py, ring.py  sums between the leaders of two machines, and of more machines
hub.py          a process's ZeroMQ connections, which its groups share; detects lost peers
inbox.py        messages that wait for a collective; wire.py: the heads of messages

One machine: its members map one segment, an unnamed file (memfd) that is freed with its last
mapping. Each member writes a description of its call, and small data, into its part of the segment,
and increments a counter. The other members spin for a moment, then sleep on a futex. Large data is
written to a board, which all members read.
Several machines: the lowest rank of each machine is its leader. Leaders exchange calls and small
data. A few leaders send these directly to each other; more leaders exchange in pairs, in a
logarithmic number of rounds. Large arrays are summed around a ring of leaders. If there are only
two leaders, they send each other complete arrays instead, with their calls on the same connections.
Data of other collectives is sent directly from member to member, but only once to a machine if all
its members need the same data. A member that cannot share memory
(no x86 processor, FASTDIST_TRANSPORTS=uv, FASTDIST_CHANNELS=basic, another user or container)
counts as a machine with one member.

Every collective begins with a meeting of all members (meeting.py), so that different calls are an
error on all members before any array changes. A group first collects all results in its own memory,
and then copies them to the caller's array. So a caller's array is either replaced completely, or
unchanged. The order of sums depends only on ranks, size and machines: see
Note [Order and rounding of sums].

The end of a member is detected through its pidfd or its connections. A member on another machine
counts as lost if it gives no sign of life for frozen_s. The first failure ends the group
(alarm.py). It is reported to all other members, through the segment and by messages to the
leaders. A mismatch does not end the group.

A process has two threads for all of its groups: one reads messages, the other watches peers. A
collective runs in its caller's thread.

Figures (2 workers on 2 cores of an AMD EPYC, Zen 5; times divided by gloo's times,
`python -m bench collectives`): sums of 4 KB 0.12, 1 MB 0.37, 16 MB 0.33, 64 MB 0.34, barrier 0.13.
Sums over encrypted sockets: 4 KB 0.4, 1 MB 1.0 to 1.4, 16 MB 1.0, 64 MB 1.0. Sums over sockets
with authentication only: 4 KB 0.4, 1 MB 0.9 to 1.3, 16 MB 1.1, 64 MB 1.1 to 1.2. In absolute terms,
a sum of 1 MB takes 0.23 to 0.45 ms with gloo, depending on the machine's memory, and 0.3 to 0.4 ms
here.

Memory: a segment is sparse. A group keeps the memory that its largest collective has used. This is
at most 256 MB, plus 2 MB for each member on the machine.

docs/glossary.md explains the terms.
"""

from __future__ import annotations

from .group import LinksTransport
from .joining import connect

__all__ = ["LinksTransport", "connect"]
