"""Links: what carries the collectives of a process group on CPUs (the backend `zmq`, or `gloo`).

group.py        a group's transport: each collective; how a group fails, and how a member leaves
joining.py      how members find each other through a store, and come to share memory
members.py      the records of members, which machine each is on, and how errors name them
meeting.py      the point at which all members compare their calls; calls.py: texts of calls
sums.py         reductions; reductions.py: the arithmetic, its order and its rounding
movement.py     broadcast, gather, scatter, all-to-all
mail.py         send and recv
alarm.py        what ends a wait: the group's first failure, a deadline; warnings before it
machine.py      how members of one machine wait for each other; futex.py: how they sleep
segment.py      the memory that they share
between.py      what leaders of several machines do for their members
tree.py         meetings of the leaders of many machines, in few rounds
bulk.py         how leaders connect for large arrays; records.py: what goes through these
                connections; algorithms.py: which seal they have; cipher.py, aegis.py: the seals
pair.py, ring.py  sums of the leaders of two machines, and of more
hub.py          a process's ZeroMQ connections, which its groups share; whether peers are there
inbox.py        messages that wait for a collective; wire.py: their heads

One machine: its members map one segment, an unnamed file (memfd) that ends with its last mapping.
Each writes what it calls, and small data, into its part, and counts a counter up; the others spin
for a moment, then sleep on a futex. Large data goes over a board that all read.
Several machines: the lowest rank of each is its leader. Leaders exchange the calls and small data:
each with each if they are few, else in pairs, in as many rounds as the logarithm of their number.
They sum large arrays around a ring; two of them send each other all they have, and their calls on
the same connections. Data of other collectives goes straight from member to member, but once to a
machine whose members all need it. Members that share no memory
(other processors than x86, FASTDIST_TRANSPORTS=uv, FASTDIST_CHANNELS=basic, other users or
containers) are machines of one member.

Every collective begins with the meeting of all members (meeting.py), so a difference between
calls is an error on all of them before any array changes. All results are complete in memory of
the group before any is copied to a caller's array, so an array is replaced as a whole or is as it
was. The order of sums depends on ranks, size and machines alone: see Note [Order and rounding of
sums].

A member that ends is noticed by its pidfd, or by its connections; one of another machine that
gives no sign of life, after frozen_s. The first failure ends the group (alarm.py), and goes to all
others: through the segment, and by messages to the leaders. A mismatch ends nothing.

Two threads belong to the process, however many groups it has: one reads messages, one watches
peers. A collective runs in the thread of its caller.

Figures (2 workers on 2 cores of an AMD EPYC, Zen 5; time by that of gloo, `python -m bench
collectives`): sums of 4 KB 0.12, 1 MB 0.37, 16 MB 0.33, 64 MB 0.34, barrier 0.13. Over encrypted
sockets: 4 KB 0.4, 1 MB 1.0 to 1.4, 16 MB 1.0, 64 MB 1.0; authenticated alone: 4 KB 0.4, 1 MB 0.9 to
1.3, 16 MB 1.1, 64 MB 1.1 to 1.2. gloo's 1 MB take 0.23 to 0.45 ms, as the machine's memory allows;
those here 0.3 to 0.4.

Memory: a segment is sparse. A group keeps what its largest collective has used, at most 256 MB and
2 MB for each member of the machine.

docs/glossary.md explains the terms.
"""

from __future__ import annotations

from .group import LinksTransport
from .joining import connect

__all__ = ["LinksTransport", "connect"]
