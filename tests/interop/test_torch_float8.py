"""Float8 tensors against PyTorch's: casts, finfo, files."""

from __future__ import annotations

import io
import sys
from typing import Any

import numpy as np
import pytest

import fastdist as fd

pytestmark = pytest.mark.interop("torch")

NAMES = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"]


@pytest.fixture(scope="module")
def torch() -> Any:
    """Return PyTorch."""
    import torch

    return torch


def _codes(tensor: Any) -> np.ndarray[Any, Any]:
    library = sys.modules[type(tensor).__module__.partition(".")[0]]
    found: np.ndarray[Any, Any] = tensor.view(library.uint8).numpy()
    return found


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("source", ["float32", "float64", "float16", "bfloat16"])
def test_casts_to_float8_have_pytorchs_codes(torch: Any, name: str, source: str) -> None:
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 2**32, 100_000, dtype=np.uint32).view(np.float32)
    near = (rng.standard_normal(50_000) * 10.0 ** rng.uniform(-8, 6, 50_000)).astype(np.float32)
    numbers = np.concatenate([bits, near])
    if source == "float64":
        wide = near.astype(np.float64) * (1 + 1e-9)
        ours, theirs = fd.from_numpy(wide), torch.from_numpy(wide)
    else:
        # bfloat16 keeps the sign of NaN here, but not in PyTorch.
        numbers = np.nan_to_num(numbers, nan=7.0) if source == "bfloat16" else numbers
        ours, theirs = fd.from_numpy(numbers), torch.from_numpy(numbers)
        ours, theirs = ours.to(getattr(fd, source)), theirs.to(getattr(torch, source))
    found, expected = ours.to(getattr(fd, name)), theirs.to(getattr(torch, name))
    np.testing.assert_array_equal(_codes(found), _codes(expected))


@pytest.mark.parametrize("name", NAMES)
def test_casts_from_every_code_have_pytorchs_numbers(torch: Any, name: str) -> None:
    codes = np.arange(256, dtype=np.uint8)
    ours = fd.from_numpy(codes.copy()).view(getattr(fd, name))
    theirs = torch.from_numpy(codes.copy()).view(getattr(torch, name))
    for to in ("float32", "float64", "float16"):
        found = ours.to(getattr(fd, to)).numpy()
        np.testing.assert_array_equal(found, theirs.to(getattr(torch, to)).numpy())
    for to in NAMES:
        found, expected = ours.to(getattr(fd, to)), theirs.to(getattr(torch, to))
        known = ~np.isnan(theirs.float().numpy())
        np.testing.assert_array_equal(_codes(found)[known], _codes(expected)[known])


@pytest.mark.parametrize("name", NAMES)
def test_finfo_has_pytorchs_fields(torch: Any, name: str) -> None:
    ours, theirs = fd.finfo(getattr(fd, name)), torch.finfo(getattr(torch, name))
    assert repr(ours) == repr(theirs)
    for field in ("bits", "dtype", "eps", "max", "min", "resolution", "smallest_normal", "tiny"):
        assert getattr(ours, field) == getattr(theirs, field)


@pytest.mark.parametrize("name", NAMES)
def test_files_pass_both_ways(torch: Any, name: str) -> None:
    numbers = [[1.0, 2.0], [0.5, 4.0]]
    file = io.BytesIO()
    torch.save(torch.tensor(numbers).to(getattr(torch, name)), file)
    file.seek(0)
    ours = fd.load(file)
    assert ours.dtype is getattr(fd, name) and ours.tolist() == numbers
    back = io.BytesIO()
    fd.save(ours, back)
    back.seek(0)
    theirs = torch.load(back)
    assert theirs.dtype is getattr(torch, name) and theirs.float().tolist() == numbers
