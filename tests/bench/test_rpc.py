"""The RPC benchmarks can time each kind of call; some kinds have a ratio to reach."""

from __future__ import annotations

from types import ModuleType

import pytest

from bench.distributed import distributed_backward, metrics, rpc
from bench.distributed.rpc import Couple

pytestmark = pytest.mark.usefixtures("forks")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("bench", [rpc, distributed_backward, metrics])
def test_each_case_can_be_timed(bench: ModuleType) -> None:
    works = [what for what, _, _ in bench.CASES.values()]
    couple = Couple("fastdist", bench.__name__)
    try:
        couple.warm_up(*works)
        assert all(0 < couple.stopwatch(what)(2) < 60 for what in works)
    finally:
        couple.end()


def test_the_ratios_to_reach_beside_torch() -> None:
    goals = {what: goal for what, _, goal in rpc.CASES.values()}
    assert (goals["64 KB"], goals["alone"], goals["to_here"]) == (0.5, 0.7, 0.8)
