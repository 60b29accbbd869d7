"""send and recv: tags, senders, order, wrong sizes, and several threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from fastdist.core.errors import CollectiveError, CollectiveMismatchError, CollectiveTimeoutError
from fastdist.distributed.links import mail
from tests.distributed.links.members import TOPOLOGIES, Member, together

topologies = pytest.mark.parametrize("machines", TOPOLOGIES.values(), ids=TOPOLOGIES)
LARGE = 300_001


@topologies
def test_messages_of_a_pair_and_tag_arrive_in_order_whatever_their_sizes(machines: str) -> None:
    sizes = [5, LARGE, 0, 7, LARGE, 1]

    def play(member: Member) -> None:
        if member.rank == 1:
            for number, size in enumerate(sizes):
                array = np.full(size, number, np.int32)
                member.transport.send(member.message(number), array, 3, 7)
                array[:] = -1  # the sender may change its array
        elif member.rank == 3:
            for number, size in enumerate(sizes):
                array = np.full(size, -2, np.int32)
                assert member.transport.recv(member.message(number), array, 1, 7) == 1
                assert (array == number).all()

    together(machines, play)


@topologies
def test_tags_and_any_sender(machines: str) -> None:
    def play(member: Member) -> None:
        if member.rank:
            for tag in (1, 2):
                value = np.full(LARGE if tag == 2 else 3, 10 * member.rank + tag)
                member.transport.send(member.message(), value, 0, tag)
            return
        small = {}
        for _ in range(3):
            # Receive messages with tag 1 first, although messages with tag 2 may be waiting.
            array = np.zeros(3, np.int64)
            sender = member.transport.recv(member.message(), array, None, 1)
            small[sender] = int(array[0])
        assert small == {1: 11, 2: 21, 3: 31}
        for sender in (3, 1, 2):
            array = np.zeros(LARGE, np.int64)
            assert member.transport.recv(member.message(), array, sender, 2) == sender
            assert (array == 10 * sender + 2).all()

    together(machines, play)


def test_all_threads_of_two_members_send_and_receive_at_once() -> None:
    num_threads = 6

    def play(member: Member) -> None:
        found: list[int] = []

        def exchange(tag: int) -> None:
            for number in range(8):
                array = np.full(LARGE if number % 3 == 1 else 4, 100 * tag + number)
                got = np.empty_like(array)
                if (tag + member.rank) % 2:
                    member.transport.send(member.message(number), array, 1 - member.rank, tag)
                    member.transport.recv(member.message(number), got, 1 - member.rank, tag)
                else:
                    member.transport.recv(member.message(number), got, None, tag)
                    member.transport.send(member.message(number), array, 1 - member.rank, tag)
                assert (got == array).all()
            found.append(tag)

        threads = [threading.Thread(target=exchange, args=(tag,)) for tag in range(num_threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(found) == list(range(num_threads))

    together("ab", play)
    together("aa", play)


@pytest.mark.parametrize("size", [4, LARGE])
def test_a_message_of_another_size_or_type_is_a_mismatch_that_names_both(size: int) -> None:
    def play(member: Member) -> str:
        array = np.zeros(size + member.rank, np.float32)
        call = member.message(0, f"float32, {array.size} numbers")
        text = ""
        if member.rank == 0:
            try:
                member.transport.send(call, array, 1, 0)
            except CollectiveMismatchError as error:
                text = str(error)
        else:
            with pytest.raises(CollectiveMismatchError) as raised:
                member.transport.recv(call, array, 0, 0)
            text = str(raised.value)
            assert (array == 0).all()
        member.transport.barrier(member.call())
        return text

    sent, received = together("aa", play)
    assert f"sent float32, {size} numbers ({4 * size} bytes) at program0.py:1" in received
    assert f"expected float32, {size + 1} numbers ({4 * size + 4} bytes)" in received
    # The sender of a small message has already continued.
    assert sent == ("" if size == 4 else received)


def test_a_receiver_that_does_not_call_is_named_and_the_group_goes_on() -> None:
    def play(member: Member) -> None:
        if member.rank == 0:
            with pytest.raises(CollectiveTimeoutError, match=r"rank 1 \(pid .* had not come"):
                member.transport.send(member.message(timeout_s=0.05), np.ones(LARGE), 1, 0)
            with pytest.raises(CollectiveTimeoutError, match=r"rank 1 \(pid .* had not come"):
                member.transport.recv(member.message(timeout_s=0.05), np.ones(3), 1, 0)
        member.transport.barrier(member.call())
        array = np.full(3, member.rank)
        if member.rank == 0:
            member.transport.send(member.message(), array, 1, 0)
        else:
            # The message of the send that timed out is not delivered.
            member.transport.recv(member.message(), array, 0, 0)
            assert (array == 0).all()

    together("aa", play)


def test_a_sender_that_is_never_received_waits_before_it_fills_its_receiver() -> None:
    def play(member: Member) -> None:
        if member.rank == 0:
            for number in range(mail.MOST_EAGER - 1):
                member.transport.send(member.message(number), np.ones(1), 1, 0)
            late = member.message(mail.MOST_EAGER - 1, timeout_s=0.05)
            with pytest.raises(CollectiveTimeoutError):
                member.transport.send(late, np.ones(1), 1, 0)
        member.transport.barrier(member.call())

    together("aa", play)


def test_abort_ends_those_that_receive_and_those_that_sum() -> None:
    def play(member: Member) -> float:
        if member.rank == 0:
            timer = threading.Timer(0.05, member.transport.abort, [ValueError("enough")])
            timer.start()
            with pytest.raises(ValueError, match="enough"):
                member.transport.recv(member.message(), np.ones(3), 1, 0)
            with pytest.raises(ValueError, match="enough"):
                member.transport.barrier(member.call())
            timer.join()
        else:
            began = time.monotonic()
            with pytest.raises(CollectiveError, match="enough"):
                member.transport.all_reduce(member.call(), np.ones(3), "sum")
            return time.monotonic() - began
        return 0.0

    assert max(together("aa", play)) < 2.0
    assert max(together("ab", play)) < 2.0


def test_close_ends_what_other_threads_wait_for() -> None:
    def play(member: Member) -> None:
        if member.rank:
            member.transport.recv(member.message(), np.ones(1), 0, 0)
            return
        errors: list[str] = []

        def wait(function: Callable[[], object]) -> None:
            try:
                function()
            except CollectiveError as error:
                errors.append(str(error))

        waits: list[Callable[[], object]] = [
            lambda: member.transport.recv(member.message(), np.ones(3), 1, 5),
            lambda: member.transport.barrier(member.call()),
        ]
        threads = [threading.Thread(target=wait, args=(one,)) for one in waits]
        for thread in threads:
            thread.start()
        member.transport.send(member.message(), np.ones(1), 1, 0)
        # The other member reads this message and leaves, so both threads wait in vain.
        member.transport.close()
        for thread in threads:
            thread.join()
        assert len(errors) == 2
        assert all("this group was closed" in one or "left the group" in one for one in errors)
        with pytest.raises(CollectiveError):
            member.transport.barrier(member.call())

    together("aa", play)


def test_a_member_sends_nothing_to_itself() -> None:
    def play(member: Member) -> None:
        with pytest.raises(ValueError, match="cannot send to itself"):
            member.transport.send(member.message(), np.ones(1), member.rank, 0)
        with pytest.raises(ValueError, match="cannot receive from itself"):
            member.transport.recv(member.message(), np.ones(1), member.rank, 0)

    together("a", play)
