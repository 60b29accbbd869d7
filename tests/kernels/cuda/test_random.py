"""Random numbers on cuda equal the CPU's bit for bit; normal ones up to rounding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.core.dtypes import bfloat16
from fastdist.kernels.cuda.create.random import plan_draw
from fastdist.random_numbers import philox
from tests.fibre_shim.driver import SEEDS, run
from tests.fibre_shim.installed import cuda_on_fibres

# Sizes near those of a block, of a thread's work and of a grid; seeds and offsets beyond 32 and 63
# bits.
COUNTS = [0, 1, 2, 3, 4, 5, 7, 1023, 1025, 5000]
STREAMS = [(0, 0), (12345, 7), ((1 << 64) - 3, (1 << 32) - 2), (1 << 63, (1 << 64) - 2)]


def drawn(name: str, shape: Any, dtype: Any, *part: int, **how: bool) -> np.ndarray:
    found = []
    for order in SEEDS:
        out = np.zeros(shape, dtype)
        run(plan_draw(name, out, *part, **how), order)
        found.append(out)
    assert all(one.tobytes() == found[0].tobytes() for one in found)
    return found[0]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_uniform_numbers_are_the_same_bits(count: int, dtype: str) -> None:
    for part in STREAMS:
        expected = philox.uniform(*part, count, np.dtype(dtype))
        assert drawn("uniform", count, dtype, *part).tobytes() == expected.tobytes()


@pytest.mark.one_in(4)
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_numbers_between_0_and_1_are_the_same_bits(count: int, dtype: str) -> None:
    for part in STREAMS:
        expected = philox.open_uniform(*part, count, np.dtype(dtype))
        wide = dtype == "float64"
        found = drawn("open_uniform", count, "float64", *part, is_long=wide)
        assert found.tobytes() == expected.tobytes()


@pytest.mark.one_in(4)
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_normal_numbers_are_the_same_but_for_roundings(count: int, dtype: str) -> None:
    for part in STREAMS:
        expected = philox.normal(*part, count, np.dtype(dtype))
        step = np.finfo(dtype).eps
        found = drawn("normal", count, dtype, *part)
        np.testing.assert_allclose(found, expected, rtol=2 * step, atol=4 * step)


@pytest.mark.parametrize(
    ("low", "high"),
    [(0, 1), (-5, 6), (0, 10**9), (-(1 << 63), 1 << 63), (-7, (1 << 63) - 1), (0, (1 << 62) + 1)],
)
def test_integers_are_the_same_also_where_words_are_drawn_again(low: int, high: int) -> None:
    for part in STREAMS:
        expected = philox.integers(*part, 999, low, high)
        assert drawn("integers", 999, "int64", *part, low, high).tobytes() == expected.tobytes()


def test_out_may_have_gaps() -> None:
    memory = np.full((6, 10), 7.0)
    run(plan_draw("uniform", memory[::2, 1::3], 1, 2), 0)
    expected = philox.uniform(1, 2, 9, np.dtype("float64")).reshape(3, 3)
    assert (memory[::2, 1::3] == expected).all() and (memory[1::2] == 7).all()


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    yield from cuda_on_fibres(monkeypatch)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", [fd.float32, fd.float64, fd.float16, fd.bfloat16])
def test_what_is_made_on_a_device_is_what_the_cpu_makes(
    cuda: Any, monkeypatch: pytest.MonkeyPatch, dtype: Any
) -> None:
    def made(device: str) -> list[Any]:
        fd.manual_seed(5)
        like = fd.empty(3, 4, dtype=dtype, device=device).t()
        found = [fd.rand(3, 5, dtype=dtype, device=device), fd.rand_like(like)]
        found += [fd.randint(-3, 9, (4, 3), device=device), fd.randint_like(like, 2, 5)]
        found += [fd.randn(7, dtype=dtype, device=device), fd.randn_like(like)]
        found += [fd.empty_like(like).uniform_(-2, 3), fd.empty_like(like).normal_(1, 2)]
        found += [fd.empty_like(like).random_(0, 50), fd.full_like(like, 2.5), fd.ones_like(like)]
        found += [fd.zeros(2, 3, dtype=dtype, device=device), fd.full((2,), 7, device=device)]
        found += [fd.ones((), dtype=fd.bool, device=device)]
        found += [fd.nn.functional.dropout(fd.ones(40, dtype=dtype, device=device), 0.3)]
        return found

    expected = made("cpu")
    # Without from_numpy, no data can be copied from the host.
    with monkeypatch.context() as patch:
        patch.setattr(type(cuda), "from_numpy", None)
        found = made("cuda")
    for one, other in zip(found, expected, strict=True):
        assert (one.dtype, one.shape, one.stride()) == (other.dtype, other.shape, other.stride())
        tolerance = 3e-2 if dtype is fd.bfloat16 else 4e-3 if dtype is fd.float16 else 1e-6
        np.testing.assert_allclose(
            one.cpu().to(fd.float64).numpy(),
            other.to(fd.float64).numpy(),
            rtol=tolerance,
            atol=1e-6,
        )


def test_half_numbers_are_below_1_and_of_the_bits_that_they_have() -> None:
    for dtype in (np.dtype("float16"), bfloat16.numpy):
        expected = philox.uniform(3, 4, 20_000, dtype)
        assert drawn("uniform", 20_000, dtype, 3, 4).tobytes() == expected.tobytes()
        assert expected.max() < 1 and abs(float(expected.astype("float64").mean()) - 0.5) < 0.01
    fd.manual_seed(1)
    assert fd.bernoulli(fd.ones(20_000, dtype=fd.bfloat16)).all()
    kept = fd.nn.functional.dropout(fd.ones(200_000, dtype=fd.bfloat16), 0.001).float() > 0
    assert 0.0005 < 1 - kept.float().mean().item() < 0.0015
