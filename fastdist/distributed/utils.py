"""Helpers for module wrappers, with PyTorch's private names: they sync models and move inputs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from ..core.device import Device
from ..core.refused import offer_refused
from ..tensor.tensor import Tensor
from .data_parallel.for_wrappers import _broadcast_coalesced, _verify_params_across_processes


def _sync_params_and_buffers(
    process_group: Any, module_states: Sequence[Tensor], broadcast_bucket_size: int, src: int
) -> None:
    """Overwrite tensors with the values of the member that has rank `src` in the group."""
    if module_states:
        _broadcast_coalesced(process_group, module_states, broadcast_bucket_size, src)


def _sync_module_states(
    module: Any,
    process_group: Any,
    broadcast_bucket_size: int,
    src: int,
    params_and_buffers_to_ignore: Collection[str],
    broadcast_buffers: bool = True,
) -> None:
    """Overwrite a module's parameters, and its buffers, with those of one member's module."""
    named = list(module.named_parameters())
    if broadcast_buffers:
        named += module.named_buffers()
    states = [one.detach() for name, one in named if name not in params_and_buffers_to_ignore]
    _sync_params_and_buffers(process_group, states, broadcast_bucket_size, src)


def _verify_param_shape_across_processes(
    process_group: Any, tensors: Sequence[Tensor], logger: Any = None
) -> None:
    """Raise on all members if the shapes or dtypes of their parameters differ."""
    _verify_params_across_processes(process_group, tensors, logger)


def _to_kwargs(
    inputs: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None,
    target_device: Any,
    use_side_stream_for_tensor_copies: bool,
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return `inputs` and `kwargs` on a device, each in a tuple with one entry, for one replica."""
    moved = _recursive_to(inputs, target_device, use_side_stream_for_tensor_copies)
    named = _recursive_to(kwargs or {}, target_device, use_side_stream_for_tensor_copies)
    return tuple(moved), tuple(named)


def _recursive_to(inputs: Any, target_device: Any, use_side_stream_for_tensor_copies: bool) -> Any:
    """Return a list of length one with the inputs, whose tensors are on the target device.

    Tuples, named tuples, lists and dicts are searched; other objects are unchanged. Copies run on
    the current stream; `use_side_stream_for_tensor_copies` is ignored.
    """
    del use_side_stream_for_tensor_copies
    return [_moved(inputs, Device(target_device))]


def _moved(value: Any, device: Device) -> Any:
    from ..nn.utils.rnn import PackedSequence

    if isinstance(value, Tensor | PackedSequence):
        data: Any = value.data if isinstance(value, PackedSequence) else value
        moving: Any = value
        return value if data.device == device else moving.to(device)
    if isinstance(value, tuple):
        parts = [_moved(one, device) for one in value]
        make: Callable[..., Any] = type(value)
        return make(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, list):
        return [_moved(one, device) for one in value]
    if isinstance(value, dict):
        found = [(key, _moved(one, device)) for key, one in value.items()]
        return type(value)(found)
    return value


offer_refused(globals())
