"""The type names of objects, with their packages, as in PyTorch."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ..interpreters.torch_function import overridable, overridable_method
from ..tensor.tensor import Tensor


def typename(obj: Any) -> str:
    """Return a tensor's type name, such as fastdist.FloatTensor. For a class, function or module,
    return its own name; for any other object, return the name of its class.
    """
    if isinstance(obj, Tensor):
        return str(obj.type())
    kind = obj if hasattr(obj, "__qualname__") or hasattr(obj, "__path__") else type(obj)
    name = getattr(kind, "__qualname__", "") or kind.__name__
    module = getattr(kind, "__module__", "") or ""
    return name if module in ("", "builtins") else f"{module}.{name}"


@overridable_method
def get_device(input: Tensor) -> int:
    """Return the index of a tensor's device, -1 for the CPU."""
    return input.get_device()


@overridable
def is_distributed(input: Tensor) -> bool:
    """Return False: a tensor belongs to one process."""
    return False


@overridable
def is_inference(input: Tensor) -> bool:
    """Return False: tensors made in inference_mode are ordinary tensors."""
    return False


def get_file_path(*path_components: str) -> str:
    """Return path_components, joined to the path of the folder that contains the package."""
    return os.path.join(Path(__file__).resolve().parents[2], *path_components)
