"""DataParallel: a module over one device, as PyTorch's programs wrap it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.device import Device
from ...devices.gpus import device_count
from ..module import Module


class DataParallel(Module):
    """Runs a module, here or on one GPU; its state dict's keys begin with `module.`, as PyTorch's.

    Raises  NotImplementedError for several GPUs
    """

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[Any] | None = None,
        output_device: Any = None,
        dim: int = 0,
    ) -> None:
        super().__init__()
        given = range(device_count()) if device_ids is None else device_ids
        ids = [_index_of(device) for device in given]
        if len(ids) > 1:
            raise NotImplementedError(
                f"DataParallel: batches are not split over several GPUs here, got {ids}; give "
                "device_ids=[0], or a process to each GPU: `fastdist run -n auto`"
            )
        self.device_ids = ids
        self.dim = dim
        self.module = module
        if ids:
            self.output_device = _index_of(ids[0] if output_device is None else output_device)
            module.to(Device("cuda", ids[0]))

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Call the module, with tensors on its GPU."""
        if self.device_ids:
            inputs = _moved(inputs, Device("cuda", self.device_ids[0]))
            kwargs = _moved(kwargs, Device("cuda", self.device_ids[0]))
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Sequence[Any] | None = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """Call module as DataParallel does."""
    given = inputs if isinstance(inputs, tuple) else () if inputs is None else (inputs,)
    return DataParallel(module, device_ids, output_device, dim)(*given, **(module_kwargs or {}))


def _index_of(device: Any) -> int:
    return device if isinstance(device, int) else Device(device).index or 0


def _moved(value: Any, device: Device) -> Any:
    if isinstance(value, dict):
        return {key: _moved(one, device) for key, one in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(_moved(one, device) for one in value)
    return value.to(device) if hasattr(value, "to") else value
