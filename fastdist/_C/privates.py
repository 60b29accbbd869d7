"""Private queries on PyTorch's engine and build that packages use."""

from __future__ import annotations

from ..core.device import Device
from ..devices.gpus import device_count
from ..engine.engine import current_graph_task

_GLIBCXX_USE_CXX11_ABI = True


def _current_graph_task_id() -> int:
    """Return an id of the backward pass whose Node this thread runs; -1 outside of a pass."""
    task = current_graph_task()
    return -1 if task is None else id(task)


def _get_accelerator(check: bool = False) -> Device:
    """Return the device "cuda", or "cpu" if there is no GPU."""
    return Device("cuda") if device_count() else Device("cpu")


def _get_cudnn_enabled() -> bool:
    """Return False: cuDNN is not used."""
    return False


def _get_dispatch_mode(mode_key: object) -> None:
    """Return None: dispatch modes are not supported."""


def _is_tracing() -> bool:
    """Return False: there is no tracing."""
    return False
