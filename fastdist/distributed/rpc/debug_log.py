"""Log lines at DEBUG about a worker's calls, other workers, contexts and passes."""

# Note [Saying nothing]
# Each call passes here several times, so it reads a flag: one attribute of one object. The levels
# of the loggers are read when RPC starts, and whenever logging clears its cache of levels: it does
# so when any level is set, and when logging.disable is called.

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
    """Whether lines are wanted: about calls, about workers, about contexts and passes."""

    of_calls = of_workers = of_autograd = False

    def look(self) -> None:
        """Read the levels of the loggers."""
        self.of_calls = _CALLS.isEnabledFor(logging.DEBUG)
        self.of_workers = _WORKERS.isEnabledFor(logging.DEBUG)
        self.of_autograd = _CONTEXTS.isEnabledFor(logging.DEBUG) or _PASSES.isEnabledFor(
            logging.DEBUG
        )

    def call(self, request: Message, name: str, what: str) -> None:
        """Say what became of a call that this worker makes."""
        number, kind = request.message_id, _name_of(request.effective_type)
        rank, which = number >> RANK_SHIFT, id_text(number)
        _CALLS.debug("rank %d: call %s (%s), %s: %s", rank, which, kind, name, what)

    def request(self, rank: int, kind: int, message_id: int, peer: int, what: str) -> None:
        """Say what became of a call that another worker makes."""
        text = "rank %d: call %s (%s) of rank %d: %s"
        _CALLS.debug(text, rank, id_text(message_id), _name_of(kind), peer, what)

    def worker(self, rank: int, text: str, *args: object) -> None:
        """Say what happens between workers."""
        if self.of_workers:
            _WORKERS.debug("rank %d: " + text, rank, *args)

    def context(self, rank: int, context_id: int, text: str, *args: object) -> None:
        """Say what happens to a context here."""
        _CONTEXTS.debug("rank %d: context %s: " + text, rank, id_text(context_id), *args)

    def backward(self, rank: int, context_id: int, pass_id: int, text: str, *args: object) -> None:
        """Say what happens to a pass here."""
        which = id_text(context_id), id_text(pass_id)
        _PASSES.debug("rank %d: context %s, pass %s: " + text, rank, *which, *args)


def _name_of(kind: int) -> str:
    return MessageType(kind).name if kind in KINDS else f"{kind:#x}"


debug_log: Final = DebugLog()


class _FoundLevels(dict[int, bool]):
    """Which levels a logger lets through: logging keeps it with the logger, and clears it when a
    level may have changed.
    """

    def clear(self) -> None:
        super().clear()
        debug_log.look()


for _logger in (_CALLS, _WORKERS, _CONTEXTS, _PASSES):
    _logger._cache = _FoundLevels()  # type: ignore[attr-defined]
