"""The signals and the children that the process of a run of tests inherits."""

from __future__ import annotations

import os
import signal


def leave_orphans_to_a_parent() -> None:
    """Go on as a child where this is the first process, which ends when and as the child does.

    Orphans of any process become children of the first one. A test that counts the children it
    left behind would count those too.
    """
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


def restore_ctrl_c() -> None:
    """Let Ctrl-C interrupt Python again if a shell started this process with SIGINT ignored.

    Scripts do so for `pytest &`. Processes that tests start would inherit it, and no test of
    interrupts could pass.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
