"""Whether a worker is out, by what the others say of it."""

from __future__ import annotations

import pytest

from fastdist.distributed.rpc.workers.standing import Standing


@pytest.mark.parametrize("num_there", [0, 1, 99])
def test_who_stood_still_is_out_at_the_first_word(num_there: int) -> None:
    assert Standing().was_given_up(7, num_there=num_there, stood_still=True)


def test_the_word_of_the_only_other_member_is_enough() -> None:
    assert Standing().was_given_up(7, num_there=0, stood_still=False)


def test_one_who_has_given_up_everybody_ends_nobody_who_is_in_touch_with_the_rest() -> None:
    for num_there in range(1, 100):
        assert not Standing().was_given_up(7, num_there=num_there, stood_still=False)


def test_who_is_given_up_by_more_than_are_left_is_out_whoever_speaks_first() -> None:
    for size in range(2, 20):
        standing, others = Standing(), size - 1
        outs = [
            standing.was_given_up(rank, num_there=others - 1 - rank, stood_still=False)
            for rank in range(others)
        ]
        assert outs[-1] and outs == sorted(outs)


def test_a_member_that_says_it_again_is_counted_once() -> None:
    standing = Standing()
    assert not any(standing.was_given_up(7, num_there=1, stood_still=False) for _ in range(5))
    assert standing.was_given_up(8, num_there=1, stood_still=False)
