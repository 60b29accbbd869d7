"""DEBUG log lines about a worker's calls, other workers, contexts and passes."""

# Note [Saying nothing]
# Each call reaches this code several times, so without DEBUG the code only reads a flag of
# `debug_log`. The flags are set from the loggers' levels when RPC starts. They are set again
# whenever logging clears its cache of levels: at each change of a level, and at logging.disable.

from __future__ import annotations

import logging
from typing import Final

from .message.ids import RANK_SHIFT, id_text
from .message.message import Message
from .message.types import KINDS, MessageType

_CALLS: Final = logging.getLogger("fastdist.distributed.rpc.calls")
_WORKERS: Final = logging.getLogger("fastdist.distributed.rpc.workers")
_CONTEXTS: Final = logging.getLogger("fastdist.distributed.autograd.contexts")
_PASSES: Final = logging.getLogger("fastdist.distributed.autograd.passes")


class DebugLog:
    """Flags for DEBUG lines about calls, about workers, and about contexts and passes."""

    of_calls = of_workers = of_autograd = False

    def look(self) -> None:
        """Set the flags from the levels of the loggers."""
        self.of_calls = _CALLS.isEnabledFor(logging.DEBUG)
        self.of_workers = _WORKERS.isEnabledFor(logging.DEBUG)
        self.of_autograd = _CONTEXTS.isEnabledFor(logging.DEBUG) or _PASSES.isEnabledFor(
            logging.DEBUG
        )

    def call(self, request: Message, name: str, what: str) -> None:
        """Log an event of a call that this worker makes."""
        number, kind = request.message_id, _name_of(request.effective_type)
        rank, which = number >> RANK_SHIFT, id_text(number)
        _CALLS.debug("rank %d: call %s (%s), %s: %s", rank, which, kind, name, what)

    def request(self, rank: int, kind: int, message_id: int, peer: int, what: str) -> None:
        """Log an event of a call that another worker makes."""
        text = "rank %d: call %s (%s) of rank %d: %s"
        _CALLS.debug(text, rank, id_text(message_id), _name_of(kind), peer, what)

    def worker(self, rank: int, text: str, *args: object) -> None:
        """Log an event that concerns another worker, such as a new connection."""
        if self.of_workers:
            _WORKERS.debug("rank %d: " + text, rank, *args)

    def context(self, rank: int, context_id: int, text: str, *args: object) -> None:
        """Log an event of a context on this worker."""
        _CONTEXTS.debug("rank %d: context %s: " + text, rank, id_text(context_id), *args)

    def backward(self, rank: int, context_id: int, pass_id: int, text: str, *args: object) -> None:
        """Log an event of a distributed pass on this worker."""
        which = id_text(context_id), id_text(pass_id)
        _PASSES.debug("rank %d: context %s, pass %s: " + text, rank, *which, *args)


def _name_of(kind: int) -> str:
    return MessageType(kind).name if kind in KINDS else f"{kind:#x}"


debug_log: Final = DebugLog()


class _FoundLevels(dict[int, bool]):
    """A logger's cache of enabled levels; logging clears it when a level may have changed."""

    def clear(self) -> None:
        super().clear()
        debug_log.look()


for _logger in (_CALLS, _WORKERS, _CONTEXTS, _PASSES):
    _logger._cache = _FoundLevels()  # type: ignore[attr-defined]
