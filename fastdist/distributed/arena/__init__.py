"""Arenas: memory that processes of one machine share, so that large tensors are copied once.

layout.py    the file: its header, its table of blocks, and whether this machine supports it
owner.py     the process that created the arena: it lends blocks and takes them back
lender.py    the owner's side for one peer
borrower.py  the peer's side: it maps arenas, and creates arrays from blocks
ranges.py    the free ranges of an arena
fork.py      handles the arenas of the parent in a forked child

A process has one arena: an unnamed file (memfd), created when the process first sends a large
tensor to another process of the same machine. No directory entry refers to it. When all mappings
are gone, the kernel frees the memory, however the owner ends.

Offer (rpc/arena_offers.py): the owner sends the peer its file descriptor, and lends it a block of
random bytes. The peer opens /proc/PID/fd/FD, with PID from the owner's record, maps the file once,
and answers with the bytes. After that the arena is used. A peer in another container, of another
user, or with the channel switched off answers with a reason (in the agent's debug info), and
tensors go inside messages. The file is sealed: its size cannot change while a process maps it.

Lending: a tensor of LEAST_BYTES or more is copied into a block of whole pages. A descriptor (arena,
slot, generation, offset) replaces it among the message's buffers. The receiver creates an array
over the block. When the last view of that array is freed, the receiver sets a word in the slot's
row. The owner checks these words whenever it lends, and uses the block again. No message is needed.
Until then the block belongs to the receiver, which may write to it and keep it. If no block or slot
is free, the tensor goes inside the message; no call waits.

End: when a call ends, the blocks that its receiver has not taken are taken back (borrower.py, Note
[Who has a block]). When a peer is lost, its untaken blocks are taken back immediately. Its taken
blocks are taken back when it releases them or its process ends: a peer that was only cut off may
still read them. If the owner dies, receivers of its blocks free its other pages. A forked child
gets copies (fork.py).

Off: with `_channels=["basic"]` in the options or FASTDIST_CHANNELS=basic, at either end; and on
processors other than x86, for which there is no memory fence yet (system/fence.py).

Memory: the file is sparse. Pages are allocated when a block needs them, and freed 10 to 20 s after
they were last lent.

Figures (AMD EPYC Zen 4, 2 cores under load; ratio of the time by arena to the time in the message,
both ends fastdist): 64 KB and back 1.3, 128 KB 1.2, 192 KB 0.96, 256 KB 0.88, 512 KB 0.71.
LEAST_BYTES follows from these. Filling fresh pages takes 0.9 ms a MB there, warm ones 0.03 to 0.09.
`python -m bench rpc_large` compares it with torch: 1 MB and back 0.50 [0.31-0.55], 16 MB and back
0.13 [0.09-0.16].

docs/glossary.md explains the terms.
"""

from __future__ import annotations
