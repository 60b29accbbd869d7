"""Rings: ring buffers in shared memory that carry messages between processes of one machine.

memory.py       the ring itself: its writer and its reader
end.py          one end of a pair of rings
bell_socket.py  the Unix socket that wakes a sleeping reader
acceptor.py     accepts connections of callers, and reads their rings
meeting.py      the handshake in which two processes set up a shared ring
lane.py         a lane that uses a ring; watched.py: the same with connection events
spin_policy.py  decides whether to spin before sleeping

Note [Rings]
A call through a ZeroMQ socket wakes four threads: an I/O thread at each end, in both directions. A
ring wakes two threads or none. The sender copies the message into memory that both processes map,
and advances a counter. The receiver polls the counter for some microseconds. Then it sets a flag,
and sleeps. A writer that finds the flag set writes one byte to the bell. When one process closes
the ring or ends, the other process sees that the bell's socket has closed.

Counter and flag are words in the shared memory. A memory fence on each side orders the accesses: a
reader that sees a new counter also sees the message. If each process writes its own word and then
reads the other's word, at least one of them sees the new value. So either the writer sees that the
reader sleeps and wakes it, or the reader sees the message before it sleeps. The fence needs an x86
processor (system/fence.py); other processors use no rings.

Each lane has a separate ring. When the bell of the shared lane's ring closes, the peer is gone;
knocks (sockets/pulse.py) show whether a peer is frozen. When a ring breaks, a ZeroMQ lane replaces
it. The calls under way are then in doubt, as after any broken connection. Reconciliation
(rpc/workers/reconciliation.py) finds out which of them arrived, so that no call runs twice or is
lost.
"""
