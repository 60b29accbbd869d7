"""Parts of short notices: their interval, and the reason of an end without shutdown()."""

from __future__ import annotations

from typing import Final

# How often a worker must send a PONG while somebody waits for it.
BEAT_S: Final = 5.0
# The name under which a goodbye has its reason, where a process ends without rpc.shutdown(). The
# reason begins with ENDED, and where an exception ended the process with CAUSE.
WHY: Final = "why"
ENDED: Final = "it ended without rpc.shutdown()"
CAUSE: Final = f"{ENDED}, by "
MOST_LETTERS: Final = 300
