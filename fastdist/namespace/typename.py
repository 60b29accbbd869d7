"""The type names of objects, with their packages, as PyTorch gives them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ..interpreters.torch_function import overridable, overridable_method
from ..tensor.tensor import Tensor


def typename(obj: Any) -> str:
    """Return the name of a tensor's type, such as FloatTensor, else of an object or its class."""
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
    """Return False: a tensor lies in one process."""
    return False


@overridable
def is_inference(input: Tensor) -> bool:
    """Return False: what inference_mode made is an ordinary tensor."""
    return False


def get_file_path(*path_components: str) -> str:
    """Return a path next to this package, which begins with its name."""
    return os.path.join(Path(__file__).resolve().parents[2], *path_components)
