"""Calls: those that are made here, sent and waited for, and those of others, run and answered."""

# The design note of this room.
#
# client.py        the calling half: on a lane of the caller's own, or through a Future; again,
#                  where it may run twice
# outgoing.py      a request on its way: how it is packed, and how it ends, in a Future or for who
#                  takes the answer in person
# serving.py       the serving half: who takes what comes in, where it runs, how it is answered

from __future__ import annotations
