"""Checksums that are computed with and without a separate thread."""

from __future__ import annotations

import zlib

import pytest

from fastdist.serialization.checksum import Checksum


@pytest.mark.parametrize("size", [0, 10, 3 << 20, 33 << 20])
def test_the_sum_is_that_of_all_pieces_in_order(size: int) -> None:
    data = bytes(range(251)) * (size // 251 + 1)
    data = data[:size]
    with Checksum(size) as sum_up:
        for start in range(0, size, 1 << 20):
            sum_up.add(data[start : start + (1 << 20)])
    assert sum_up.value == zlib.crc32(data)


def test_an_error_in_the_block_ends_the_thread() -> None:
    def fail() -> None:
        with Checksum(1 << 26) as sum_up:
            sum_up.add(bytes(1 << 20))
            raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        fail()
