"""Profiles of several workers: calls and the work of their callees, or a group on one time line.

While a profile records (`fastdist.profiler.profile`, `fastdist.autograd.profiler.profile`), each
call to another worker carries the profile's settings: shapes, FLOPs, stacks, bytes. The callee
records the work of that call, in all threads that take part, and sends the events with its answer.
An event's name begins with the name of the call, as in PyTorch. An event has the id of its worker,
and times of the caller's clock.

`profile` of this package records on all workers of the group at the same time, and creates one time
line. The time line has aligned clocks, an arrow from each send to its receive, and a marked
critical path of each pass.

on_demand.py        loads the other modules at the first profile
calls.py            the caller's half: names of calls, and the recordings for their events
served.py           the callee's half: records a request, in all threads that work for it
interceptor.py      the data that messages carry for both halves
ranges_as_bytes.py  time ranges as bytes in messages
group.py            `profile`: all workers record, and one gathers the results
group_worker.py     a worker's part in the profile of a group
group_recording.py  a worker's recording in the profile of a group
merged.py           time ranges of several workers as one time line with arrows
critical_path.py    finds the events for which a backward pass waited

Without a profile this package adds no cost to calls. While a profile records, calls.py replaces the
functions that calls use. At other times, the installed interceptor only handles requests of calls
that the caller profiles. tests/profiler/test_off.py checks each instruction that a call executes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.missing import load_later
from ..rpc.torch_names import remote_profiler_manager
from . import on_demand

if TYPE_CHECKING:
    from .group import profile
    from .merged import TimeLine

__all__ = ["TimeLine", "profile", "remote_profiler_manager"]

on_demand.install()

# Loaded on first use, because most workers never use them.
load_later(__name__, {"TimeLine": "merged", "profile": "group"})
