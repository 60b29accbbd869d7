"""References to values that stay where they are: RRefs, and what both ends keep account of."""

# The design note of this room: context.py, Note [The life of a reference].
#
# rref.py          what a user holds, and `rref.rpc_sync().method(x)`
# context.py       all of one worker: what it makes, owns and uses, and who must hear of it; how
#                  references stand in bodies of messages
# owned.py         the values that live here
# forks.py         references on their way

from __future__ import annotations
