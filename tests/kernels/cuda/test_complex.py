"""CUDA kernels for complex numbers, run on the CPU shim, against the CPU kernels."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.autograd import gradcheck
from fastdist.core.determinism import determinism
from fastdist.devices.cuda import CudaBackend
from tests.fibre_shim import cupy
from tests.fibre_shim.installed import cuda_on_fibres

DTYPES = [fd.complex64, fd.complex128]
TOLERANCE = {fd.complex64: 2e-6, fd.complex128: 1e-13}
PARTS = [0.0, -0.0, 1.5, -2.0, float("inf"), -float("inf"), float("nan")]


@pytest.fixture(autouse=True)
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[CudaBackend]:
    yield from cuda_on_fibres(monkeypatch)


def drawn(*shape: int, dtype: fd.dtype = fd.complex128) -> fd.Tensor:
    random = np.random.default_rng(shape)
    parts = random.standard_normal(shape) + 1j * random.standard_normal(shape)
    return fd.tensor(parts, dtype=dtype)


def require_same(found: fd.Tensor, expected: fd.Tensor, tolerance: float = 0.0) -> None:
    assert str(found.device) == "cuda:0" and found.dtype is expected.dtype
    one, other = found.cpu().resolve_conj().numpy(), expected.numpy()
    np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "beside numbers": lambda x: (3 - 1j) * x + x / 2j - 1j + 2.5 * x,
    "beside real numbers": lambda x: x.real * x + x / (x.imag + 3.0),
    "equal": lambda x: (x == x.flip(0)) | (x != x.roll(1, 1)),
    "parts": lambda x: x.real + x.T.imag.T,
    "size and angle": lambda x: fd.polar(x.abs(), x.angle()) + x.sgn(),
    "transposed": lambda x: x.mT.conj().contiguous() * 2,
    "rows cut short": lambda x: x[:, 1:7:2] + x[:, :1],
    "sum": lambda x: x.sum(0) + x.mean() + x.sum(),
    "product": lambda x: (x / x.abs()).prod(1),
    "of deviations": lambda x: x.var(1) + x.std() + x.norm() + fd.linalg.vector_norm(x, 3, 0).sum(),
    "held and counted": lambda x: x.tril().count_nonzero(1) + x.any(1) + x.tril().all(1),
    "running": lambda x: x.cumsum(0) * (x / x.abs()).cumprod(1),
    "matrices": lambda x: x @ x.mH + fd.einsum("ij,kj->ik", x, x.conj()),
    "joined": lambda x: fd.stack([fd.cat([x, x.flip(1)]), fd.cat([x.triu(), x.roll(2, 0)])]),
    "chosen": lambda x: fd.where(x.real > 0, x, 1j).masked_fill(x.imag > 1, -2j),
    "at places": lambda x: x[[2, 0, 2]] + x.index_select(0, fd.tensor([1, 1, 3]).to(x.device)),
    "powers": lambda x: x**3 + x**-2 + x**0.5 + x**1.5 + x**x,
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_device_computes_complex_numbers_as_the_cpu_does(name: str, dtype: fd.dtype) -> None:
    x = drawn(5, 8, dtype=dtype)
    require_same(PROGRAMS[name](x.to("cuda")), PROGRAMS[name](x), 10 * TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_products_and_quotients_have_inf_and_nan_in_the_parts_that_they_have_on_the_cpu(
    dtype: fd.dtype,
) -> None:
    x = fd.tensor([complex(re, im) for re in PARTS for im in PARTS], dtype=dtype)
    y = x[:, None]
    for program in (lambda x, y: x * y, lambda x, y: x / y, lambda x, y: x.reciprocal() - y):
        with np.errstate(all="ignore"):
            found, expected = program(x.to("cuda"), y.to("cuda")), program(x, y)
        found, expected = found.cpu().numpy(), expected.numpy()
        for one, other in ((found.real, expected.real), (found.imag, expected.imag)):
            np.testing.assert_allclose(one, other, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_becomes_complex_and_comes_back(dtype: fd.dtype) -> None:
    names = "bool int64 float16 bfloat16 float64 complex64 complex128".split()  # noqa: SIM905
    if dtype is fd.complex64:
        names += "uint8 int8 int16 int32 uint16 uint32 uint64 float32".split()  # noqa: SIM905
    others = [getattr(fd, name) for name in names]
    x = fd.tensor([0, 1, 2j, 3 + 4j, 100 - 1j], dtype=dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for other in others:
            there = x.to("cuda").to(other)
            back, expected = there.to(dtype), x.to(other)
            assert there.dtype is other and there.tolist() == expected.tolist(), other
            assert back.tolist() == expected.to(dtype).tolist(), other


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_long_sums_products_and_scans_are_cut_into_chunks_that_join(dtype: fd.dtype) -> None:
    x = drawn(20_000, dtype=dtype)
    x = (x / x.abs()).detach()
    there, tolerance = x.to("cuda"), 500 * TOLERANCE[dtype]
    for program in (fd.sum, fd.prod, fd.mean, lambda x: x.cumsum(0), lambda x: x.cumprod(0)):
        require_same(program(there), program(x), tolerance)
    grads = []
    for given in (x.clone(), there.clone()):
        given.requires_grad_()
        given.cumprod(0).sum().real.backward()
        assert given.grad is not None
        grads.append(given.grad)
    np.testing.assert_allclose(grads[1].cpu().numpy(), grads[0].numpy(), rtol=1e-3, atol=1e-1)


@pytest.mark.parametrize("waived", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_additions_at_one_place_join(
    dtype: fd.dtype, *, waived: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(determinism, "is_waived", waived)
    x, places = drawn(1500, 2, dtype=dtype), fd.arange(1500) % 3 * (fd.arange(1500) > 900)
    found = []
    for device in ("cpu", "cuda"):
        out = fd.ones(4, 2, dtype=dtype, device=device)
        out.index_add_(0, places.to(device), x.to(device), alpha=2)
        found.append(out)
    require_same(found[1], found[0], 100 * TOLERANCE[dtype])
    rows = [drawn(4, 2, dtype=dtype).to(device).requires_grad_() for device in ("cpu", "cuda")]
    for row, device in zip(rows, ("cpu", "cuda"), strict=True):
        (row[places.to(device)] * x.to(device)).sum().real.backward()
    require_same(rows[1].grad, rows[0].grad, 100 * TOLERANCE[dtype])  # type: ignore[arg-type]


def test_gradients_are_those_of_differences() -> None:
    def program(x: fd.Tensor, y: fd.Tensor) -> fd.Tensor:
        return ((x @ y).exp() / (x.sum() + 3j)).abs() * y.cumprod(0).conj().real

    given = [drawn(2, 2).to("cuda").requires_grad_(), drawn(2, 2).to("cuda").requires_grad_()]
    assert gradcheck(program, given, check_forward_ad=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_numbers_are_made_and_drawn_there_as_on_the_cpu(dtype: fd.dtype) -> None:
    for make in (
        lambda device: fd.zeros(3, dtype=dtype, device=device),
        lambda device: fd.ones(3, dtype=dtype, device=device),
        lambda device: fd.full((3,), 2 - 1j, dtype=dtype, device=device),
        lambda device: fd.eye(3, dtype=dtype, device=device),
        lambda device: fd.linspace(1j, 2, 5, dtype=dtype, device=device),
    ):
        require_same(make("cuda"), make("cpu"), TOLERANCE[dtype])
    for draw in (fd.randn, fd.rand):
        here, there = fd.Generator().manual_seed(5), fd.Generator("cuda").manual_seed(5)
        found = draw(3, 5, dtype=dtype, device="cuda", generator=there)
        require_same(found, draw(3, 5, dtype=dtype, generator=here), TOLERANCE[dtype])
    assert fd.randn_like(found).dtype is dtype


def test_parts_are_views_there_too_whatever_the_strides() -> None:
    x = drawn(2, 3).to("cuda")
    x.T.real[0] = fd.zeros(2, device="cuda", dtype=fd.float64)
    x[:, 1].imag += 5
    fd.view_as_real(x.T)[2, 0, 1] = -7.0
    x.real[:, 2:] = 1.0
    expected = drawn(2, 3).numpy()
    expected.T.real[0], expected.imag[:, 1] = 0, expected.imag[:, 1] + 5
    expected[0, 2] = complex(0, -7)
    expected.real[:, 2] = 1
    np.testing.assert_array_equal(x.cpu().numpy(), expected)
    pairs = fd.zeros(4, 2, device="cuda")
    fd.view_as_complex(pairs[::2])[1] = 5 + 6j
    assert pairs.tolist() == [[0, 0], [0, 0], [5, 6], [0, 0]]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_other_libraries_see_complex_memory(dtype: fd.dtype) -> None:
    x = drawn(2, 3, dtype=dtype).to("cuda")
    told = x.__cuda_array_interface__
    assert told["typestr"] == {fd.complex64: "<c8", fd.complex128: "<c16"}[dtype]
    theirs = cupy.asarray(x)
    theirs[0] = cupy.array(np.zeros(3, dtype.numpy))
    assert x[0].tolist() == [0, 0, 0]
    assert fd.from_dlpack(theirs).dtype is dtype
    assert fd.as_tensor(theirs).tolist() == x.tolist()
    file = io.BytesIO()
    fd.save(x, file)
    file.seek(0)
    assert fd.load(file).tolist() == x.tolist()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad"])
def test_optimisers_step_complex_parameters_there(name: str) -> None:
    found = []
    for device in ("cpu", "cuda"):
        x = [drawn(n, 3, dtype=fd.complex64).to(device).requires_grad_() for n in (1, 4)]
        optimiser = getattr(fd.optim, name)(x, lr=0.1, foreach=True)
        for _ in range(3):
            optimiser.zero_grad()
            fd.stack([(one * (2 - 1j)).abs().square().sum() for one in x]).sum().backward()
            optimiser.step()
        found.append(x)
    for there, here in zip(found[1], found[0], strict=True):
        require_same(there.detach(), here.detach(), 1e-5)
