"""Every case for complex numbers gives the same results on cuda (the CPU shim) as on the CPU.

Pointwise rows are among the cases. Values, gradients and errors are compared. A run without `slow`
tests each case in one of the two complex dtypes, and `slow` tests both.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import fastdist as fd
from fastdist.devices.cuda import CudaBackend
from tests.fibre_shim.installed import cuda_on_fibres
from tests.ops.dtype_samples import COMPLEX, REFUSALS, samples
from tests.ops.test_table_dtypes import COTANGENT, TORCH, WIDER, call_of, op_of
from tests.properties import in_one_test_each

pytestmark = pytest.mark.filterwarnings("ignore")
SAMPLES = samples()
TOLERANCES = {"complex64": 2e-4, "complex128": 1e-9}


def is_taken(name: str) -> bool:
    """Return whether the CPU supports a case in complex numbers, even where PyTorch does not."""
    taken = TORCH[name]["dtypes"].get("complex64") if name in TORCH else None
    return taken is not None or "complex64" in WIDER.get(op_of(name), ())


TAKEN = [name for name in SAMPLES if is_taken(name)]


def in_turns(begin: int) -> dict[str, dict[str, tuple[str, str]]]:
    """Return the samples of each op; the dtypes alternate, and `begin` chooses the first one."""
    found: dict[str, dict[str, tuple[str, str]]] = {}
    for place, name in enumerate(TAKEN):
        dtype = COMPLEX[(begin + place) % 2]
        found.setdefault(op_of(name), {})[f"{name} {dtype}"] = name, dtype
    return found


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[CudaBackend]:
    yield from cuda_on_fibres(monkeypatch)


def value_and_gradients(name: str, dtype: str, device: str) -> list[np.ndarray]:
    sample = SAMPLES[name]
    given = [
        fd.tensor(array, dtype=getattr(fd, dtype), device=device).requires_grad_(
            sample.is_differentiable
        )
        if real.dtype.kind == "f"
        else fd.tensor(array, device=device)
        for real, array in zip(sample.inputs, sample.arrays(dtype), strict=True)
    ]
    result = call_of(name)(*given)
    found = [result.detach()]
    if result.requires_grad:
        cotangent = fd.full_like(found[0], COTANGENT if result.dtype.is_complex else 1.0)
        leaves = [one for one in given if one.requires_grad]
        made = fd.autograd.grad(result, leaves, cotangent, allow_unused=True)
        found += [one for one in made if one is not None]
    assert op_of(name) == "cpu" or {str(one.device) for one in found} == {device}
    return [tensor.cpu().resolve_conj().numpy().copy() for tensor in found]


@pytest.mark.one_in(5)
@in_one_test_each("op", "name, dtype", in_turns(0))
def test_cuda_computes_what_the_cpu_does(cuda: CudaBackend, name: str, dtype: str) -> None:
    check(name, dtype)


@pytest.mark.slow
@in_one_test_each("op", "name, dtype", in_turns(1))
def test_cuda_computes_it_in_the_other_dtype(cuda: CudaBackend, name: str, dtype: str) -> None:
    check(name, dtype)


def check(name: str, dtype: str) -> None:
    """Compare the result on cuda, or the error, with that on the CPU."""
    try:
        expected = value_and_gradients(name, dtype, "cpu")
    except REFUSALS as error:
        with pytest.raises(type(error)):
            value_and_gradients(name, dtype, "cuda:0")
        return
    found, tolerance = value_and_gradients(name, dtype, "cuda:0"), TOLERANCES[dtype]
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == theirs.dtype
        size = np.abs(theirs[np.isfinite(theirs)]).max(initial=1.0)
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance * size)


def test_nearly_all_cases_that_take_complex_numbers_run_here() -> None:
    assert len(TAKEN) > 300
