"""When members' calls differ, all of them get an error, and the group continues."""

from __future__ import annotations

import numpy as np
import pytest

from fastdist.core.errors import CollectiveMismatchError
from tests.distributed.links.members import Member, together


@pytest.mark.one_in(4)
@pytest.mark.parametrize("odd", [0, 1, 2, 3])
@pytest.mark.parametrize("machines", ["aaaa", "aabb", "abab", "aaab", "abcd"])
def test_a_call_that_differs_is_named_to_all_on_every_machine(machines: str, odd: int) -> None:
    def play(member: Member) -> list[str]:
        transport, texts = member.transport, list[str]()
        for _ in range(2):
            call = member.call("barrier" if member.rank == odd else "all_reduce", "ä")
            with pytest.raises(CollectiveMismatchError) as raised:
                transport.barrier(call)
            texts.append(str(raised.value))
            # After the error, the next call of all members succeeds.
            array = np.full(30_000, member.rank)
            transport.all_reduce(member.call(), array, "sum")
            assert (array == 6).all()
        return texts

    for number, texts in enumerate(zip(*together(machines, play), strict=True)):
        # Members of one machine compare their calls first, then the machines do.
        for text in texts:
            assert "the members of the group called differently: rank " in text
            assert f"called barrier (ä), number {2 * number + 1} of the group" in text
            assert f"called all_reduce (ä), number {2 * number + 1} of the group" in text
            assert f"at program{odd}.py:{2 * number + 1}" in text
        assert len(set(texts)) == 1


def test_a_difference_inside_of_one_machine_is_what_the_others_learn() -> None:
    def play(member: Member) -> str:
        call = member.call(f"call{member.rank}")
        with pytest.raises(CollectiveMismatchError) as raised:
            member.transport.barrier(call)
        return str(raised.value)

    first, second, third = together("aab", play)
    assert first == second == third
    assert "rank 0 (pid " in first and "called call0" in first and "called call1" in first
    assert "call2" not in first
