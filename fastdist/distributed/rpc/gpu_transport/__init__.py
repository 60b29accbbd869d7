"""Tensors of GPUs between workers: from GPU to GPU on one machine, or through the CPU's memory.

cuda_ipc.py     the channel `cuda_ipc`: a tensor is copied from one process's GPU memory to
                another's, without a copy on the CPU. Packs and opens such tensors.
slabs.py        the memory of one GPU that this process lends: slabs, cut into pieces
offers.py       the handshake before the channel is used between a pair of GPUs
release.py      how an idle slab is closed by all peers and freed
late_calls.py   calls whose tensors must first be copied from a device to the CPU

cuda_ipc.py and slabs.py are below rpc/message, which calls them when it packs a tensor. The other
three are above rpc/calls, because offers and releases are calls themselves. Each file therefore
counts separately in the order of the packages of rpc (tests/house/test_layers.py).
"""

from __future__ import annotations
