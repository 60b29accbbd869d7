"""`dir`, and so completion, shows only the public names of public modules."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import fastdist
from bench.torch_names import read
from tests.namespace.public_modules import public_modules

# Modules whose `__dir__` also lists names that other modules define.
_OF_OTHER_MODULES = {"distributed", "distributed.distributed_c10d", "serialization"}
# Types that PyTorch's modules also show under these names.
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


def test_dir_shows_no_private_names_and_nothing_of_other_packages() -> None:
    found = {}
    for path, module in public_modules().items():
        known = _TYPES | set(read()["names"].get(path, ()))
        names = [name for name in dir(module) if name not in known]
        foreign = [name for name in names if name.startswith("_") or is_foreign(module, name)]
        if foreign:
            found[module.__name__] = foreign
    assert found == {}


def test_dir_shows_what_a_module_defines_lists_or_has_in_pytorch() -> None:
    """`dir` omits helpers that a module imports from another package of fastdist."""
    known = read()["names"]
    found = {
        path: borrowed_names(module, set(known.get(path, ())))
        for path, module in public_modules().items()
        if path not in _OF_OTHER_MODULES
    }
    assert {path: names for path, names in found.items() if names} == {}


def test_dir_shows_no_imports_of_any_module_that_pytorch_has_too() -> None:
    paths = Path(__file__).with_name("shared_modules.txt").read_text().split()
    assert len(paths) > 200
    found = {}
    for path in paths:
        module = importlib.import_module(f"fastdist.{path}")
        listed = {*vars(module).get("__all__", ()), *_TYPES}
        names = [name for name in dir(module) if name not in listed]
        if imported := [name for name in names if name[0] == "_" or is_foreign(module, name)]:
            found[path] = imported
    assert found == {}


def borrowed_names(module: ModuleType, in_pytorch: set[str]) -> list[str]:
    listed = {*vars(module).get("__all__", ()), *in_pytorch, *_TYPES}
    return [name for name in dir(module) if name not in listed and not is_own(module, name)]


def is_own(module: ModuleType, name: str) -> bool:
    value = getattr(module, name)
    home = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", "")
    return f"{home}.".startswith(f"{module.__name__}.")


def is_foreign(module: ModuleType, name: str) -> bool:
    value = getattr(module, name)
    home = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    # Python's own `multiprocessing` defines the names that `fastdist.multiprocessing` offers.
    known = ("fastdist", "multiprocessing")
    return isinstance(home, str) and not home.startswith(known)


def test_dir_shows_what_a_module_is_for() -> None:
    rpc = importlib.import_module("fastdist.distributed.rpc")
    assert {"rpc_sync", "rpc_async", "remote", "init_rpc", "shutdown", "RRef"} <= set(dir(rpc))
    assert len(dir(fastdist.distributed.autograd)) == 9
    assert {"Linear", "functional", "init", "utils"} <= set(dir(fastdist.nn))
