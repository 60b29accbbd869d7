"""Profiles of several workers: calls profiled on their callees, and one time line of the group.

While a profile records (`fastdist.profiler.profile`, `fastdist.autograd.profiler.profile`), each
call to another worker carries what to record of each event: shapes, FLOPs, stacks, bytes. The
callee records its work for that call, in all threads that take part, and its answer returns the
events. They are named after the call, as in PyTorch, carry the id of their worker, and are on the
caller's clock.

`profile` of this package records on all workers of the group at once and gives one time line:
clocks aligned, an arrow from each send to its receive, the critical path of each pass marked.

calls.py            the calling half: names of calls, and where their events go
served.py           the serving half: records a request, in all threads that work for it
interceptor.py      what the messages of both halves carry
ranges_as_bytes.py  time ranges as bytes, for messages
group.py            `profile`: all workers record, one gathers
group_worker.py     a worker's part in the profile of a group
group_recording.py  what a worker records for it
merged.py           ranges of many workers as one time line with arrows
critical_path.py    what a backward pass waited for

Without a profile this package costs calls nothing. While one records, calls.py replaces the
functions that calls go through; the interceptor that stays sees only requests whose callers profile
them. tests/profiler/test_off.py checks each instruction that a call executes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.missing import load_later
from ..rpc.agent import add_hooks
from ..rpc.torch_names import remote_profiler_manager
from . import calls, group_worker

if TYPE_CHECKING:
    from .group import profile
    from .merged import TimeLine

__all__ = ["TimeLine", "profile", "remote_profiler_manager"]

calls.install()
group_worker.install()
add_hooks(calls.worker_starts, calls.worker_stops, group_worker.worker_lost)

# Loaded on first use, as most workers never need it.
load_later(__name__, {"TimeLine": "merged", "profile": "group"})
