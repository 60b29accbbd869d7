"""python -m tests.kernels.guarded FIRST COUNT [WARM]: makes COUNT calls, cycling through all kinds.
python -m tests.kernels.guarded NAME NUMBER: repeats one call in this process.
"""

from __future__ import annotations

import faulthandler
import sys
import time

from .draw import KINDS
from .memory import Guard
from .run import failures, fault_of, make, places

_say = sys.stdout.write


def _repeat(name: str, number: int) -> int:
    faulthandler.enable()
    guard = Guard()
    guard.serve()
    call = make(name, number)
    _say(f"{name} {number}: must raise: {call.is_wrong}\n")
    fault = fault_of(call, guard, show=_say)
    _say(f"{fault or 'nothing is wrong'}\n")
    return fault is not None


def _make_many(first: int, count: int, warm: int) -> int:
    began, wrong = time.monotonic(), 0
    for line in failures(places(first, count), warm):
        _say(f"{line}\n")
        sys.stdout.flush()
        wrong += 1
    _say(f"{count} calls from {first} on, {wrong} failures, {time.monotonic() - began:.0f} s\n")
    return wrong > 0


if __name__ == "__main__":
    first, second, *warm = sys.argv[1:]
    if first in KINDS:
        sys.exit(_repeat(first, int(second)))
    sys.exit(_make_many(int(first), int(second), int(warm[0]) if warm else 0))
