"""Defaults of the calls, under PyTorch's names."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

DEFAULT_RPC_TIMEOUT_SEC: Final = 60.0
DEFAULT_INIT_METHOD: Final = "env://"
DEFAULT_NUM_WORKER_THREADS: Final = 16
# 0 means, as in PyTorch, no limit on the wait for other workers to call shutdown.
DEFAULT_SHUTDOWN_TIMEOUT: Final = 0.0
UNSET_RPC_TIMEOUT: Final = -1.0
DEFAULT_PROCESS_GROUP_TIMEOUT: Final = timedelta(milliseconds=2**31 - 1)

INIT_TIMEOUT_S: Final = 60.0
SHUTDOWN_TIMEOUT_S: Final = 15.0
SWITCH_INTERVAL_S: Final = 5e-4
