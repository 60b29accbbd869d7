"""Parts of short notices: all threads wait; why a process ends without rpc.shutdown()."""

from __future__ import annotations

from typing import Final

# The name under which a PONG has the number of threads, where all of them wait.
STUCK: Final = "stuck"
# The name under which a goodbye has its reason, where a process ends without rpc.shutdown(). The
# reason begins with ENDED, and where an exception ended the process with CAUSE.
WHY: Final = "why"
ENDED: Final = "it ended without rpc.shutdown()"
CAUSE: Final = f"{ENDED}, by "
MOST_LETTERS: Final = 300
