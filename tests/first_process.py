"""What the first process of a container does beside its work: it waits for other people's orphans.

They become its children. A test that looks at what it left behind would take them for its own.
"""

from __future__ import annotations

import os
import signal


def leave_orphans_to_a_parent() -> None:
    """Go on as a child where this is the first process, which ends when and as the child does."""
    if os.getpid() != 1:
        return
    child = os.fork()
    if child == 0:
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to both
    signal.signal(signal.SIGTERM, lambda number, _: os.kill(child, number))
    while True:
        ended, status = os.wait()
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)
