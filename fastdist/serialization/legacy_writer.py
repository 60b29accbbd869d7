"""Writing PyTorch's format before 1.6: see Note [The format before 1.6] in legacy_reader.py."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from ..devices.backend import backend_of
from .legacy_reader import MAGIC, PROTOCOL, as_native

_PIECE_BYTES: Final = 16 << 20


def write_legacy(
    write: Callable[[Any], Any], pickled: bytes, memories: Sequence[Any], protocol: int
) -> None:
    """Write a pickle and its storages. Each item of `memories` is (flat memory, device, dtype)."""
    sizes = {"short": 2, "int": 4, "long": 4}
    machine = {
        "protocol_version": PROTOCOL,
        "little_endian": sys.byteorder == "little",
        "type_sizes": sizes,
    }
    for head in (MAGIC, PROTOCOL, machine):
        write(pickle.dumps(head, protocol))
    write(pickled)
    write(pickle.dumps([str(number) for number in range(len(memories))], protocol))
    for flat, device, dtype in memories:
        values: np.ndarray[Any, Any] = backend_of(device.type).to_numpy(flat)
        data = as_native(values.view(np.uint8), dtype)
        numel = data.nbytes // (1 if dtype is None else dtype.itemsize)
        write(numel.to_bytes(8, "little"))
        view = memoryview(data) if data.nbytes else memoryview(b"")
        for start in range(0, data.nbytes, _PIECE_BYTES):
            write(view[start : start + _PIECE_BYTES])
