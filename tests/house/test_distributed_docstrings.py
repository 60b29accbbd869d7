"""The docstrings of public functions and classes for distributed work explain each parameter."""

from __future__ import annotations

import doctest
import enum
import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import fastdist.distributed as dist
from fastdist.distributed import ProcessGroup, Store, Work
from fastdist.distributed.optim import DistributedOptimizer
from fastdist.distributed.rpc import Future, RRef
from fastdist.namespace.names import words
from tests.house.test_examples import printed_by

ROOMS = words(
    """
    autograd checkpoint device_mesh explain launch monitor nn optim preemption profiler rendezvous
    restarts rpc store
    """
)
UNSAID = {"self", "args", "kwargs"}
# PyTorch's names of internal classes: agents, handlers and options of ProcessGroup's methods.
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
    for kind in (DistributedOptimizer, Future, ProcessGroup, RRef, Store, Work):
        for name, method in methods(kind).items():
            yield f"{kind.__name__}.{name}", method


def methods(kind: type) -> dict[str, Any]:
    names = [name for name in dir(kind) if not name.startswith("_")]
    return {name: getattr(kind, name) for name in names if inspect.isfunction(getattr(kind, name))}


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


def test_methods_that_start_a_collective_say_their_result_and_errors() -> None:
    starts = {
        name: inspect.getdoc(method) or ""
        for name, method in methods(ProcessGroup).items()
        if inspect.signature(method).return_annotation == "Work"
    }
    assert len(starts) > 15
    entries = ("Args:", "Returns:", "Raises  ")
    lacks = {name: [one for one in entries if one not in doc] for name, doc in starts.items()}
    assert {name: some for name, some in lacks.items() if some} == {}


def test_examples_of_classes_and_methods_show_what_happens() -> None:
    documented = {
        f"{kind.__name__}.{name}".rstrip("."): inspect.getdoc(found) or ""
        for kind in (ProcessGroup, Store, Work)
        for name, found in {"": kind, **methods(kind)}.items()
    }
    parsed = {name: doctest.DocTestParser().get_examples(doc) for name, doc in documented.items()}
    assert {"ProcessGroup.allreduce", "Store", "Work"} <= {name for name in parsed if parsed[name]}
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        assert "".join(printed_by(name, some) for name, some in parsed.items()) == ""
    finally:
        dist.destroy_process_group()
