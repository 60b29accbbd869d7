"""Stores the profiling key of each call, which is the name of its event, until its answer comes."""

from __future__ import annotations

import itertools
import threading

from fastdist.core.errors import RpcError

from ..agent import get_current_agent
from ..message.ids import RANK_SHIFT, id_text

# Separates, in an event's name, the name of the call's event from that of the callee's event.
REMOTE_PROFILING_KEY_PREFIX = "#remote_op: "


class _Current(threading.local):
    key: str | None = None


class RemoteProfilerManager:
    """Stores each thread's profiling key for its next call, and id -> key for calls under way.

    Thread  any; each thread has its own current key
    Source  PyTorch, torch/csrc/distributed/rpc/profiler/remote_profiler_manager.h
    """

    def __init__(self) -> None:
        self._current = _Current()
        self._numbers = itertools.count()
        self._keys: dict[int, str] = {}  # each operation on this dictionary is atomic

    @staticmethod
    def get_instance() -> RemoteProfilerManager:
        """Return the instance of this process."""
        return _manager

    @staticmethod
    def set_current_profiling_key(key: str) -> None:
        """Set the key under which this thread's next call is profiled.

        Raises  RpcError if a key is already set
        """
        _manager.set_current_key(key)

    def set_current_key(self, key: str) -> None:
        """Set the key under which this thread's next call is profiled.

        Raises  RpcError if a key is already set
        """
        if self._current.key is not None:
            raise RpcError(
                "Cannot call RemoteProfilerManager::setCurrentKey when current key is already set."
                f" It is {self._current.key!r}, given {key!r}"
            )
        self._current.key = key

    def is_current_key_set(self) -> bool:
        """Return whether this thread's next call must be profiled."""
        return self._current.key is not None

    def get_current_profiling_key(self) -> str:
        """Return the key of this thread's next call.

        Raises  RpcError if no key is set
        """
        key = self._current.key
        if key is None:
            raise RpcError("Must set the current profiling key before getting it.")
        return key

    def unset_current_key(self) -> None:
        """Remove the key for this thread's next call, so that it is not profiled."""
        self._current.key = None

    def get_next_profiler_id(self) -> int:
        """Return an id that is unique among profiled calls of the job: worker id << 48 | number."""
        return get_current_agent().get_worker_info().id << RANK_SHIFT | next(self._numbers) + 1

    def save_rpc_key(self, profiler_id: int, key: str) -> None:
        """Keep the key of a call until its answer comes.

        Raises  RpcError if that id already has a key
        """
        if self._keys.setdefault(profiler_id, key) is not key:
            raise RpcError(f"the profiled call {id_text(profiler_id)} has a key already")

    def retrieve_rpc_profiling_key(self, profiler_id: int) -> str:
        """Return the key of a call that is under way.

        Raises  RpcError for an unknown id
        """
        key = self._keys.get(profiler_id)
        if key is None:
            raise RpcError(f"no profiled call {id_text(profiler_id)} is under way")
        return key

    def erase_key(self, profiler_id: int) -> None:
        """Remove the key of a call that has ended; do nothing if there is none."""
        self._keys.pop(profiler_id, None)


_manager = RemoteProfilerManager()
