"""Constants of short notices: their interval, and the reason of an end without shutdown()."""

from __future__ import annotations

import logging
import os
from typing import Final

from fastdist.core.errors import WorkerLostError

# How often a worker must send a PONG while a call waits for it.
BEAT_S: Final = 5.0
# The metadata name under which a goodbye has its reason, if a process ends without rpc.shutdown().
# The reason begins with ENDED; it has CAUSE if an exception ended the process.
WHY: Final = "why"
ENDED: Final = "it ended without rpc.shutdown()"
CAUSE: Final = f"{ENDED}, by "
MOST_LETTERS: Final = 300
# Set by `fastdist run` and torchrun: they end a job when a worker fails, and report the first
# failure.
LAUNCHED: Final = "TORCHELASTIC_RESTART_COUNT"
_BY_ANOTHER: Final = f"{CAUSE}{WorkerLostError.__module__}.{WorkerLostError.__qualname__}:"


def level_of_end(why: str) -> int:
    """Return the log level for the end of a worker that did not shut down.

    An end that the loss of another worker caused is logged as INFO. If such ends were warnings, one
    failure among n workers would make each of them log n - 1 lines. Under a launcher, an end with a
    cause is also logged as INFO: the launcher shows the whole cause once.
    """
    is_reported = why.startswith(CAUSE if LAUNCHED in os.environ else _BY_ANOTHER)
    return logging.INFO if is_reported else logging.WARNING
