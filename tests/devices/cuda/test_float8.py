"""Float8 tensors on cuda (here the CPU shim) are stored, moved and rounded as on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import fastdist as fd
from fastdist.devices.cuda import CudaBackend
from tests.fibre_shim.installed import cuda_on_fibres

NAMES = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"]
RNG = np.random.default_rng(0)
NEAR = RNG.standard_normal(5000) * 10.0 ** RNG.uniform(-9, 6, 5000)
# Ties, limits, and values beyond the limits. NUMBERS also has random bit patterns and values.
SPECIAL = [
    0.0,
    -0.0,
    np.inf,
    -np.inf,
    np.nan,
    448,
    464,
    464.01,
    480,
    1e30,
    2.0**-10,
    2.0**-149,
    1.5,
]
NUMBERS = np.concatenate(
    [
        RNG.integers(0, 2**32, 5000, dtype=np.uint32).view(np.float32),
        np.array([*NEAR, *SPECIAL], np.float32),
    ]
)


@pytest.fixture(autouse=True)
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[CudaBackend]:
    yield from cuda_on_fibres(monkeypatch)


def codes(tensor: Any) -> np.ndarray[Any, Any]:
    found: np.ndarray[Any, Any] = tensor.cpu().view(fd.uint8).numpy()
    return found


@pytest.mark.parametrize("name", NAMES)
def test_numbers_are_rounded_as_on_the_cpu(name: str) -> None:
    dtype = getattr(fd, name)
    x = fd.from_numpy(NUMBERS.copy())
    np.testing.assert_array_equal(codes(x.cuda().to(dtype)), codes(x.to(dtype)))
    for source in (fd.float64, fd.float16, fd.int64, fd.bool):
        given = fd.tensor([1, 3, 0, 17, 300]).to(source)
        np.testing.assert_array_equal(codes(given.cuda().to(dtype)), codes(given.to(dtype)))


@pytest.mark.parametrize("name", NAMES)
def test_every_code_is_read_as_on_the_cpu(name: str) -> None:
    x = fd.arange(256, dtype=fd.uint8).view(getattr(fd, name))
    assert codes(x.cuda()).tolist() == [*range(256)]
    for to in (fd.float32, fd.bfloat16):
        found, expected = x.cuda().to(to).cpu().float().numpy(), x.to(to).float().numpy()
        np.testing.assert_array_equal(found, expected)
    for other in NAMES:
        to = getattr(fd, other)
        np.testing.assert_array_equal(codes(x.cuda().to(to)), codes(x.to(to)))


def written(x: Any, index: Any, value: Any) -> Any:
    x = x.clone()
    x[index] = value
    return x


def places(x: Any) -> Any:
    return fd.tensor([1, 0], device=x.device)


MOVES: dict[str, Callable[[Any], Any]] = {
    "clone": lambda x: x.clone(),
    "turned": lambda x: x.t().contiguous(),
    "cat": lambda x: fd.cat([x, x]),
    "part": lambda x: x[:, ::2].clone(),
    "index": lambda x: x[places(x)],
    "mask": lambda x: x[x == 1],
    "gather": lambda x: x.gather(0, places(x).view(2, 1)),
    "scatter": lambda x: x.clone().scatter_(0, places(x).view(2, 1), x),
    "index_select": lambda x: x.index_select(1, places(x)),
    "take": lambda x: x.take(places(x)),
    "flip": lambda x: x.flip(0),
    "roll": lambda x: x.roll(1),
    "tril": lambda x: x.tril(),
    "pad": lambda x: fd.nn.functional.pad(x, (1, 1)),
    "full": lambda x: fd.full((2,), 1.5, dtype=x.dtype, device=x.device),
    "zeros_like": fd.zeros_like,
    "setitem": lambda x: written(x, 0, 1.0),
    "set by index": lambda x: written(x, places(x), x),
    "copy_": lambda x: fd.empty_like(x).copy_(fd.ones(2, 3)),
    "product": lambda x: x * x,
    "where": lambda x: fd.where(x == 1, x, x * x),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("move", MOVES)
def test_elements_are_moved_as_on_the_cpu(move: str) -> None:
    x = fd.tensor([[1.0, 2.0, 3.0], [4.0, -1.0, 0.5]], dtype=fd.float8_e5m2)
    found, expected = MOVES[move](x.cuda()), MOVES[move](x)
    assert (found.dtype, found.device.type) == (expected.dtype, "cuda")
    assert found.cpu().tolist() == expected.tolist()


def test_what_no_kernel_computes_is_refused_in_words() -> None:
    x = fd.ones(2, dtype=fd.float8_e5m2, device="cuda")
    with pytest.raises(NotImplementedError, match="adds elements of float8_e5m2 at places: cast"):
        x.index_put_((places(x),), x, accumulate=True)
    with pytest.raises(NotImplementedError, match="not implemented for 'Float8_e5m2'"):
        _ = x + x
    has_it = hasattr(ml_dtypes, "complex32")
    why = "no CUDA kernel loads or stores complex32" if has_it else "complex32 needs ml_dtypes 0.6"
    with pytest.raises(RuntimeError, match=why):
        fd.ones(2, dtype=fd.complex32).cuda()
