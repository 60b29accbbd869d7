"""Fixtures of this folder: an arena within one process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fastdist.distributed.arena.borrower import close_borrowed
from tests.distributed.arena.arena_of_both import Both


@pytest.fixture
def both() -> Iterator[Both]:
    both = Both()
    yield both
    close_borrowed(both.arena.id)
    both.arena.close()
    del both.borrowed  # otherwise pytest's reference to `both` would keep the mapping alive
