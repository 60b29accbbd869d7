"""Saves named tensors in the format safetensors, which cannot hold code.

The package `safetensors` reads and validates the format; the first call imports it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core.dtypes import ALL, FLOATING, DType, bfloat16, bool_
from ..core.missing import explain_missing
from ..core.short_repr import short_repr
from ..system.atomic_file import atomic_file
from ..tensor.tensor import Tensor, from_users_array

__all__ = ["load", "load_file", "save", "save_file"]


def _word_of(dtype: DType) -> str:
    if dtype in (bool_, bfloat16):
        return "BOOL" if dtype is bool_ else "BF16"
    if dtype.is_float8:
        return dtype.name.removeprefix("float").upper().replace("8_", "F8_").removesuffix("FN")
    letter = "F" if dtype.category == FLOATING else "I" if dtype.is_signed else "U"
    return f"{letter}{8 * dtype.itemsize}"


_DTYPES = {_word_of(dtype): dtype for dtype in ALL}


def save_file(
    tensors: Mapping[str, Tensor],
    filename: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write tensors, and strings as metadata, to a file; an error leaves no partial file.

    Raises  RuntimeError for tensors that share memory, which the format cannot express; ImportError
            without the package
    """
    data = save(tensors, metadata)
    with atomic_file(filename, len(data)) as file:
        file.write(data)


def save(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    """Return tensors in the format safetensors, as bytes. Raises the errors of save_file."""
    package = _package("numpy")
    arrays = {name: _array_of(name, tensor) for name, tensor in tensors.items()}
    _require_apart(arrays)
    data: bytes = package.save(arrays, None if metadata is None else dict(metadata))
    return data


def load_file(filename: str | os.PathLike[str], device: Any = "cpu") -> dict[str, Tensor]:
    """Return the tensors of a file by name.

    Raises  FileNotFoundError if there is no such file; safetensors.SafetensorError for an invalid
            file; ImportError without the package
    """
    package = _package("")
    with package.safe_open(os.fspath(filename), framework="np") as file:
        return {name: _on(device, file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118


def load(data: bytes) -> dict[str, Tensor]:
    """Return the tensors in the bytes of a file. Raises the errors of load_file."""
    found = {}
    for name, entry in _package("").deserialize(data):
        if entry["dtype"] not in _DTYPES:
            raise NotImplementedError(
                f"{short_repr(name)} is of dtype {entry['dtype']}, which fastdist does not have "
                "(it has "
                f"{', '.join(_DTYPES)})"
            )
        array = np.frombuffer(entry["data"], _DTYPES[entry["dtype"]].numpy)
        found[name] = _on("cpu", array.reshape(entry["shape"]).copy())
    return found


def _on(device: Any, array: np.ndarray[Any, Any]) -> Tensor:
    tensor = from_users_array(array)
    moved: Tensor = tensor.to(device=device)
    return moved


def _array_of(name: str, tensor: Any) -> np.ndarray[Any, Any]:
    if not isinstance(tensor, Tensor):
        raise ValueError(
            f"{short_repr(name)} is a {type(tensor).__name__}, and only tensors can be saved"
        )
    return np.ascontiguousarray(tensor.to_numpy()).reshape(tensor._layout.shape)


def _require_apart(arrays: dict[str, np.ndarray[Any, Any]]) -> None:
    names: dict[int, str] = {}
    for name, array in arrays.items():
        if array.size:
            other = names.setdefault(int(array.__array_interface__["data"][0]), name)
            if other != name:
                raise RuntimeError(
                    f"Some tensors share memory, and this format cannot say so: {other!r} and "
                    f"{short_repr(name)}; save a clone() of one, or use fastdist.save"
                )


def _package(room: str) -> Any:
    try:
        import safetensors
        import safetensors.numpy
    except ImportError as error:
        raise ImportError("this needs the package safetensors: pip install safetensors") from error
    return safetensors.numpy if room else safetensors


explain_missing(__name__)
