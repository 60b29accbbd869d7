"""Reports of other workers decide whether a worker was given up."""

from __future__ import annotations

import pytest

from fastdist.distributed.rpc.workers.standing import is_out


@pytest.mark.parametrize("num_there", [0, 1, 99])
def test_who_stood_still_is_out_at_the_first_word(num_there: int) -> None:
    assert is_out({7}, num_there, stood_still=True)


def test_the_word_of_the_only_other_member_is_enough() -> None:
    assert is_out({7}, 0, stood_still=False)


def test_one_who_has_given_up_everybody_ends_nobody_who_is_in_touch_with_the_rest() -> None:
    assert not any(is_out({7}, num_there, stood_still=False) for num_there in range(1, 100))


def test_who_is_given_up_by_more_than_are_left_is_out_whoever_speaks_first() -> None:
    for size in range(2, 20):
        others = size - 1
        outs = [
            is_out(range(rank + 1), others - 1 - rank, stood_still=False) for rank in range(others)
        ]
        assert outs[-1] and outs == sorted(outs)
