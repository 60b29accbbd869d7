"""Saves named tensors in NumPy's format .npz, without pickled objects."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core.missing import explain_missing
from ..core.short_repr import short_repr
from ..system.atomic_file import atomic_file
from ..tensor.tensor import Tensor, from_users_array

__all__ = ["load_file", "save_file"]


def save_file(
    tensors: Mapping[str, Tensor], filename: str | os.PathLike[str], *, compressed: bool = False
) -> None:
    """Write tensors to a file that numpy.load can read; an error leaves no partial file.

    Raises  ValueError for a value that is not a tensor
    """
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise ValueError(
                f"{short_repr(name)} is a {type(tensor).__name__}, and only tensors can be saved"
            )
    arrays: dict[str, Any] = {name: tensor.to_numpy() for name, tensor in tensors.items()}
    write = np.savez_compressed if compressed else np.savez
    size = sum(array.nbytes for array in arrays.values())
    with atomic_file(filename, None if compressed else size) as file:
        write(file, **arrays)


def load_file(filename: str | os.PathLike[str], device: Any = "cpu") -> dict[str, Tensor]:
    """Return the tensors of a file by name.

    Raises  ValueError for a file that is not a .npz archive, or that holds pickled objects
    """
    found = np.load(filename, allow_pickle=False)
    if not isinstance(found, np.lib.npyio.NpzFile):
        raise ValueError(
            f"{short_repr(os.fspath(filename))} holds one array (.npy): numpy.load reads it"
        )
    with found:
        return {name: _on(device, found[name]) for name in found.files}


def _on(device: Any, array: np.ndarray[Any, Any]) -> Tensor:
    moved: Tensor = from_users_array(array).to(device=device)
    return moved


explain_missing(__name__)
