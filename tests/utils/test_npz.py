"""Tensors in .npz files: NumPy and fastdist read each other's files, and no code is executed."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import fastdist
from fastdist.utils import npz


@pytest.mark.parametrize("compressed", [False, True])
def test_tensors_go_there_and_back(tmp_path: Path, compressed: bool) -> None:
    path = tmp_path / "x.npz"
    tensors = {"a": fastdist.arange(6.0).reshape(2, 3).t(), "b": fastdist.tensor(True)}
    npz.save_file(tensors, path, compressed=compressed)
    found = npz.load_file(path)
    assert {name: one.tolist() for name, one in found.items()} == {
        name: one.tolist() for name, one in tensors.items()
    }
    with np.load(path) as theirs:
        assert theirs["a"].tolist() == tensors["a"].tolist()
    found["a"][0, 0] = 5.0
    assert str(npz.load_file(path, device="sim")["b"].device) == "sim:0"
    assert os.listdir(tmp_path) == ["x.npz"]


def test_objects_and_other_files_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "o.npz", o=np.array([object()]))
    with pytest.raises(ValueError, match="pickle"):
        npz.load_file(tmp_path / "o.npz")
    np.save(tmp_path / "one.npy", np.ones(2))
    with pytest.raises(ValueError, match="holds one array"):
        npz.load_file(tmp_path / "one.npy")
    with pytest.raises(ValueError, match="'n' is a int, and only tensors"):
        npz.save_file({"n": 3}, tmp_path / "n.npz")  # type: ignore[dict-item]
