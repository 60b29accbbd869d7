"""Lookup of structured kernels by name in fastdist.kernels.cpu and fastdist.kernels.cuda."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Literal

from fastdist.core.errors import DeviceError


def find_kernel(twin: Literal["cpu", "cuda"], name: str) -> Callable[..., None]:
    """Return the kernel with a name such as "nn.softmax.softmax" (package, module, function).

    The kernel is looked up in fastdist.kernels.cpu or fastdist.kernels.cuda.

    Raises  DeviceError if there is no kernel of that name
    """
    module_name, _, function_name = name.rpartition(".")
    path = f"fastdist.kernels.{twin}.{module_name}"
    try:
        module = import_module(path)
    except ModuleNotFoundError as error:
        if not f"{path}.".startswith(f"{error.name}."):
            raise
        raise DeviceError(f"no kernel {name!r} for {twin}: there is no module {path}") from None
    function: Callable[..., None] | None = getattr(module, function_name, None)
    if function is None:
        raise DeviceError(f"no kernel {name!r} for {twin}: {path} has no {function_name!r}")
    return function
