"""Try seeds of the simulator, and continue after failures: python -m tests.distributed.simulate.

Usage: python -m tests.distributed.simulate SCENARIO FIRST [BEHIND THE LAST]
where SCENARIO is Calls, Groups, Passes, References or Shutdowns. The last seed that was tried is
printed regularly. To resume an interrupted run, start from the seed after it.
"""

from __future__ import annotations

import faulthandler
import sys
import time
import traceback
from collections.abc import Callable

from tests.distributed.autograd.simulation import test_simulated_passes
from tests.distributed.process_group.simulation import simulated_members, simulated_programs
from tests.distributed.rpc.simulation import (
    simulated_calls,
    test_simulated_references,
    test_simulated_shutdown,
)
from tests.distributed.rpc.simulation.simulated_group import end_group

# A seed normally takes a fraction of a second. If one takes this long, print a traceback and exit.
_STANDS_STILL_S = 300.0
_TOLD_EVERY = 500  # print progress after this number of seeds

SCENARIOS = {
    "Calls": (simulated_calls.Calls, simulated_calls.scenarios),
    "Passes": (test_simulated_passes.Passes, test_simulated_passes.scenarios),
    "References": (test_simulated_references.References, test_simulated_references.scenarios),
    "Shutdowns": (test_simulated_shutdown.Shutdowns, simulated_calls.scenarios),
}


def _try_seed(name: str) -> Callable[[int], None]:
    """Return a function that tries one seed of a scenario."""
    if name == "Groups":
        return lambda seed: simulated_programs.try_seeds(range(seed, seed + 1))
    make, current = SCENARIOS[name]
    return lambda seed: simulated_calls.try_seeds(make, current, range(seed, seed + 1))  # type: ignore[arg-type]


def main(name: str, first: int, behind: int) -> int:
    """Try the seeds from `first` to `behind` - 1, and return how many failed."""
    try_seed, is_of_groups = _try_seed(name), name == "Groups"
    failed, began = 0, time.process_time()
    machine = (
        simulated_members.simulated_machines
        if is_of_groups
        else test_simulated_passes.machine_of_passes
    )
    with machine():
        for seed in range(first, behind):
            faulthandler.dump_traceback_later(_STANDS_STILL_S, exit=True)
            try:
                try_seed(seed)
            except AssertionError as error:
                failed += 1
                print(error, flush=True)
                if behind - first == 1:
                    traceback.print_exc()
            if (seed + 1 - first) % _TOLD_EVERY == 0:
                _tell(name, first, seed, failed, began)
        faulthandler.cancel_dump_traceback_later()
        end_group()
    if (behind - first) % _TOLD_EVERY:
        _tell(name, first, behind - 1, failed, began)
    return failed


def _tell(name: str, first: int, last: int, failed: int, began: float) -> None:
    took_s = time.process_time() - began
    print(f"{name} {first} to {last}: {failed} failed, {took_s:.1f} s of CPU time", flush=True)


if __name__ == "__main__":
    which, start, *end = sys.argv[1:]
    sys.exit(1 if main(which, int(start), int(end[0]) if end else int(start) + 1) else 0)
