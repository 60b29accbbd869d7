"""Memory that one process lends to another: the owner of each block, and its release."""

from __future__ import annotations

import gc
import os
import threading
from typing import Any

import numpy as np
import pytest

from fastdist.core.errors import MessageError
from fastdist.distributed.arena import owner
from fastdist.distributed.arena.borrower import (
    REVOKED,
    BorrowedArena,
    borrow,
    close_borrowed,
)
from fastdist.distributed.arena.layout import (
    ARENA_BLOCK,
    PAGE,
    TABLE_BYTES,
    ArenaError,
    arena_size,
    open_arena,
    why_not_viable,
)
from tests.distributed.arena.arena_of_both import PEER, SIZE, Both, numbers


def test_a_borrower_gets_bytes_of_its_own(both: Both) -> None:
    sent = numbers()
    came = both.send(sent)
    np.testing.assert_array_equal(came, sent)
    sent += 1
    np.testing.assert_array_equal(came, numbers())
    came *= 2
    np.testing.assert_array_equal(sent, numbers() + 1)
    assert came.flags.writeable


def test_room_is_used_again_once_the_last_view_has_died(both: Both) -> None:
    first = both.send(numbers())
    where = first.ctypes.data
    view = first[5:10]
    del first
    second = both.send(numbers())
    assert second.ctypes.data != where and both.lent() == 2
    del view
    assert both.send(numbers()).ctypes.data == where
    del second
    assert both.lent() == 0


def test_a_view_of_any_kind_keeps_the_block(both: Both) -> None:
    expected = numbers()
    for make in (
        lambda a: a.reshape(2, -1).T,
        lambda a: a.data,
        lambda a: a.data[3:][:4],
        lambda a: np.asarray(a.data),
        lambda a: a.view(np.uint8),
        lambda a: a.base,
    ):
        view: Any = make(both.send(expected))
        gc.collect()
        assert both.lent() == 1
        del view
        assert both.lent() == 0


def test_what_is_kept_for_ever_holds_its_own_pages_alone(both: Both) -> None:
    kept = [both.send(numbers(1 << 17)) for _ in range(6)][3]
    for _ in range(2):
        both.arena.trim()
    assert both.bytes_there() <= (1 << 20) + TABLE_BYTES // 64
    np.testing.assert_array_equal(kept, numbers(1 << 17))


def test_pages_that_are_in_use_stay_and_unused_ones_go(both: Both) -> None:
    both.send(numbers(1 << 17))
    assert [seconds for seconds, _ in both.later] == [owner.TRIM_S]
    both.run_later()
    assert both.bytes_there() >= 1 << 20  # the pages were used in the trim period that just ended
    both.send(numbers(1 << 16))
    both.run_later()
    assert 1 << 19 <= both.bytes_there() < 1 << 20
    both.run_later()
    assert both.bytes_there() <= PAGE
    assert both.later == []
    np.testing.assert_array_equal(both.send(numbers(1 << 17)), numbers(1 << 17))
    assert len(both.later) == 1


def test_a_full_arena_lends_nothing_and_fails_nothing(both: Both) -> None:
    kept = [both.send(numbers(1 << 20)) for _ in range(8)]
    assert both.arena.lend(bytes(PAGE), PEER, 2) is None
    del kept[4]
    assert both.arena.lend(bytes(9 << 20), PEER, 2) is None
    assert both.arena.lend(bytes(8 << 20), PEER, 2) is not None


def test_no_memory_lends_nothing(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: int) -> None:
        raise OSError(28, "no space")

    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", refuse)
        assert both.arena.lend(bytes(1 << 20), PEER, 2) is None
    assert both.arena.usage() == (0, 0, 0)
    assert both.send(numbers()).size


def test_a_call_that_ends_takes_back_what_was_not_taken(both: Both) -> None:
    taken = both.send(numbers(), 7)
    untaken = both.lend(bytes(1 << 16), 7)
    other = both.lend(bytes(1 << 16), 8)
    both.arena.end(7)
    assert borrow(untaken, 1 << 16) is REVOKED
    assert borrow(other, 1 << 16) is not REVOKED
    np.testing.assert_array_equal(taken, numbers())
    del taken
    assert both.lent() == 0


def test_a_descriptor_that_comes_twice_is_one_block(both: Both) -> None:
    block = both.lend(numbers().data.cast("B"))
    first, second = borrow(block, 1 << 18), borrow(block, 1 << 18)
    first[:1] = b"x"
    assert bytes(second[:1]) == b"x"
    del first
    assert both.lent() == 1
    del second
    assert both.lent() == 0
    assert borrow(block, 1 << 18) is REVOKED


def test_the_word_of_an_earlier_generation_frees_nothing(both: Both) -> None:
    block = both.lend(bytes(1 << 16))
    _, slot, generation, _ = ARENA_BLOCK.unpack(block)
    del block
    both.arena.end(1)
    new = both.lend(bytes(1 << 16), 2)
    while ARENA_BLOCK.unpack(new)[1] != slot:  # freed slots are reused last
        new = both.lend(bytes(1 << 16), 2)
    held = borrow(new, 1 << 16)
    both.borrowed._words[slot * 8 + 1] = 2 * generation + 1
    assert slot in both.arena._blocks
    both.borrowed._words[slot * 8 + 1] = 2 * ARENA_BLOCK.unpack(new)[2]
    both.arena.end(2)
    del held
    assert both.lent() == 0


@pytest.mark.parametrize(
    ("change", "size"),
    [
        ({"slot": 0}, 1 << 16),
        ({"slot": 1 << 16}, 1 << 16),
        ({"generation": 0}, 1 << 16),
        ({"generation": 1 << 63}, 1 << 16),
        ({"start": 0}, 1 << 16),
        ({"start": TABLE_BYTES - PAGE}, 1 << 16),
        ({"start": TABLE_BYTES + 8}, 1 << 16),
        ({"start": SIZE}, 1 << 16),
        ({"start": SIZE - PAGE}, PAGE + 1),
        ({"start": (1 << 64) - PAGE}, 1 << 16),
        ({}, 0),
        ({}, 1 << 60),
    ],
)
def test_numbers_that_cannot_be_are_refused(both: Both, change: dict[str, int], size: int) -> None:
    names = ("arena", "slot", "generation", "start")
    numbers = dict(zip(names, ARENA_BLOCK.unpack(both.lend(bytes(1 << 16))), strict=True))
    with pytest.raises(MessageError, match="a block of"):
        borrow(ARENA_BLOCK.pack(*{**numbers, **change}.values()), size)


def test_an_arena_that_nobody_knows_gives_nothing() -> None:
    assert borrow(ARENA_BLOCK.pack(5, 1, 1, TABLE_BYTES), 8) is REVOKED


def test_only_what_was_announced_is_mapped(both: Both) -> None:
    pid, fd, arena_id = os.getpid(), both.arena.fd, both.arena.id
    loose = os.memfd_create("loose")
    os.ftruncate(loose, SIZE)
    read_end, write_end = os.pipe()
    try:
        for arguments, why in (
            ((pid, fd, SIZE, arena_id + 1), "in another container"),
            ((pid, fd, SIZE + PAGE, arena_id), "is not arena memory of"),
            ((pid, fd, TABLE_BYTES, arena_id), "cannot be"),
            ((pid, fd, 1 << 50, arena_id), "cannot be"),
            ((pid, -1, SIZE, arena_id), "cannot be"),
            ((pid, 1 << 20, SIZE, arena_id), "cannot be opened"),
            ((1 << 22, fd, SIZE, arena_id), "cannot be opened"),
            ((pid, loose, SIZE, arena_id), "could shrink"),
            ((pid, read_end, SIZE, arena_id), "is not arena memory of"),
        ):
            with pytest.raises(ArenaError, match=why):
                open_arena(*arguments)
    finally:
        for descriptor in (loose, read_end, write_end):
            os.close(descriptor)


def test_an_arena_can_neither_shrink_nor_grow(both: Both) -> None:
    for size in (PAGE, SIZE + PAGE):
        with pytest.raises(PermissionError):
            os.ftruncate(both.arena.fd, size)


def test_a_lost_peer_keeps_what_it_has_until_its_process_ends(both: Both) -> None:
    other = object()
    taken = both.send(numbers())
    both.lend(bytes(1 << 16))
    both.lend(bytes(1 << 16), 2, other)
    assert both.arena.end_all(PEER, is_gone=False)
    assert both.lent() == 2
    assert not both.arena.end_all(PEER, is_gone=True)
    assert both.lent() == 1
    assert not both.arena.end_all(other, is_gone=False)
    assert both.lent() == 0
    del taken


def test_room_that_is_being_filled_is_not_given_to_another(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy, seen = np.copyto, list[int]()

    def lose_the_peer_meanwhile(out: Any, data: Any) -> None:
        monkeypatch.setattr(np, "copyto", copy)
        both.arena.end_all(PEER, is_gone=True)
        seen.append(both.lent())
        copy(out, data)

    monkeypatch.setattr(np, "copyto", lose_the_peer_meanwhile)
    assert both.arena.lend(bytes(1 << 16), PEER, 3) is None
    assert seen == [1] and both.lent() == 0


def test_what_was_lost_with_a_connection_comes_back_in_time(both: Both) -> None:
    before, taken = both.lend(bytes(1 << 16)), both.send(numbers())
    both.run_later()
    both.arena.connection_broke(PEER)
    after = both.lend(bytes(1 << 16))
    assert both.later[-1][0] == owner.LOST_AFTER_S
    both.later[-1][1]()
    assert borrow(before, 1 << 16) is REVOKED
    assert borrow(after, 1 << 16) is not REVOKED
    np.testing.assert_array_equal(taken, numbers())


def test_what_is_sent_again_is_not_lost_with_the_earlier_connection(both: Both) -> None:
    sent = both.lend(bytes(1 << 16), 5)
    both.run_later()
    both.arena.connection_broke(PEER)
    assert both.arena.renew_if_untaken(5) and not both.arena.renew_if_untaken(6)
    both.later[-1][1]()
    block = borrow(sent, 1 << 16)
    assert block is not REVOKED
    # The receiver has borrowed the block and may have changed it, so it must not be sent again.
    assert not both.arena.renew_if_untaken(5)
    del block
    assert not both.arena.renew_if_untaken(5)


def test_an_arena_is_closed_while_a_block_is_filled(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy, seen = np.copyto, list[int]()

    def close_meanwhile(out: Any, data: Any) -> None:
        monkeypatch.setattr(np, "copyto", copy)
        both.arena.close()
        seen.append(both.arena.fd)
        copy(out, data)

    monkeypatch.setattr(np, "copyto", close_meanwhile)
    assert both.arena.lend(bytes(1 << 16), PEER, 3) is None
    assert seen[0] >= 0 and both.arena.fd == -1


def test_what_is_borrowed_outlives_the_arena(both: Both) -> None:
    came = both.send(numbers())
    on_its_way = both.lend(numbers().data.cast("B"))
    both.send(numbers(1 << 18))
    both.arena.close()
    both.arena.close()
    np.testing.assert_array_equal(came, numbers())
    assert bytes(borrow(on_its_way, came.nbytes)) == numbers().tobytes()
    assert both.arena.lend(bytes(1 << 16), PEER, 1) is None
    both.arena.end(1)
    assert both.arena.end_all(PEER, is_gone=False)
    assert both.arena.usage()[1] == 2 * came.nbytes
    both.run_later()


def test_the_pages_of_a_dead_owner_go_but_for_those_that_are_held(both: Both) -> None:
    came = both.send(numbers(1 << 17))
    dropped = both.send(numbers(1 << 18))
    both.arena.end(1)  # the calls have ended, but their arrays are still in use
    unread = both.lend(bytes(1 << 16))
    del dropped
    assert both.bytes_there() >= 3 << 20
    both.borrowed.owner_was_lost(is_gone=True)
    assert both.bytes_there() <= (1 << 20) + (1 << 16) + 8 * PAGE
    np.testing.assert_array_equal(came, numbers(1 << 17))
    assert bytes(borrow(unread, 1 << 16)) == bytes(1 << 16)
    del came
    assert both.bytes_there() <= 8 * PAGE


def test_many_threads_lend_and_borrow_at_once(both: Both) -> None:
    wrong: list[int] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        kept: list[tuple[np.ndarray[Any, Any], float]] = []
        for turn in range(200):
            value = float(seed * 1000 + turn)
            sent = np.full(int(rng.integers(1, 1 << 15)), value)
            block = both.arena.lend(sent.data.cast("B"), PEER, seed << 32 | turn)
            sent[:] = -1
            if block is None:
                wrong.append(-1)
                continue
            if rng.random() < 0.2:
                both.arena.end(seed << 32 | turn)
                continue
            kept.append((np.frombuffer(borrow(block, sent.nbytes)), value))
            if rng.random() < 0.1:
                both.arena.trim()
            while len(kept) > rng.integers(0, 8):
                array, expected = kept.pop(int(rng.integers(len(kept))))
                wrong.extend(set(array[array != expected].tolist()))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert both.lent() == 0


def test_a_borrowed_arena_is_mapped_but_not_there() -> None:
    both = Both()
    assert both.bytes_there() <= PAGE
    assert isinstance(both.borrowed, BorrowedArena)
    close_borrowed(both.arena.id)
    both.arena.close()


def test_the_channel_is_viable_here_and_takes_a_part_of_the_memory() -> None:
    assert why_not_viable() is None
    assert 64 << 20 < arena_size() < os.sysconf("SC_PHYS_PAGES") * PAGE


def test_pages_that_could_not_be_given_back_once_are_given_back_the_next_time(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(12, "not now")

    both.send(numbers(1 << 17))
    both.run_later()
    with monkeypatch.context() as patch:
        patch.setattr(owner, "give_pages_back", refuse)
        with pytest.raises(OSError, match="not now"):
            both.run_later()
    assert [seconds for seconds, _ in both.later] == [owner.TRIM_S]
    for _ in range(3):
        both.run_later()
    assert both.bytes_there() <= PAGE and both.later == []
    # No part of the arena was lost.
    assert both.arena._free.all() == [(TABLE_BYTES, SIZE)]
