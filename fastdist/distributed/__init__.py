"""The distributed half: sockets, store and pipe at its ground, rpc on them, autograd on top."""

# The design note of this room.
#
# `sockets` makes, secures and counts ZeroMQ sockets. `store` is the small shared dictionary through
# which the workers of a job find each other, `rendezvous.py` the step in which each learns its rank
# and where the store is. `pipe` moves messages between two workers, `rpc` makes calls of them, and
# `autograd` is where a backward pass crosses from one worker to the next.
#
# Nothing here is imported before its first use: `import fastdist` must neither load ZeroMQ nor
# start a thread, so that a process which only imported it may still fork.

from __future__ import annotations

import importlib
from typing import Any

from fastdist.core.late_rooms import load_when_rpc_starts
from fastdist.core.missing import missing

_ROOMS = frozenset({"autograd", "optim", "pipe", "rendezvous", "rpc", "sockets", "store"})

# torch.distributed offers these at the top; the name says where each lives here.
_HOMES = {
    "FileStore": "store",
    "HashStore": "store",
    "PrefixStore": "store",
    "Store": "store",
    "TCPStore": "store",
}

# A worker that only runs what others ask for takes part in their backward passes all the same.
load_when_rpc_starts(lambda: importlib.import_module(f"{__name__}.autograd"))


def __getattr__(name: str) -> Any:
    """Import a room, or the room of a name, when it is first asked for."""
    if name in _ROOMS:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _HOMES:
        found = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = found
        return found
    raise missing(__name__, name)


def is_available() -> bool:
    """Return True: as in PyTorch, whether this half of the library can be used."""
    return True


def __dir__() -> list[str]:
    """Return the rooms and the names that can be asked for."""
    return sorted(_ROOMS | _HOMES.keys() | {"is_available"})
