"""Under any fault no member hangs, all results have the same bits, and errors name who failed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fastdist.distributed.links import sums
from fastdist.distributed.links.group import LinksTransport
from fastdist.distributed.process_group import rounds
from fastdist.distributed.process_group.rounds import RoundStore
from fastdist.distributed.store import Store
from tests.distributed.process_group.simulation.simulated_members import end_job, simulated_machines
from tests.distributed.process_group.simulation.simulated_programs import Groups, try_seeds
from tests.distributed.rpc.simulation.simulated_world import end_threads

NUM_SEEDS = 60


@pytest.fixture(scope="module", autouse=True)
def machines() -> Iterator[None]:
    """Run groups on simulated members."""
    with simulated_machines():
        yield


@pytest.fixture(autouse=True)
def threads_end() -> Iterator[None]:
    """End all threads of simulated processes after the tests."""
    yield
    end_job()
    end_threads()


@pytest.mark.one_in(3)
def test_whatever_breaks_members_end_with_the_same_bits_or_an_error_that_names_it() -> None:
    try_seeds(range(NUM_SEEDS))


# Seeds that found bugs, and the bugs. A seed fails again if the fix of its bug is reverted.
FOUND = {
    2: "the end of a member in init_process_group was noticed at the timeout alone",
    34: "a member that was killed in init_process_group never met the others again",
    122: "a send waited until its deadline, though the group had failed",
    284: "the end of a member whose connection was not made yet was not noticed",
    924: "a send to a member of a machine that all others had left waited until its deadline",
    1053: "a goodbye did not wait for a connection, and its sender was taken for lost",
    2247: "a member that waited for another machine did not learn what its leader had noticed",
    12455: "a member that could not join waited for others that had left as well",
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", FOUND)
def test_what_was_found_is_mended(seed: int) -> None:
    try_seeds(range(seed, seed + 1))


@pytest.mark.one_in(3)
def test_a_seed_leads_all_that_happens() -> None:
    traces = []
    for seeds in (range(8), reversed(range(8))):
        found = {}
        for seed in seeds:
            job = Groups(seed)
            job.run()
            found[seed] = [(one.member.name, one.step, one.ended) for one in job.outcomes]
        traces.append(found)
    assert traces[0] == traces[1]


@pytest.mark.slow
@pytest.mark.parametrize("first", range(NUM_SEEDS, 20_000, 1000))
def test_whatever_breaks_members_end_well_for_many_seeds(first: int) -> None:
    try_seeds(range(first, first + 1000))


# Deliberate bugs that the simulation must detect. The seeds of each test begin shortly before the
# first seed that detects the bug.


@pytest.mark.one_in(3)
def test_members_that_never_meet_again_after_a_restart_are_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def begin_own_round(store: Store, rank: int) -> RoundStore:
        return RoundStore(store.add(f"process_group.inits.{rank}", 1) - 1, store)

    monkeypatch.setattr(rounds, "begin_round", begin_own_round)
    monkeypatch.setattr(RoundStore, "is_over", lambda self: False)
    with pytest.raises(AssertionError, match="no member has finished"):
        try_seeds(range(30, 70))


def test_an_order_of_sums_that_differs_between_members_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    combine, calls = sums.combine, iter(range(10**9))

    def combine_in_turns(op: str, arrays: list[object], out: object) -> None:
        combine(op, list(arrays)[:: 1 if next(calls) % 2 else -1], out)  # type: ignore[arg-type]

    monkeypatch.setattr(sums, "combine", combine_in_turns)
    with pytest.raises(AssertionError, match="bits differ"):
        try_seeds(range(70, 270))


@pytest.mark.one_in(3)
def test_a_loss_that_nobody_is_told_of_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LinksTransport, "peer_lost", lambda self, peer, why: None)
    with pytest.raises(AssertionError, match=r"after \d"):
        try_seeds(range(25, 85))
