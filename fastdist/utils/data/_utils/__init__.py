"""Names that programs import from private files of PyTorch's DataLoader.

collate.py, fetch.py, pin_memory.py and worker.py correspond to PyTorch's files of the same names.
"""

from __future__ import annotations

import sys

from ....core.missing import explain_missing
from . import collate, fetch, pin_memory, worker

__all__ = ["collate", "fetch", "pin_memory", "worker"]

HAS_NUMPY = True
IS_WINDOWS = sys.platform == "win32"
# Seconds between two checks whether a worker is alive.
MP_STATUS_CHECK_INTERVAL = 5.0

explain_missing(__name__)
