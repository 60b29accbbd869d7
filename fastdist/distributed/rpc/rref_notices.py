"""What other workers, and the owner itself, must hear of references: many things at a time."""

# References end in the garbage collector, in any thread, possibly with a lock of ours held. So a
# note is put into a SimpleQueue, which is safe for that, and a thread does what it says. A loop of
# short calls on references makes several notes a call, none of them urgent: the thread lets them
# gather for a while, asleep, and then tells each worker in one message of each kind.

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, Final

from fastdist.core.errors import RpcError

from .interceptors import Envelope
from .words import number, numbers

_logger = logging.getLogger(__name__)

NAME: Final = "fastdist-rpc-rref"
TOGETHER_S: Final = 0.005
_FLUSH_S: Final = 5.0
_MOST: Final = 1000  # what one message may hold
# What is told may be told twice, so it is repeated when it could not be told.
RETRIES: Final = 5

# A note: (what to do with all of its kind and addressee, addressee, what this one is about).
Telling = Callable[[Any, Sequence[Any]], None]


class Notices:
    """Notes by what is to be done with them, `tell(addressee, items)`, and for whom.

    Thread  put from any, also from a finalizer
    """

    def __init__(self) -> None:
        self._notes: SimpleQueue[tuple[Telling, Any, Any] | None] = SimpleQueue()
        # Set while somebody waits for what was put, and from the end on.
        self._hurry = threading.Event()
        self._thread: threading.Thread | None = None
        self._start_lock = threading.Lock()  # guards _thread
        self._closed = False

    def start(self) -> None:
        """Have a thread; not from a finalizer."""
        if self._thread is None and not self._closed:
            with self._start_lock:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name=NAME, daemon=True)
                    self._thread.start()

    def put(self, tell: Telling, addressee: Any, item: Any) -> None:
        """Let tell(addressee, [..., item, ...]) be called soon."""
        if not self._closed:
            self._notes.put((tell, addressee, item))

    def flush(self) -> None:
        """Wait until what was put has been told."""
        if self._thread is None or self._closed:
            return
        told = threading.Event()
        self._hurry.set()
        self.put(lambda _, __: told.set(), None, None)
        told.wait(_FLUSH_S)
        self._hurry.clear()

    def close(self) -> None:
        """Forget what was not told, and end the thread."""
        self._closed = True
        self._hurry.set()
        self._notes.put(None)
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        while not self._closed:
            self._tell_some()

    def _tell_some(self) -> None:
        # In a function of its own, so that nothing that a note is about outlives the telling.
        notes = [self._notes.get()]
        self._hurry.wait(TOGETHER_S)
        while not self._closed:
            try:
                notes.append(self._notes.get_nowait())
            except Empty:
                break
        together: dict[tuple[Telling, Any], list[Any]] = {}
        for note in notes:
            if note is not None:
                tell, addressee, item = note
                together.setdefault((tell, addressee), []).append(item)
        for (tell, addressee), items in together.items():
            for start in range(0, len(items), _MOST):
                self._tell(tell, addressee, items[start : start + _MOST])

    def _tell(self, tell: Telling, addressee: Any, items: Sequence[Any]) -> None:
        try:
            tell(addressee, items)
        except RpcError:
            _logger.info("what became of references could not be told", exc_info=True)
        except Exception:
            # Whatever one note ran into, the next ones must be told.
            _logger.exception("what became of references was not told")


def ids_of(request: Envelope) -> tuple[int, int]:
    """Return the ids of the reference, and of the fork of it, that a request is about.

    Raises  MessageError if one is missing
    """
    words, sender = request.metadata, request.peer
    return number(words, "rref", sender), number(words, "fork", sender)


def lists_of(request: Envelope, *names: str) -> list[tuple[int, ...]]:
    """Return the lists of ids in a request that tells several notes together.

    Raises  MessageError if one is no list
    """
    return [numbers(request.metadata, name, request.peer) for name in names]
