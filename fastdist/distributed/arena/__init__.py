"""Memory that processes of one machine share: large tensors are copied into it once."""

# The design note of this room.
#
# A process has one arena: a file without a name (memfd), made when it first sends a large tensor to
# a process of the same machine. Nothing in any directory names it, so nothing can be left behind:
# however its owner ends, the kernel frees it with its last mapping.
#
# Offer (rpc/arena_offers.py): the owner tells the peer its descriptor and lends it a block with
# random bytes. The peer opens /proc/PID/fd/FD, where PID is what the peer's record says, maps the
# file once, and answers with the bytes. Only then is the arena used for it: two containers of one
# machine, another user, or a peer that was told not to, answer with a reason instead (agent debug
# info), and tensors go in the message as ever. The file is sealed, so it can neither shrink nor
# grow under who maps it.
#
# Lending: a tensor of LEAST_BYTES or more is copied into a block of its own (whole pages), and a
# descriptor takes its place among the message's inline buffers: arena, slot, generation, offset.
# The receiver makes an array over the block; when the last view of that has died, a word in the
# slot's row says so, and the owner, who looks at these words whenever it lends, uses the room
# again. No message tells of it. The block is the receiver's alone meanwhile: it may write into it,
# and keep it for ever. No room, or no slot: the tensor goes in the message. Nobody waits.
#
# Ends: a call that ends takes back what was not taken (borrower.py, Note [Who has a block]). A peer
# that is lost loses what it has not taken at once, and the rest when it releases it or its process
# has ended: not before, for a peer that was only cut off may still read. The receivers of a dead
# owner's blocks give the other pages back. A forked child has copies (fork.py).
#
# Off: `_channels=["basic"]` of the options, or FASTDIST_CHANNELS=basic, at either end; and on other
# processors than x86, for which this version has no fence (system/fence.py).
#
# Memory: the file is sparse. Pages come when a block needs them, and go 10 to 20 s after they were
# last lent.
#
# Figures (AMD EPYC Zen 4, 2 cores under load, time by arena / time in the message, both ends
# fastdist): 64 KB and back 1.3, 128 KB 1.2, 192 KB 0.96, 256 KB 0.88, 512 KB 0.71; hence
# LEAST_BYTES. Fresh pages cost 0.9 ms a MB to fill there, warm ones 0.03 to 0.09. `python -m bench
# rpc_large` holds it beside torch: 1 MB and back 0.50 [0.31-0.55], 16 MB and back 0.13 [0.09-0.16].

from __future__ import annotations
