"""Arenas: memory that processes of one machine share, so that large tensors are copied once.

layout.py    the file: its header, its table of blocks, and whether this machine can share it
owner.py     the process that made the arena: lends blocks and takes them back
lender.py    what the owner has lent to one peer
borrower.py  the peer's side: maps arenas, and makes arrays from blocks
ranges.py    free ranges of an arena
fork.py      what a forked child does with the arenas of its parent

A process has one arena: an unnamed file (memfd), made when it first sends a large tensor to a
process of the same machine. No directory entry refers to it. However the owner ends, the kernel
frees the memory with its last mapping.

Offer (rpc/arena_offers.py): the owner sends the peer its file descriptor, and lends it a block of
random bytes. The peer opens /proc/PID/fd/FD, with PID from the owner's record, maps the file once,
and answers with the bytes. The arena is used only then. A peer in another container, of another
user, or with the channel switched off answers with a reason (in the agent's debug info), and
tensors go inside messages. The file is sealed: it cannot shrink or grow under a process that maps
it.

Lending: a tensor of LEAST_BYTES or more is copied into a block of whole pages. A descriptor (arena,
slot, generation, offset) replaces it among the message's buffers. The receiver makes an array over
the block. When the last view of that array has died, the receiver sets a word in the slot's row;
the owner checks these words whenever it lends, and uses the block again. No message is needed.
Until then the block belongs to the receiver, which may write to it and keep it. If no block or slot
is free, the tensor goes inside the message; no call waits.

Ends: a call that ends takes back the blocks that its receiver has not taken (borrower.py, Note [Who
has a block]). A lost peer loses the blocks that it has not taken at once, and the others when it
releases them or its process ends: a peer that was only cut off may still read. Receivers of a dead
owner's blocks free its other pages. A forked child gets copies (fork.py).

Off: `_channels=["basic"]` of the options or FASTDIST_CHANNELS=basic, at either end; and on
processors other than x86, which have no memory fence here yet (system/fence.py).

Memory: the file is sparse. Pages are allocated when a block needs them, and freed 10 to 20 s after
they were last lent.

Figures (AMD EPYC Zen 4, 2 cores under load, time by arena / time in the message, both ends
fastdist): 64 KB and back 1.3, 128 KB 1.2, 192 KB 0.96, 256 KB 0.88, 512 KB 0.71. These set
LEAST_BYTES. Fresh pages cost 0.9 ms a MB to fill there, warm ones 0.03 to 0.09. `python -m bench
rpc_large` holds it next to torch: 1 MB and back 0.50 [0.31-0.55], 16 MB and back 0.13 [0.09-0.16].

docs/glossary.md explains the terms.
"""

from __future__ import annotations
