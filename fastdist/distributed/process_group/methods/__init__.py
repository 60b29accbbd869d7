"""The collectives of a ProcessGroup, as the classes that ProcessGroup derives from.

sums.py      allreduce and reduce_scatter, and their variants for several tensors
gathers.py   allgather and alltoall, and their variants for several tensors
roots.py     reduce, broadcast, gather and scatter, which have a root
arguments.py lists of tensors from the arguments that PyTorch's methods accept

Each method checks its arguments, and gives _run a function that provides arrays to the transport.

Threads: any; collectives of one group run one at a time, in the order of the calls.
"""

from __future__ import annotations
