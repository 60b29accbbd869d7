"""Philox-4x32-10, and the random numbers that are made from its words."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

from fastdist.random_numbers import philox

F4, F8 = np.dtype("float32"), np.dtype("float64")


# (counter, key, words): known answers that Salmon et al. publish with Random123.
@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ([0] * 4, (0, 0), [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        (
            [0xFFFFFFFF] * 4,
            (0xFFFFFFFF, 0xFFFFFFFF),
            [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD],
        ),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            (0xA4093822, 0x299F31D0),
            [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
        ),
    ],
)
def test_philox_gives_the_published_words(
    counter: list[int], key: tuple[int, int], words: list[int]
) -> None:
    got = philox.philox(np.array(counter, np.uint64)[:, None], key)
    assert got[:, 0].tolist() == words


def test_words_are_those_of_counter_and_seed() -> None:
    seed, first = (0x299F31D0 << 32) | 0xA4093822, (0x85A308D3 << 32) | 0x243F6A88
    counter = np.array([[0x243F6A88], [0x85A308D3], [7], [0]], np.uint64)
    expected = philox.philox(counter, (0xA4093822, 0x299F31D0))[:, 0]
    assert philox.words_at(seed, first, np.array([0]), 7)[:, 0].tolist() == expected.tolist()


@pytest.mark.parametrize("draw", [philox.uniform, philox.normal])
@pytest.mark.parametrize("dtype", [np.dtype("float16"), F4, F8])
def test_element_depends_on_its_place_alone(draw: object, dtype: np.dtype[np.generic]) -> None:
    # The whole has more than one chunk, and the part begins inside a chunk.
    whole = draw(5, 100, 70_000, dtype)  # type: ignore[operator]
    per_block = philox.WORDS // philox.words_each(dtype)
    part = draw(5, 100 + 9_000, 1_001, dtype)  # type: ignore[operator]
    assert np.array_equal(part, whole[9_000 * per_block :][:1_001])
    assert np.array_equal(draw(5, 100, 3, dtype), whole[:3])  # type: ignore[operator]


def test_few_integers_are_those_of_many_wherever_they_begin() -> None:
    low, high = -3, 1 << 62  # about every second word is rejected and drawn again
    whole = philox.integers(5, 100, 30_000, low, high)
    assert not np.array_equal(whole, philox.integers(6, 100, 30_000, low, high))
    blocks = [*range(0, 12_000, 37), 5, 14_900, 3, 3]  # in order, backwards, and repeated
    for block in blocks:
        few = philox.integers(5, 100 + block, 65, low, high)
        assert np.array_equal(few, whole[2 * block :][:65])
        few[:] = 0  # must not change later results
    assert (
        philox.integers(5, 100, 64, 0, 10).tolist()
        == philox.integers(5, 100, 999, 0, 10)[:64].tolist()
    )
    for high in range(1, 200):  # more ranges than the cache keeps
        assert philox.integers(5, 0, 3, 0, high).max() < high


def test_stream_begins_anew_after_its_last_block() -> None:
    around = philox.words32(3, (1 << 64) - 1, 8)
    assert around[4:].tolist() == philox.words32(3, 0, 4).tolist()


@pytest.mark.parametrize(("dtype", "bits"), [(np.dtype("float16"), 11), (F4, 24), (F8, 53)])
def test_uniform_numbers_lie_on_a_grid_below_one(dtype: np.dtype[np.generic], bits: int) -> None:
    values = philox.uniform(1, 0, 100_000, dtype)
    assert values.dtype == dtype and values.min() >= 0 and values.max() < 1
    scaled = values.astype(F8) * 2.0**bits
    assert np.array_equal(scaled, np.floor(scaled))
    assert abs(values.astype(F8).mean() - 0.5) < 0.005


@pytest.mark.parametrize("dtype", [F4, F8])
def test_normal_numbers_have_the_moments_of_theirs(dtype: np.dtype[np.generic]) -> None:
    values = philox.normal(1, 0, 200_001, dtype).astype(F8)
    moments = [float((values**power).mean()) for power in (1, 2, 3, 4)]
    assert np.allclose(moments, [0, 1, 0, 3], atol=0.05)
    assert abs(np.corrcoef(values[:-1], values[1:])[0, 1]) < 0.01


def test_normal_number_of_the_smallest_word_is_finite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(philox, "words32", lambda *_: np.zeros(2, np.uint32))
    assert np.isfinite(philox.normal(0, 0, 2, F4)).all()


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-3, 4), (0, 10), (5, 261)])
def test_integers_are_equally_likely(low: int, high: int) -> None:
    values = philox.integers(2, 0, 100_000, low, high)
    counts = np.bincount(values - low, minlength=high - low)
    expected = 100_000 / (high - low)
    assert len(counts) == high - low and values.dtype == np.int64
    assert ((counts - expected) ** 2 / expected).sum() < 2 * (high - low) + 20


def test_integers_of_a_wide_span_have_no_bias_towards_small_ones() -> None:
    # The span is 3/4 of all words: a plain remainder would give the lowest third twice as often.
    low, high = -(1 << 63), (1 << 62)
    values = philox.integers(4, 0, 30_000, low, high)
    third = (high - low) // 3
    assert abs((values < low + third).mean() - 1 / 3) < 0.02
    assert values.min() >= low and values.max() < high


def test_integer_that_was_drawn_again_moves_no_other() -> None:
    low, high = -(1 << 63), 1
    whole = philox.integers(4, 0, 1000, low, high)
    assert np.array_equal(philox.integers(4, 100, 600, low, high), whole[200:800])


def test_integers_may_span_all_of_int64() -> None:
    values = philox.integers(4, 0, 1000, -(1 << 63), 1 << 63)
    assert (values < 0).mean() == pytest.approx(0.5, abs=0.06)


def test_permutation_holds_each_number_once() -> None:
    order = philox.permutation(1, 0, 1000)
    assert sorted(order.tolist()) == list(range(1000)) and order.tolist() != list(range(1000))
    assert philox.permutation(1, 0, 0).tolist() == []


def test_uniform_numbers_of_seed_0_are_the_published_words_scaled() -> None:
    words = [0xE169C58D6627E8D5, 0x9B00DBD8BC57AC4C]
    assert philox.uniform(0, 0, 2, F8).tolist() == [(word >> 11) * 2.0**-53 for word in words]
    assert philox.uniform(0, 0, 1, F4).tolist() == [(0x6627E8D5 >> 8) * 2.0**-24]


def numbers_of(
    monkeypatch: pytest.MonkeyPatch, compiled: object, count: int
) -> list[np.ndarray[Any, Any]]:
    monkeypatch.setattr(philox.Compiled, "find", staticmethod(lambda words: compiled))
    # In this part the counter grows beyond 32 bits.
    part = (1 << 63) + 12345, (1 << 32) - 100
    return [
        philox.words32(*part, count),
        philox.words_at(*part, np.array([5, 0, 7_000_000_000]), 2),
        philox.integers(*part, count, -5, 10**18),
        philox.uniform(*part, count, np.dtype("float32")),
        philox.uniform(*part, count, np.dtype("float64")),
        philox.normal(*part, count, np.dtype("float64")),
        philox.normal(*part, count, np.dtype("float32")),
    ]


@pytest.mark.parametrize("count", [1, 1001, philox.LARGE + 1])
def test_compiled_numbers_are_the_same(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    compiled = importlib.import_module("fastdist.kernels.cpu.create.philox")
    *exact, normal = numbers_of(monkeypatch, compiled, count)
    *expected, rounded = numbers_of(monkeypatch, None, count)
    for one, other in zip(exact, expected, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    # Logarithms that differ in the last bit of float64 rarely round to different float32 numbers.
    np.testing.assert_allclose(normal, rounded, rtol=2e-7)
    assert np.count_nonzero(normal != rounded) <= 3


def test_small_draws_that_follow_each_other_are_those_of_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(philox.Compiled, "find", staticmethod(lambda words: None))
    each = [philox.words32(7, first, 400) for first in range(0, 5000, 100)]
    monkeypatch.setattr(philox, "_MOST_AHEAD", 0)
    np.testing.assert_array_equal(np.concatenate(each), philox.words32(7, 0, 20000))
