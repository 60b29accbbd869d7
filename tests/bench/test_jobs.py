"""The benchmark of jobs times steps whose losses equal PyTorch's."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from bench.distributed.jobs import CHECKED, JOBS, Crew, require_same

pytestmark = pytest.mark.usefixtures("forks")


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew]:
    crew = Crew("fastdist")
    try:
        crew.losses("demo")  # returns once the group is set up
        yield crew
    finally:
        crew.end()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("job", JOBS)
def test_a_job_has_losses_and_steps_that_can_be_timed(job: str, crew: Crew) -> None:
    losses = crew.losses(job)
    assert len(losses) == CHECKED and all(map(math.isfinite, losses))
    assert losses[-1] < losses[0] or job.startswith(("IMPALA", "Newton"))
    assert 0 < crew.stopwatch(job)(2) < 60


def test_other_numbers_than_the_peers_are_an_error() -> None:
    require_same("demo", [[1.0, 2.0], [1.0, 2.0001]])
    with pytest.raises(RuntimeError, match=r"demo: losses \[1.0, 2.0\] of fastdist, \[1.0, 2.1\]"):
        require_same("demo", [[1.0, 2.0], [1.0, 2.1]])
    with pytest.raises(RuntimeError, match="nan"):
        require_same("demo", [[math.nan]])


@pytest.mark.one_in(3)
def test_a_leader_that_has_ended_is_told_of(crew: Crew) -> None:
    """This test must be the last: it ends the calling process. The crew then ends without error."""
    with pytest.raises(RuntimeError, match="the calling process ended with 1"):
        crew.losses("no such job")
