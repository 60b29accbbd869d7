"""Process groups and their collectives, from the public functions down to the transports.

collectives.py, objects.py, exchange.py  the functions that programs call
coalescing.py, together.py  several collectives in one message; lists.py: collectives of lists
arrivals.py     monitored_barrier, which uses keys in the store of the group
dual.py         in-place collectives on dual tensors of forward mode
init.py, subgroups.py, ranks.py, world.py  the default group, other groups, and their ranks
rounds.py       how restarted members meet the other members
group.py        ProcessGroup; based on group_base.py (members, backends, threads), methods (its
                collectives: check arguments, provide arrays), point_to_point.py (sends, receives)
options.py      options of ProcessGroup's methods, and the arguments with which backends connect
work.py         Work, and the thread that runs the collectives of one group in order
arrays.py, reductions.py, object_bytes.py, sparse.py  conversion of tensors to arrays
caller.py       finds the line of the program that calls a collective
backends.py     names of backends; foreign.py: groups of registered backends; alone.py: groups of
                one member; fake.py: simulated groups of any size; gloo.py: ProcessGroupGloo
memory.py       arrays in CPU memory for transports; device_memory.py: arrays in GPU memory
nccl.py         collectives between GPUs; based on device_transport.py (one GPU), device_work.py
                (their Work) and device_watch.py (the thread that detects timeouts and failures)
mpi.py          collectives of a job that MPI started; mpi_library.py: access to mpi4py
debug_level.py  the level of checks and messages: TORCH_DISTRIBUTED_DEBUG
transport.py    the interface of objects that carry one group's collectives; carriers.py: optional
                further interfaces, for collectives that are queued on a device

`distributed_c10d.py`, next to this package, exports the public names. A synchronous call runs in
the caller's thread if the group has no queued collectives. With `async_op=True` a call is queued
for the group's thread.

docs/glossary.md explains the terms.
"""

from __future__ import annotations
