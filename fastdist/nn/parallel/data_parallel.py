"""DataParallel: splits a batch over several devices of one process, each with a model copy."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from ...core.device import Device
from ...core.folded_frames import fold_public
from ...core.missing import show_public
from ...core.short_repr import short_repr
from ...devices.gpus import device_count
from ..module import Module
from .comm import as_device, as_devices
from .parallel_apply import parallel_apply
from .replicate import replicate
from .scatter_gather import gather, scatter_kwargs


class DataParallel(Module):
    """Splits its inputs along dim into one part per device, and runs a copy of module on each part.

    The results are joined on output_device, and gradients are summed in module's parameters. Keys
    of the state dict begin with `module.`, as in PyTorch.

    Devices are numbers of GPUs (all GPUs by default) or names such as "sim:0". On a machine without
    GPUs, the numbers are ignored, and module runs on the device of its parameters. Otherwise the
    parameters must be on the first device.

    Raises  RuntimeError in a call if a parameter or buffer of module is not on the first device
    Note    the threads of a process share Python's global interpreter lock, so one process per GPU
            is faster
    Source  PyTorch, torch/nn/parallel/data_parallel.py

    Args:
        module: The module.
        device_ids: The devices; all GPUs if None.
        output_device: The device of the results; the first of device_ids if None.
        dim: The axis along which inputs are split and results are joined.
    """

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[Any] | None = None,
        output_device: Any = None,
        dim: int = 0,
    ) -> None:
        super().__init__()
        if not isinstance(module, Module):
            raise TypeError(f"DataParallel: expected a Module to copy, got {short_repr(module)}")
        count = device_count()
        places = as_devices(range(count) if device_ids is None else device_ids)
        if not count and all(one.type == "cuda" for one in places):
            places = []
        self.dim = dim
        self.module = module
        self.device_ids = [_word(one) for one in places]
        if places:
            out = places[0] if output_device is None else as_device(output_device)
            self.output_device = _word(out)
            self.src_device_obj = places[0]
            if len(places) == 1:
                module.to(places[0])

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Run copies of the module on parts of the arguments, and join their results."""
        if not self.device_ids:
            return self.module(*inputs, **kwargs)
        self._require_source()
        parts, named = self.scatter(inputs, kwargs, self.device_ids)
        if not parts:
            parts, named = ((),), ({},)
        if len(self.device_ids) == 1:
            return self.module(*parts[0], **named[0])
        replicas = self.replicate(self.module, self.device_ids[: len(parts)])
        return self.gather(self.parallel_apply(replicas, parts, named), self.output_device)

    def _require_source(self) -> None:
        source = self.src_device_obj
        for one in chain(self.module.parameters(), self.module.buffers()):
            if one._layout.device != source:
                raise RuntimeError(
                    "module must have its parameters and buffers on device "
                    f"{source} (device_ids[0]) but found one of them on device: "
                    f"{one._layout.device}; call module.to({str(source)!r}) first"
                )

    def replicate(self, module: Module, device_ids: Sequence[Any]) -> list[Module]:
        """Return one copy of module per device; gradients accumulate in module's parameters."""
        return replicate(module, device_ids)

    def scatter(
        self, inputs: tuple[Any, ...], kwargs: dict[str, Any] | None, device_ids: Sequence[Any]
    ) -> Any:
        """Return the parts of the arguments, one for each device."""
        return scatter_kwargs(inputs, kwargs, device_ids, self.dim)

    def parallel_apply(
        self, replicas: Sequence[Any], inputs: Sequence[Any], kwargs: Any
    ) -> list[Any]:
        """Call the copies concurrently, each with its part of the arguments; return the results."""
        return parallel_apply(replicas, inputs, kwargs, self.device_ids[: len(replicas)])

    def gather(self, outputs: Sequence[Any], output_device: Any) -> Any:
        """Return the results joined on output_device."""
        return gather(outputs, output_device, self.dim)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Sequence[Any] | None = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """Call module once as DataParallel would.

    Args:
        module: The module.
        inputs: The arguments, as a tuple or one value; they are split along dim over the devices.
        device_ids: The devices; all GPUs if None.
        output_device: The device of the result; the first of device_ids if None.
        dim: The axis along which tensors are split and joined.
        module_kwargs: Keyword arguments, which are split like inputs.
    """
    given = inputs if isinstance(inputs, tuple) else () if inputs is None else (inputs,)
    return DataParallel(module, device_ids, output_device, dim)(*given, **(module_kwargs or {}))


def _word(device: Device) -> Any:
    """Return the number of a GPU, as PyTorch stores it; return any other device unchanged."""
    return device.index if device.type == "cuda" else device


fold_public(__name__)
show_public(__name__)
