"""Private questions to PyTorch's engine and its build that packages ask."""

from __future__ import annotations

from ..core.device import Device
from ..devices.gpus import device_count
from ..engine.engine import current_graph_task

_GLIBCXX_USE_CXX11_ABI = True


def _current_graph_task_id() -> int:
    """Return a number of the backward pass whose Node this thread runs, -1 outside of one."""
    task = current_graph_task()
    return -1 if task is None else id(task)


def _get_accelerator(check: bool = False) -> Device:
    """Return the kind of the accelerator: cuda, or cpu where there is no GPU."""
    return Device("cuda") if device_count() else Device("cpu")


def _get_cudnn_enabled() -> bool:
    """Return False: cuDNN is not used."""
    return False


def _get_dispatch_mode(mode_key: object) -> None:
    """Return None: there are no modes of that kind."""


def _is_tracing() -> bool:
    """Return False: programs are not captured."""
    return False
