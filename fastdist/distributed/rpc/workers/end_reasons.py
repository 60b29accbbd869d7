"""Constants of notices: the interval of PONGs, and the reason of an end without shutdown()."""

from __future__ import annotations

import logging
import os
from typing import Final

from fastdist.core.errors import WorkerLostError

# The interval at which a worker must send a PONG while a peer's call waits for its answer.
BEAT_S: Final = 5.0
# The metadata name of the reason in a goodbye, if a process ends without rpc.shutdown(). The reason
# is ENDED, or CAUSE and a text if an exception or a call of sys.exit ended the process.
WHY: Final = "why"
ENDED: Final = "it ended without rpc.shutdown()"
CAUSE: Final = f"{ENDED}, by "
MOST_LETTERS: Final = 300
# The environment variable that `fastdist run` and torchrun set. These launchers end a job when a
# worker fails, and report the first failure.
LAUNCHED: Final = "TORCHELASTIC_RESTART_COUNT"
_BY_ANOTHER: Final = f"{CAUSE}{WorkerLostError.__module__}.{WorkerLostError.__qualname__}:"


def level_of_end(why: str) -> int:
    """Return the log level for the end of a worker that did not shut down.

    An end that was caused by the loss of another worker is logged as INFO. If such ends were
    warnings, one failure among n workers would make each worker log n - 1 lines. Under a launcher,
    any end with a cause is logged as INFO: the launcher shows the whole cause once.
    """
    is_reported = why.startswith(CAUSE if LAUNCHED in os.environ else _BY_ANOTHER)
    return logging.INFO if is_reported else logging.WARNING
