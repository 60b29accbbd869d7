"""The workers of the group: each life of one, how it enters, is watched over, and ends."""

# The design note of this room.
#
# A `Worker` is one life of one rank (worker.py, Note [A worker is a life]). What is known of how it
# fares is a `Session`, which is pure: events go in and actions come out (session.py). The Worker
# owns the descriptors, feeds its session and does what that says. `Workers` is the directory: the
# present life of each name and id.
#
# A session has what of a life goes by the progress thread: liveness, leaving, and when it is asked
# what became of calls. The calls themselves wait in the pipe, for a caller that blocks takes its
# answer from a lane of its own, in its own thread; and those that were answered here are known by
# the lane that they came by (callers.py), which the pool's leader reads. If the session held
# them as well, each call would take its lock, or hop between threads.
#
# record.py         what a worker tells all others about itself
# group.py          the group as its store knows it; group_log.py: what happened in it
#                   in order, and which of the job it is
# joining.py        how a worker enters, or comes back, and who was there
# store_keeper.py   how the store outlives its host, where that is one of the workers
# workers.py        the directory: found, met, admitted, given up; hooks
# worker.py         one life; callers.py: who calls here
# reconciliation.py        what became of calls whose connection broke
# session.py        how it fares
# watching.py       whether a peer is there, and why its address takes no connection
# progress.py       the thread that all of this runs on, and what is to expire
#
# How this worker itself leaves is no matter of this room, for that takes calls: rpc/leaving.py.

from __future__ import annotations
