"""Stop one thread at each of its instructions in turn while another thread runs."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from tests.disturbances.opcodes import call_traced

_DEADLINE_S = 20.0
# After this time the second thread is done, or it waits for a lock of the first thread.
_BLOCKED_S = 0.005

Step = Callable[[], object]


class _Stop:
    """Stops a thread before its n-th instruction, from 0, in files that end with `within`."""

    def __init__(self, number: int, within: tuple[str, ...]) -> None:
        self.reached = threading.Event()
        self.may_go_on = threading.Event()
        self._left = number
        self._within = within
        self._before: Callable[[FrameType, str, Any], Any] | None = None

    def during(self, step: Step) -> None:
        """Call `step`; the instructions of this thread count."""
        self._before = sys.gettrace()
        call_traced(self._trace, step)

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.endswith(self._within):
            return None
        if self._before is not None:
            # Pass the event on to the earlier tracer, which measures the coverage of lines.
            look = self._before(frame, event, None)
            if look is not None:
                look(frame, "line", None)
        if event == "opcode" and not self.reached.is_set():
            self._left -= 1
            if self._left < 0:
                self.reached.set()
                assert self.may_go_on.wait(_DEADLINE_S)
        return self._trace


def interleave(first: Step, second: Step, number: int, *within: str) -> bool:
    """Stop `first` before its instruction `number`, run `second` completely, and continue `first`.

    Only instructions in files whose names end with one of `within` count. If `second` waits for a
    lock that `first` holds, `first` continues meanwhile. Return False if `first` has fewer
    instructions.

    Raises  any exception of `first` or `second`
    """
    stop, errors = _Stop(number, within), list[BaseException]()

    is_over = threading.Event()

    def run(step: Step) -> None:
        try:
            step()
        except BaseException as error:  # the thread of the test raises it again
            errors.append(error)

    def run_first() -> None:
        run(lambda: stop.during(first))
        is_over.set()

    threads = [threading.Thread(target=run_first), threading.Thread(target=run, args=(second,))]
    threads[0].start()
    while not (stop.reached.wait(0.001) or is_over.is_set()):
        pass
    threads[1].start()
    threads[1].join(_BLOCKED_S)
    stop.may_go_on.set()
    for thread in threads:
        thread.join(_DEADLINE_S)
        assert not thread.is_alive(), f"neither goes on, stopped at instruction {number}"
    for error in errors:
        raise error
    return stop.reached.is_set()


def each_interleaving(prepare: Callable[[], tuple[Step, Step]], *within: str) -> Iterator[int]:
    """Run `second` before each instruction of `first` in turn; yield after each run.

    `prepare` is called before each run, and returns new functions `first` and `second`.
    """
    number, goes_on = 0, True
    while goes_on:
        first, second = prepare()
        goes_on = interleave(first, second, number, *within)
        yield number
        number += 1
