"""Tensors that are dense with permuted axes, and so are sent without a copy, or that have gaps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import fastdist as fd
from fastdist import Tensor

# Each function makes a dense tensor from a vector of 120 numbers on any device.
DENSE: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    "channels_last": lambda x: x.reshape(2, 3, 4, 5).to(memory_format=fd.channels_last),
    "one image": lambda x: x.reshape(1, 6, 4, 5).to(memory_format=fd.channels_last),
    "channels_last_3d": lambda x: x.reshape(2, 3, 2, 2, 5).to(memory_format=fd.channels_last_3d),
    "permuted": lambda x: x.reshape(4, 5, 6).permute(2, 0, 1),
    "turned": lambda x: x.reshape(8, 15).t(),
    "turned all round": lambda x: x.reshape(2, 3, 4, 5).permute(3, 1, 2, 0),
    "batch of more": lambda x: x.reshape(4, 3, 2, 5).to(memory_format=fd.channels_last)[1:3],
    "short axes": lambda x: x.reshape(1, 24, 1, 5).permute(0, 3, 2, 1),
}
GAPS: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    "every second": lambda x: x.reshape(8, 15).t()[:, ::2],
    "expanded": lambda x: x[:5].expand(4, 5).t(),
    "part": lambda x: x.reshape(4, 5, 6).permute(2, 0, 1)[:, :, :2],
}
