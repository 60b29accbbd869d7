"""Differentiable functions that copy tensors to and from several devices, for DataParallel.

All functions are composed of ops such as `to`, `cat` and sums, so gradients, tangents and streams
work as in these ops.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ...core.device import CPU, Device
from ...core.errors import ShapeError
from ...core.short_repr import short_repr
from ...ops.shape.joining import cat
from ...ops.shape.splitting import chunk, split
from ...tensor.tensor import Tensor


def as_device(word: Any) -> Device:
    """Return the Device for a GPU's number, a name such as "sim:1", or a Device."""
    if isinstance(word, int):
        return Device("cuda", word) if word >= 0 else CPU
    return Device(word)


def as_devices(words: Any) -> list[Device]:
    """Return the Devices for a list of numbers or names.

    Raises  TypeError for a single number, name or Device
    """
    if isinstance(words, str | int | Device):
        raise TypeError(
            f"expected a list of devices, such as [0, 1] or ['sim:0'], got {short_repr(words)}"
        )
    return [as_device(one) for one in words]


def broadcast(
    tensor: Tensor, devices: Iterable[Any] | None = None, *, out: Sequence[Tensor] | None = None
) -> tuple[Tensor, ...]:
    """Return copies of tensor on all `devices`, or copy tensor into each of `out`.

    Raises  RuntimeError unless exactly one of devices and out is given
    Source  PyTorch, torch/nn/parallel/comm.py
    """
    if (devices is None) == (out is None):
        raise RuntimeError(
            "Exactly one of 'devices' and 'out' must be specified, but got "
            f"devices={devices} and out={out}"
        )
    if devices is not None:
        return tuple([_on(tensor, one) for one in as_devices(devices)])
    assert out is not None
    for one in out:
        one.copy_(tensor)
    return tuple(out)


def broadcast_coalesced(
    tensors: Sequence[Tensor], devices: Sequence[Any], buffer_size: int = 10485760
) -> list[tuple[Tensor, ...]]:
    """Return, for each device, a tuple of copies of all tensors on that device.

    Note    buffer_size is ignored: tensors are copied one by one, not in one buffer
    """
    return [tuple([_on(tensor, as_device(one)) for tensor in tensors]) for one in devices]


def reduce_add(inputs: Sequence[Tensor], destination: Any = None) -> Tensor:
    """Return the sum of tensors of several devices, on the device `destination`.

    The default destination is the device of the first tensor.

    Raises  ShapeError for tensors of different shapes
    """
    if any(one._layout.shape != inputs[0]._layout.shape for one in inputs):
        shapes = [tuple(one._layout.shape) for one in inputs]
        raise ShapeError(f"reduce_add: inputs must have one shape, got {shapes}")
    to = inputs[0]._layout.device if destination is None else as_device(destination)
    total: Any = _on(inputs[0], to)
    for one in inputs[1:]:
        total = total + _on(one, to)
    return total  # type: ignore[no-any-return]


def reduce_add_coalesced(
    inputs: Sequence[Sequence[Tensor]], destination: Any = None, buffer_size: int = 10485760
) -> tuple[Tensor, ...]:
    """Return a tuple whose element i is the sum of the i-th tensors of all `inputs`."""
    return tuple([reduce_add(one, destination) for one in zip(*inputs, strict=True)])


def scatter(
    tensor: Tensor,
    devices: Sequence[Any] | None = None,
    chunk_sizes: Sequence[int] | None = None,
    dim: int = 0,
    streams: Any = None,
    *,
    out: Sequence[Tensor] | None = None,
) -> tuple[Tensor, ...]:
    """Split tensor along dim and return one part on each device, or copy the parts into out.

    The parts have the lengths chunk_sizes. If chunk_sizes is None, the parts are those of the op
    `chunk`.

    Raises  RuntimeError if out is given with devices or chunk_sizes, or if the lengths of the parts
            do not add up to the length of tensor
    Note    a short tensor may have fewer parts than there are devices. Copies use each device's
            current stream; `streams` is ignored
    """
    if out is not None:
        if devices is not None or chunk_sizes is not None:
            raise RuntimeError(
                "'devices' and 'chunk_sizes' must not be specified when 'out' is specified, but "
                f"got devices={devices} and chunk_sizes={chunk_sizes}"
            )
        parts = split(tensor, [one._layout.shape[dim] for one in out], dim)
        for one, part in zip(out, parts, strict=True):
            one.copy_(part)
        return tuple(out)
    places = as_devices(devices or ())
    if not places:
        raise RuntimeError("Expected at least one device to scatter to: give devices=[0, 1]")
    if chunk_sizes is None:
        parts = chunk(tensor, len(places), dim)
    elif len(chunk_sizes) != len(places):
        raise RuntimeError(
            "Expected devices and chunk_sizes to be of same length, but got len(devices) = "
            f"{len(places)} and len(chunk_sizes) = {len(chunk_sizes)}"
        )
    else:
        parts = split(tensor, [*chunk_sizes], dim)
    return tuple([_on(part, place) for part, place in zip(parts, places, strict=False)])


def gather(
    tensors: Sequence[Tensor],
    dim: int = 0,
    destination: Any = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Concatenate tensors of several devices along dim, into `out` or into a new tensor on the
    device `destination`, by default the device of the first tensor.
    """
    if out is not None:
        if destination is not None:
            raise RuntimeError(
                "'destination' must not be specified when 'out' is specified, but got "
                f"destination={short_repr(destination)}"
            )
        out.copy_(cat([_on(one, out._layout.device) for one in tensors], dim))
        return out
    to = tensors[0]._layout.device if destination is None else as_device(destination)
    return cat([_on(one, to) for one in tensors], dim)


def _on(tensor: Any, device: Device) -> Any:
    return tensor.to(device)
