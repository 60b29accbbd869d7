"""The claim that `dir`, and with it completion, shows the public names of public modules alone."""

from __future__ import annotations

import importlib
from types import ModuleType

import fastdist
from fastdist.as_torch import ROOMS

# Rooms that are no module of names: a command, and names that are those of other packages.
_COMMANDS = {"info"}
_BELOW = """
    autograd.forward_ad autograd.functional autograd.graph autograd.profiler
    distributed.autograd distributed.checkpoint distributed.device_mesh distributed.distributed_c10d
    distributed.explain distributed.monitor distributed.nn distributed.optim distributed.preemption
    distributed.profiler distributed.rendezvous distributed.restarts distributed.rpc
    distributed.store nn.attention nn.functional nn.init nn.modules nn.parallel nn.utils
    nn.utils.parametrize nn.utils.rnn optim.lr_scheduler utils.checkpoint utils.data
"""
# Types, which PyTorch offers under these names as well.
_TYPES = {
    "Device",
    "FileLike",
    "Final",
    "GroupName",
    "MAP_LOCATION",
    "Number",
    "RankType",
    "STORAGE",
}


def modules() -> list[ModuleType]:
    rooms = [room for room in sorted(ROOMS - _COMMANDS) if not room.startswith("_")]
    return [importlib.import_module(f"fastdist.{name}") for name in [*rooms, *_BELOW.split()]]


def test_dir_shows_no_private_names_and_nothing_of_other_packages() -> None:
    found = {}
    for module in modules():
        names = [name for name in dir(module) if name not in _TYPES]
        foreign = [name for name in names if name.startswith("_") or is_foreign(module, name)]
        if foreign:
            found[module.__name__] = foreign
    assert found == {}


def is_foreign(module: ModuleType, name: str) -> bool:
    value = getattr(module, name)
    home = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    # `multiprocessing` offers the names of Python's module.
    known = ("fastdist", "multiprocessing")
    return isinstance(home, str) and not home.startswith(known)


def test_dir_shows_what_a_module_is_for() -> None:
    rpc = importlib.import_module("fastdist.distributed.rpc")
    assert {"rpc_sync", "rpc_async", "remote", "init_rpc", "shutdown", "RRef"} <= set(dir(rpc))
    assert len(dir(fastdist.distributed.autograd)) == 9
    assert {"Linear", "functional", "init", "utils"} <= set(dir(fastdist.nn))
