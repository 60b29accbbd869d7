"""Arenas: memory that processes of one machine share, so that large tensors are copied once.

layout.py    the arena's file (header, table of blocks), and whether this machine supports arenas
owner.py     the process that created the arena: it lends blocks and takes them back
lender.py    the owner's side for one peer
borrower.py  the peer's side: it maps arenas, and creates arrays from blocks
ranges.py    the free ranges of an arena
fork.py      handles the arenas of the parent in a forked child

A process has one arena: an unnamed file (memfd), created when the process first sends a large
tensor to another process of the same machine. No directory entry refers to the file. When no
process maps it any more, the kernel frees the memory, however the owner ended.

Offer (rpc/arena_offers.py): the owner sends the number of its file descriptor to the peer, and
lends the peer a block of random bytes. The peer opens /proc/PID/fd/FD, with PID from the owner's
record, maps the file once, and answers with the random bytes. From then on, the arena is used. A
peer in another container, of another user, or with the channel switched off answers with a reason
(shown in the agent's debug info), and tensors are sent inside messages. The file is sealed: its
size cannot change while a process maps it.

Lending: a tensor of LEAST_BYTES or more is copied into a block of whole pages. A descriptor (arena,
slot, generation, offset) replaces the tensor among the message's buffers. The receiver creates an
array over the block. When the last view of that array is freed, the receiver sets a word in the
slot's row. Before that, the block belongs to the receiver, which may write to it and keep it. The
owner checks these words whenever it lends, and reuses released blocks, so a release needs no
message. If no block or slot is free, the tensor is sent inside the message; no call waits.

End: when a call ends, the blocks that its receiver has not taken are taken back (borrower.py, Note
[Who has a block]). When a peer is lost, its untaken blocks are taken back immediately. Its taken
blocks are taken back when it releases them or its process ends: a peer that was only cut off may
still read them. If the owner dies, the receivers of its blocks free all pages of the arena that are
not in use. A forked child gets copies of the blocks (fork.py).

Arenas are off with `_channels=["basic"]` in the options or FASTDIST_CHANNELS=basic, at either end.
They are also off on processors other than x86, because fastdist has no memory fence for these
processors yet (system/fence.py).

Memory: the file is sparse. Pages are allocated when a block needs them, and freed 10 to 20 s after
they were last lent.

Figures (AMD EPYC Zen 4, 2 cores under load; the time with an arena divided by the time with tensors
inside messages, both ends fastdist): 64 KB and back 1.3, 128 KB 1.2, 192 KB 0.96, 256 KB 0.88, 512
KB 0.71. LEAST_BYTES follows from these figures. Filling fresh pages takes 0.9 ms a MB on that
machine, and filling pages that were used before takes 0.03 to 0.09 ms a MB.
`python -m bench rpc_large` compares arenas with torch: 1 MB and back 0.50 [0.31-0.55], 16 MB and
back 0.13 [0.09-0.16].

docs/glossary.md explains the terms.
"""

from __future__ import annotations
