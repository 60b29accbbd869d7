"""Conversion of convolution weights of a module and its descendants to a memory format."""

from __future__ import annotations

from typing import TypeVar

from ...core.folded_frames import fold_public
from ...core.memory_format import MemoryFormat
from ..convolution import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d
from ..module import Module

M = TypeVar("M", bound=Module)


def convert_conv2d_weight_memory_format(module: M, memory_format: MemoryFormat) -> M:
    """Convert the weights of all Conv2d and ConvTranspose2d to memory_format; return the module."""
    return _converted(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: M, memory_format: MemoryFormat) -> M:
    """Convert the weights of all Conv3d and ConvTranspose3d to memory_format; return the module."""
    return _converted(module, (Conv3d, ConvTranspose3d), memory_format)


def _converted(module: M, kinds: tuple[type[Module], ...], memory_format: MemoryFormat) -> M:
    for one in module.modules():
        if isinstance(one, kinds):
            one.weight.data = one.weight.detach().clone(memory_format=memory_format)
    return module


fold_public(__name__)
