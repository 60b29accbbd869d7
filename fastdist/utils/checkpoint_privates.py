"""Private names of PyTorch's checkpoint module that packages import."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from ..interpreters.autocast import casting_now
from ..tensor.pytree import tree_iter
from ..tensor.tensor import Tensor

_DEFAULT_DETERMINISM_MODE = "default"


class DefaultDeviceType:
    """The device type that a checkpoint assumes if no argument is a tensor on a GPU."""

    _chosen = "cuda"

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        """Set the device type."""
        DefaultDeviceType._chosen = device

    @staticmethod
    def get_device_type() -> str:
        """Return the device type."""
        return DefaultDeviceType._chosen


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warn if no input of a checkpoint requires grad."""
    if not any(one.requires_grad for one in inputs if isinstance(one, Tensor)):
        warnings.warn(
            "None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2
        )


def _infer_device_type(*args: Any) -> str:
    """Return the device type of the first tensor in `args` that is not on the CPU, or the default
    type if there is no such tensor.
    """
    kinds = [leaf.device.type for leaf in tree_iter(args) if isinstance(leaf, Tensor)]
    others = [kind for kind in kinds if kind != "cpu"]
    return others[0] if others else DefaultDeviceType.get_device_type()


def _get_device_module(device: str = "cuda") -> ModuleType:
    """Return the module of a device type, such as fastdist.cuda."""
    return importlib.import_module(f"fastdist.{device}")


def _get_autocast_kwargs(device_type: str = "cuda") -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the current autocast options, for a device and for the CPU."""
    found: list[dict[str, Any]] = []
    for kind in (device_type, "cpu"):
        dtypes, is_cached = casting_now()
        dtype = dtypes.get(kind)
        found.append(
            {
                "device_type": kind,
                "enabled": dtype is not None,
                "dtype": dtype,
                "cache_enabled": is_cached,
            }
        )
    return found[0], found[1]
