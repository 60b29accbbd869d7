"""Rings: ring buffers in shared memory that carry messages between two processes of one machine.

memory.py       the ring itself: its writer and its reader
end.py          one end of a pair of rings
bell_socket.py  the Unix socket that wakes a sleeping reader
acceptor.py     accepts callers, and reads their rings
meeting.py      the handshake in which two processes come to share a ring
lane.py         a lane that uses a ring; watched.py: one that reports connection events
spin_policy.py  whether to spin before sleeping

Note [Rings]
A call through a ZeroMQ socket wakes four threads: an I/O thread at each end, in both directions. A
ring wakes two threads or none. The sender copies the message into memory that both processes map,
and advances a counter. The receiver polls the counter for some microseconds, then sets a second
word and sleeps. A writer that finds that word set writes one byte to the bell. The end of the bell
also tells each process that the other has closed or ended.

A fence on each side orders words and messages: a reader that sees a counter also sees the message.
Where each process writes one word and reads the other's, at least one of them sees the new value.
So a sleeping reader is woken, or sees the message before it sleeps. The fence needs an x86
processor (system/fence.py); other processors use no rings.

Each lane has its own ring. The end of the shared lane's ring shows that the peer is gone, and
knocks (sockets/pulse.py) show that it is frozen. When a ring breaks, a ZeroMQ lane replaces it.
The calls under way are then in doubt, as after any broken connection, and reconciliation
(rpc/workers/reconciliation.py) decides about each of them, so none runs twice and none is lost.
"""
