"""All timeouts of this package are in one table, and are consistent with each other."""

from __future__ import annotations

from tests.distributed.time_table import EQUAL, RELATIONS
from tests.distributed.times import in_the_code, in_the_table, seconds


def test_the_table_has_all_times_and_no_others():
    assert sorted({*in_the_code()} ^ in_the_table()) == []


def test_times_are_in_their_order(properties):
    for first, then, why in RELATIONS:
        with properties(f"{first} < {then}"):
            assert seconds(first) <= seconds(then), why
            assert first != then


def test_times_that_one_fact_decides_are_the_same(properties):
    for one, other in EQUAL:
        with properties(one):
            assert seconds(one) == seconds(other)


def test_a_job_ends_before_its_engine_kills_it():
    least_s = 30.0  # Kubernetes and Slurm send SIGKILL this long after SIGTERM
    names = ("ending.SHUTDOWN_S", "ending._EXIT_S", "ending.KILLED_S", "rounds._GOODBYE_S")
    assert sum(seconds(f"launch.{name}") for name in names) < least_s


def test_lost_worker_is_known_before_calls_to_it_time_out():
    from fastdist.distributed.rpc import constants

    limit = constants.DEFAULT_RPC_TIMEOUT_SEC
    assert seconds("distributed.sockets.liveness_timeouts.FROZEN_S") < limit
    # A call that is answered within its timeout may still bring a message of a released context.
    assert seconds("distributed.autograd.shard.TOMBSTONE_S") >= limit
