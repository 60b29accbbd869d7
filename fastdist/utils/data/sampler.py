"""Names of fastdist.data that PyTorch has in its file sampler.py."""

from __future__ import annotations

from ... import data as _data
from ...core.missing import explain_missing
from ...data import *  # noqa: F403 (the room says its names)

__all__ = [*_data.__all__]  # noqa: PLE0604 (names of the room, all strings)

explain_missing(__name__)
