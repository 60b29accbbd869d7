"""Transports: one file per kind of connection for lanes.

tcp.py      TCP, through ZeroMQ
ipc.py      Unix sockets, through ZeroMQ
shm.py      rings in shared memory (pipe/ring), with ZeroMQ for all other messages
inproc.py   within one process
zeromq.py   the lanes and the listener that the transports share
absent.py   PyTorch's transports that fastdist does not have, with the reasons

The transports differ in their addresses and give the same guarantees: one test suite runs on all of
them (tests/distributed/pipe/test_transport_contract.py).
"""

from __future__ import annotations
