"""Rings in shared memory: how messages go between two processes of one host."""

# Note [Rings] A call crosses to another process and back. By a socket of ZeroMQ that wakes four
# threads: an I/O thread at each end, both ways. A ring wakes two, or none: the sender copies the
# message into memory that both processes map, and moves a counter; the receiver looks at the
# counter for some microseconds, and only then goes to sleep and says so in another word. Who finds
# that word set rings a bell: a byte on the unix socket by which the two met, which also tells each
# of the other's end.
#
# Words and messages are ordered by a fence on each side: what was written before it is seen by who
# reads after it, and of two that each write one word and read the other's, one sees what the other
# wrote. So a sleeper is rung or sees the message. That takes an x86 processor (system/fence.py): on
# others there are no rings.
#
# Each lane has a ring of its own. The one that many share has a connection of ZeroMQ beside it,
# which carries nothing as long as the ring does, and is watched: whether the peer is there, frozen
# or gone is found as it is over any other connection. Where the other end of a ring hangs up a lane
# of ZeroMQ takes its place, and is in doubt as after a break: what was on its way is asked about,
# so that nothing runs twice, and nothing is lost.
