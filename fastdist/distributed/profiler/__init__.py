"""Where the time of several workers goes: calls profiled on their callees, and one time line.

While a profile records (`fastdist.profiler.profile`, `fastdist.autograd.profiler.profile`), a call
to another worker takes along what is wanted of each event: shapes, FLOPs, stacks, bytes. The callee
records what it does for that call, in all threads that have a part in it, and its answer brings the
events back: they are named after the call, as PyTorch names them, carry the id of their worker, and
lie on the caller's clock.

`profile` of this room records on all workers of the group at once, and gives one time line: clocks
aligned, an arrow from each send to its receive, the critical path of each backward pass marked.

calls.py            the calling half: what a call is named, and where its events go
served.py           the serving half: what a request takes, in whichever threads
interceptor.py      what travels with the messages of both
ranges_as_bytes.py  time ranges on their way between workers
group.py            `profile`: all workers record, one gathers
group_worker.py     what a worker does for who profiles the group
merged.py           many workers' ranges as one time line with arrows
critical_path.py    what a backward pass waited for

Off, nothing of this is on the path of a call: the functions that calls go through are replaced
while somebody records (calls.py), and the interceptor that stays is shown the requests alone whose
callers profile them. tests/profiler/test_off.py looks at each instruction that a call executes.
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

# What most workers never use is loaded by the first who does.
load_later(__name__, {"TimeLine": "merged", "profile": "group"})
