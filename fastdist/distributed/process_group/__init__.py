"""Process groups: the collectives of a job, from the call of a user down to the bytes.

collectives.py, objects.py, exchange.py  the functions that programs call
coalescing.py, together.py  several collectives in one message; lists.py: the lists they take
arrivals.py     who has come to a barrier, in the store of the group
dual.py         collectives that replace dual tensors of forward mode
init.py, subgroups.py, ranks.py, world.py  the default group, other groups, and ranks in them
rounds.py       how members that were started again meet the others
group.py        ProcessGroup: checks, and the arrays of each collective; on group_base.py (members,
                backends, threads) and point_to_point.py (sends and receives)
options.py      options of the methods of a ProcessGroup, and what backends connect
work.py         Work, and the thread that runs the collectives of one group in order
arrays.py, reductions.py, object_bytes.py, sparse.py  from tensors to arrays
caller.py       the line of the program that calls
backends.py     names of backends; foreign.py: groups of registered ones; alone.py: of one member;
                fake.py: of any size in one process; gloo.py: those that a program makes itself
memory.py       the memory whose arrays a transport takes: the CPU's, or device_memory.py, a GPU's
nccl.py         collectives between GPUs, on device_transport.py (one GPU), device_work.py (their
                Work) and device_watch.py (the thread that finds what is late or has failed)
mpi.py          collectives of a job that MPI started; mpi_library.py: the way to mpi4py
debug_level.py  what backends know: TORCH_DISTRIBUTED_DEBUG
transport.py    what carries the collectives of one group: the interface; carriers.py: its further
                abilities, where it queues on a device

`distributed_c10d.py`, next to this package, offers the names. A synchronous call runs in its
caller's thread if the group has nothing queued; `async_op=True` queues for the group's thread.

docs/glossary.md explains the terms.
"""

from __future__ import annotations
