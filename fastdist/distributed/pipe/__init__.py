"""Pipes: the connections that carry frames from one worker to another.

A pipe has a few lanes to one peer. Lane 0 is shared: many threads send on it, and Futures receive
the answers. A blocking caller borrows a separate lane, and reads the answer itself.

pipe.py         the lanes to one peer, and the calls that wait for answers
lane.py         the interface of a lane; shared_lane.py: lane 0
listener.py     the interface of the receiving side
context.py      the listeners of one worker, and the choice of a transport for each lane
registry.py     transports and channels by name and priority
transports/     TCP, ipc, shared memory and inproc
ring/           ring buffers in shared memory, for processes of one machine
credit.py       back-pressure: the limit on the bytes and calls under way to one peer
batch.py        small messages that are sent together
frames.py       frames, the contiguous pieces of bytes of a message
host.py         finds out whether two processes share a machine, and whether a process is alive

docs/glossary.md explains the terms.
"""

from __future__ import annotations
