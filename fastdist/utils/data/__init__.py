"""The names of fastdist.data, under PyTorch's module name."""

from __future__ import annotations

from ... import data as _data
from ...data import *  # noqa: F403 (the room says its names)
from . import _utils, dataloader, dataset, distributed, sampler

__all__ = [*_data.__all__, "_utils", "dataloader", "dataset", "distributed", "sampler"]  # noqa: PLE0604
