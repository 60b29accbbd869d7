"""Files of the package safetensors."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import fastdist
from fastdist.utils import safetensors

pytestmark = pytest.mark.interop("safetensors")


def test_tensors_go_there_and_back(tmp_path: Path) -> None:
    import safetensors.numpy as theirs

    path = tmp_path / "x.safetensors"
    tensors = {
        "a": fastdist.arange(6.0).reshape(2, 3).t(),
        "b": fastdist.tensor([True]),
        "c": fastdist.tensor(2, dtype=fastdist.int8),
        "d": fastdist.nn.Parameter(fastdist.ones(2)).detach(),
        "e": fastdist.empty(0, 2),
    }
    safetensors.save_file(tensors, path, metadata={"format": "pt"})
    for found in (safetensors.load_file(path), safetensors.load(safetensors.save(tensors))):
        assert {k: (v.tolist(), v.dtype, v.shape) for k, v in found.items()} == {
            k: (v.tolist(), v.dtype, v.shape) for k, v in tensors.items()
        }
        found["a"][0, 0] = 5.0
    assert theirs.load_file(path)["a"].tolist() == tensors["a"].tolist()
    assert str(safetensors.load_file(path, device="sim")["a"].device) == "sim:0"
    assert os.listdir(tmp_path) == ["x.safetensors"]


def test_shared_memory_and_other_values_are_refused(tmp_path: Path) -> None:
    x = fastdist.ones(4)
    with pytest.raises(RuntimeError, match="Some tensors share memory"):
        safetensors.save_file({"x": x, "y": x[:2]}, tmp_path / "x")
    with pytest.raises(ValueError, match="'n' is a ndarray, and only tensors"):
        safetensors.save({"n": np.ones(1)})  # type: ignore[dict-item]
    assert os.listdir(tmp_path) == []


def test_load_tells_what_such_a_file_is(tmp_path: Path) -> None:
    safetensors.save_file({"x": fastdist.ones(1)}, tmp_path / "x.safetensors")
    with pytest.raises(Exception, match=r"fastdist\.utils\.safetensors\.load_file reads it"):
        fastdist.load(tmp_path / "x.safetensors")
