"""Sends tensors of GPUs between workers: from GPU to GPU on one machine, or through CPU memory.

cuda_ipc.py     the channel `cuda_ipc`: a tensor is copied from the GPU memory of one process to
                the GPU memory of another, without a copy on the CPU. Packs and opens such tensors.
slabs.py        the memory of one GPU that this process lends: slabs, cut into pieces
offers.py       the handshake before the channel is used between a pair of GPUs
release.py      the protocol by which all peers close an idle slab, so that it can be freed
late_calls.py   calls whose tensors must first be copied from a device to the CPU

cuda_ipc.py and slabs.py are in a layer below rpc/message, which calls them when it packs a tensor.
The other three are in a layer above rpc/calls, because offers and releases are calls themselves. So
tests/house/test_layers.py treats each file like a package when it checks the order of rpc's
packages.
"""

from __future__ import annotations
