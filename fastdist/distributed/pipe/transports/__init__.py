"""Transports: one file for each way that a lane can carry frames.

tcp.py      TCP, by ZeroMQ
ipc.py      Unix sockets, by ZeroMQ
shm.py      rings in shared memory (pipe/ring), with ZeroMQ for what they do not carry
inproc.py   within one process
zeromq.py   the lanes and the listener that the others use
absent.py   PyTorch's transports that are not implemented, each with the reason

They differ in their addresses and give the same guarantees: one suite runs on all of them
(tests/distributed/pipe/test_transport_contract.py).
"""

from __future__ import annotations
