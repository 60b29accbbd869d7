"""Casts from and to float8 types, compared with ml_dtypes and PyTorch's additional rules."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import fastdist as fd

NAMES = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"]
RNG = np.random.default_rng(0)
NUMBERS = (RNG.standard_normal(5000) * 10.0 ** RNG.uniform(-9, 7, 5000)).astype(np.float32)
# Numbers that ml_dtypes rounds in another way (inf, NaN, too large, 0, negative); then their codes.
SPECIAL = [np.inf, -np.inf, np.nan, 1e30, 464.01, 0.0, -0.0, -3.0]
CODES = {
    "float8_e4m3fn": [0x7E, 0xFE, 0x7F, 0x7E, 0x7E, 0x00, 0x80, 0xC4],
    "float8_e5m2": [0x7C, 0xFC, 0x7F, 0x7C, 0x5F, 0x00, 0x80, 0xC2],
    "float8_e4m3fnuz": [0x80, 0x80, 0x80, 0x80, 0x80, 0x00, 0x00, 0xCC],
    "float8_e5m2fnuz": [0x80, 0x80, 0x80, 0x80, 0x63, 0x00, 0x00, 0xC6],
    "float8_e8m0fnu": [0xFF, 0xFF, 0xFF, 0xE3, 0x88, 0x00, 0x00, 0x81],
}


@pytest.mark.parametrize("name", NAMES)
def test_all_codes_widen_to_the_numbers_of_ml_dtypes(name: str) -> None:
    codes = np.arange(256, dtype=np.uint8)
    found = fd.from_numpy(codes.copy()).view(getattr(fd, name)).float().numpy()
    np.testing.assert_array_equal(found, codes.view(getattr(ml_dtypes, name)).astype(np.float32))


@pytest.mark.parametrize("name", NAMES)
def test_ordinary_numbers_round_as_in_ml_dtypes(name: str) -> None:
    dtype = getattr(fd, name)
    limits = fd.finfo(dtype)
    sizes = np.abs(NUMBERS) if name == "float8_e8m0fnu" else NUMBERS
    given = sizes[np.abs(sizes) <= limits.max]
    found = fd.from_numpy(given.copy()).to(dtype).view(fd.uint8).numpy()
    expected = given.astype(getattr(ml_dtypes, name)).view(np.uint8)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("source", ["float32", "float64"])
def test_special_numbers_have_pytorchs_codes(name: str, source: str) -> None:
    x = fd.tensor(SPECIAL, dtype=getattr(fd, source))
    assert x.to(getattr(fd, name)).view(fd.uint8).tolist() == CODES[name]
    made = fd.tensor(SPECIAL, dtype=getattr(fd, name))
    assert made.view(fd.uint8).tolist() == CODES[name]


@pytest.mark.parametrize("name", NAMES)
def test_a_float64_is_rounded_by_way_of_float32(name: str) -> None:
    dtype, tie = getattr(fd, name), 1 + fd.finfo(getattr(fd, name)).eps / 2
    x = fd.tensor([tie + 1e-12], dtype=fd.float64)
    assert x.to(dtype).view(fd.uint8).tolist() == x.float().to(dtype).view(fd.uint8).tolist()


def test_integers_halves_and_strided_tensors_are_cast() -> None:
    x = fd.tensor([[1, -2, 3], [4, 5, 1000]])
    for dtype in (fd.int64, fd.int16, fd.float16, fd.bfloat16, fd.float64):
        found = x.to(dtype).t().to(fd.float8_e4m3fn)
        assert found.tolist() == [[1.0, 4.0], [-2.0, 5.0], [3.0, 448.0]]
        back = found.to(dtype)
        assert back.dtype is dtype and back[1, 0].item() == -2


def test_moves_of_powers_of_two_fill_with_their_least_number() -> None:
    x = fd.ones(2, 2, dtype=fd.float8_e8m0fnu)
    assert x.diag_embed().view(fd.uint8)[0].tolist() == [[127, 0], [0, 127]]
    assert x.zero_().view(fd.uint8).tolist() == [[0, 0], [0, 0]]
