"""A hostile peer may write anything into an arena's table, and name any block."""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import pytest

from fastdist.core.errors import MessageError
from fastdist.distributed.arena.borrower import (
    REVOKED,
    BorrowedArena,
    borrow,
    close_borrowed,
    open_borrowed,
)
from fastdist.distributed.arena.layout import (
    ARENA_BLOCK,
    END,
    NUM_SLOTS,
    PAGE,
    ROW_WORDS,
    START,
    TABLE_BYTES,
    TAKEN,
)
from fastdist.distributed.arena.owner import Arena
from tests.distributed.arena.arena_of_both import PEER, SIZE, Both, numbers

MANY = (1 << 64) - 1


class Flipping:
    """A table whose words change at random between reads, as if another processor wrote them."""

    def __init__(self, words: Any, rng: random.Random) -> None:
        self.words, self.rng = words, rng

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, int) and self.rng.random() < 0.4:
            return a_word(self.rng)
        return self.words[index]

    def __setitem__(self, index: int, value: int) -> None:
        self.words[index] = value


def a_word(rng: random.Random) -> int:
    small = rng.randrange(0, 40)
    return rng.choice((small, 2 * small + 1, TABLE_BYTES + PAGE * small, 1 << 63, MANY))


# ---- what a borrower may do to the owner ---------------------------------------------------------


def test_rows_that_nobody_was_lent_may_say_that_they_were_released(both: Both) -> None:
    kept = both.send(numbers())
    for slot in (0, *range(2, 50)):
        for word in (1, 3, MANY):
            both.borrowed._words[slot * ROW_WORDS + TAKEN] = word
            assert both.arena.usage()[0] == 1
        both.borrowed._words[slot * ROW_WORDS + TAKEN] = 0
    np.testing.assert_array_equal(both.send(numbers(100_000)), numbers(100_000))
    np.testing.assert_array_equal(kept, numbers())


def test_a_block_that_is_released_twice_is_free_once(both: Both) -> None:
    kept = both.lend(bytes(1 << 16))
    _, slot, generation, _ = ARENA_BLOCK.unpack(kept)
    word = slot * ROW_WORDS + TAKEN
    for _ in range(3):
        both.borrowed._words[word] = 2 * generation + 1
        assert both.lent() == 0
    assert is_whole(both.arena)
    _, again, later, _ = ARENA_BLOCK.unpack(both.lend(bytes(1 << 16)))
    both.borrowed._words[again * ROW_WORDS + TAKEN] = 2 * generation + 1  # an earlier generation's
    assert both.lent() == 1 and later > generation


def is_whole(arena: Arena) -> bool:
    """Return whether the lent and the free ranges cover the arena exactly once."""
    lent = [(block.start, block.end) for block in arena._blocks.values()]
    at = TABLE_BYTES
    for start, end in sorted([*lent, *arena._free.all()]):
        if start != at or end <= start:
            return False
        at = end
    return at == arena.size


def spoil_owner(seed: int) -> None:
    rng, later = random.Random(seed), list[Any]()
    arena = Arena(SIZE, lambda seconds, what: later.append(what))
    words = arena._words
    if rng.random() < 0.5:
        arena._words = Flipping(words, rng)  # type: ignore[assignment]
    for message_id in range(rng.randrange(1, 25)):
        for _ in range(rng.randrange(4)):
            words[rng.randrange(60) * ROW_WORDS + rng.randrange(4)] = a_word(rng)
        size = rng.choice((1, PAGE, 5 * PAGE, 1 << 20))
        block = arena.lend(bytes(size), PEER, message_id)
        if block is not None:
            _, slot, _, start = ARENA_BLOCK.unpack(block)
            assert 0 < slot < NUM_SLOTS and TABLE_BYTES <= start <= SIZE - size
        what = rng.randrange(6)
        if what == 0:
            arena.end(message_id)
        elif what == 1:
            arena.renew_if_untaken(message_id)
        elif what == 2:
            arena.trim()
        elif what == 3:
            arena.end_all(PEER, is_gone=rng.random() < 0.5)
        elif what == 4:
            arena.lends(rng.randrange(30), rng.randrange(30))
        arena.usage()
        assert is_whole(arena)
    arena._words = words
    arena.close()


def test_an_owner_outlives_whatever_is_written_into_its_table() -> None:
    for seed in range(150):
        spoil_owner(seed)


@pytest.mark.slow
def test_an_owner_outlives_very_much_that_is_written_into_its_table() -> None:
    for seed in range(1_000, 5_000):
        spoil_owner(seed)


# ---- what an owner may do to a borrower ----------------------------------------------------------


def test_a_block_does_not_come_again_as_another_one(both: Both) -> None:
    array = numbers()
    block = both.lend(array.data.cast("B"))
    arena, slot, generation, start = ARENA_BLOCK.unpack(block)
    came = borrow(block, array.nbytes)
    again = borrow(block, array.nbytes)  # a message that arrives twice
    assert address_of(again) == address_of(came)
    for at, size in ((start, array.nbytes + 1), (start, 8), (start + PAGE, array.nbytes)):
        with pytest.raises(MessageError, match="which came as one of"):
            borrow(ARENA_BLOCK.pack(arena, slot, generation, at), size)


def test_a_block_of_another_workers_arena_is_refused(both: Both) -> None:
    mine, other = object(), object()
    close_borrowed(both.arena.id)
    owned = open_borrowed(os.getpid(), both.arena.fd, SIZE, both.arena.id, mine)
    array = numbers()
    block = both.lend(array.data.cast("B"))
    for sender in (other, None):
        with pytest.raises(MessageError, match="which is not the sender's"):
            borrow(block, array.nbytes, sender)
    came = np.ndarray(array.shape, array.dtype, borrow(block, array.nbytes, mine))
    np.testing.assert_array_equal(came, array)
    del owned


def address_of(data: Any) -> int:
    return int(np.frombuffer(data, np.uint8).ctypes.data)


def spoil_borrower(both: Both, seed: int) -> None:
    rng = random.Random(seed)
    table, kept = both.arena._words, list[Any]()
    borrowed: Any = both.borrowed
    words = borrowed._words
    if rng.random() < 0.5:
        borrowed._words = Flipping(words, rng)
    low = address_of(memoryview(borrowed._mapping)[TABLE_BYTES:])
    for _ in range(30):
        slot, generation = rng.randrange(-1, 60), rng.choice((0, 1, 2, 7, 1 << 62, MANY))
        start = rng.choice((0, PAGE, TABLE_BYTES, TABLE_BYTES + 1, SIZE - PAGE, SIZE, MANY))
        size = rng.choice((0, 1, PAGE, 1 << 20, SIZE, 1 << 40))
        if slot > 0 and rng.random() < 0.7:
            for word in range(4):
                table[slot * ROW_WORDS + word] = a_word(rng)
            table[slot * ROW_WORDS] = generation
        block = ARENA_BLOCK.pack(both.arena.id, slot & 0xFFFFFFFF, generation, start)
        try:
            came: Any = borrow(block, size)
        except MessageError:
            continue
        if came is not REVOKED:
            assert len(came) == size
            assert low <= address_of(came) <= low + SIZE - TABLE_BYTES - size
            kept.append(came)
            if rng.random() < 0.5:
                kept.clear()
    kept.clear()
    borrowed._words = words


def test_a_borrower_takes_what_lies_within_or_nothing(both: Both) -> None:
    for seed in range(200):
        spoil_borrower(both, seed)


@pytest.mark.slow
def test_a_borrower_takes_what_lies_within_or_nothing_very_often(both: Both) -> None:
    for seed in range(1_000, 51_000):
        spoil_borrower(both, seed)


def test_a_dead_owner_whose_table_is_rubbish_takes_nothing_from_who_holds_a_block(
    both: Both,
) -> None:
    rng, array = random.Random(7), numbers()
    kept = both.send(array)
    _, slot, *_ = ARENA_BLOCK.unpack(both.lend(bytes(PAGE)))
    for row in range(2, 40):
        if row != slot:
            both.arena._words[row * ROW_WORDS] = 9
            for word, value in ((START, rng.randrange(SIZE)), (END, rng.getrandbits(64))):
                both.arena._words[row * ROW_WORDS + word] = value
    arena: BorrowedArena = both.borrowed
    arena.owner_was_lost(is_gone=True)
    np.testing.assert_array_equal(kept, array)
