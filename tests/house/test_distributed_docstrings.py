"""The public functions and classes of the distributed rooms say what each parameter means."""

from __future__ import annotations

import enum
import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

from fastdist.distributed import Store
from fastdist.distributed.rpc import Future, RRef
from fastdist.namespace.names import words

ROOMS = words(
    """
    autograd checkpoint device_mesh explain launch monitor nn optim preemption profiler rendezvous
    restarts rpc store
    """
)
UNSAID = {"self", "args", "kwargs"}
# PyTorch's names of internals: agents, handlers and options of methods of ProcessGroup.
INTERNAL = re.compile(
    r"Agent|Backend|Context|Handler|Metadata|Options$|Profiler|Reply|handler|Work$|ProcessGroup$"
)


def public() -> Iterator[tuple[str, Any]]:
    rooms = ["fastdist.distributed", *(f"fastdist.distributed.{room}" for room in sorted(ROOMS))]
    for room in rooms:
        module = importlib.import_module(room)
        for name in getattr(module, "__all__", None) or dir(module):
            found = getattr(module, name)
            is_made = inspect.isclass(found) and not issubclass(found, enum.Enum | BaseException)
            is_here = str(getattr(found, "__module__", "")).startswith("fastdist.distributed")
            if (is_made or inspect.isfunction(found)) and is_here and not name.startswith("_"):
                yield f"{room}.{name}", found
    for kind in (Future, RRef, Store):
        for name in dir(kind):
            if not name.startswith("_") and inspect.isfunction(getattr(kind, name)):
                yield f"{kind.__name__}.{name}", getattr(kind, name)


def test_parameters_of_the_distributed_rooms_are_explained() -> None:
    silent, seen = {}, 0
    for name, found in public():
        if INTERNAL.search(name):
            continue
        doc, seen = inspect.getdoc(found) or "", seen + 1
        parameters = {one for one in inspect.signature(found).parameters if one[0] != "_"}
        if lacks := {one for one in parameters - UNSAID if not re.search(rf"\b{one}\b", doc)}:
            silent[name] = lacks
    assert seen > 200, "the list of public names is cut"
    assert silent == {}
