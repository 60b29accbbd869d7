"""Signals and child processes that a test run inherits."""

from __future__ import annotations

import os
import signal


def leave_orphans_to_a_parent() -> None:
    """If this is the first process (PID 1), fork: the child continues, and the parent exits with
    its status.

    Orphans of any process become children of PID 1. A test that counts the children that it left
    behind would count these orphans too.
    """
    if os.getpid() != 1:
        return
    child = os.fork()
    if child == 0:
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to parent and child
    signal.signal(signal.SIGTERM, lambda number, _: os.kill(child, number))
    while True:
        ended, status = os.wait()
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)


def restore_ctrl_c() -> None:
    """Let Ctrl-C interrupt Python again if a shell started this process with SIGINT ignored.

    A script that runs `pytest &` has that effect. Processes that tests start would ignore SIGINT
    too, and tests of interrupts could not pass.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
