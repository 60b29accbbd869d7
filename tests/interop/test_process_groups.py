"""Errors of process groups and data-parallel training begin with PyTorch's words."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

import fastdist
import fastdist.distributed

pytestmark = pytest.mark.interop("torch")

# Compare this many words, since PyTorch's message then ends or names files of PyTorch.
WORDS = 8


def ddp(library: ModuleType) -> Any:
    """Return the DistributedDataParallel class of a library."""
    return library.nn.parallel.DistributedDataParallel


def late_static(library: Any) -> None:
    """Declare the graph static only after a step."""
    model = ddp(library)(library.nn.Linear(2, 2))
    model(library.ones(1, 2)).sum().backward()
    model._set_static_graph()


def unused(library: Any) -> None:
    """Make a step that does not use one of the parameters."""
    layers = library.nn.ModuleList([library.nn.Linear(2, 2), library.nn.Linear(2, 2)])
    layers.forward = layers[0]
    model = ddp(library)(layers)
    model(library.ones(1, 2)).sum().backward()
    model(library.ones(1, 2))


# By name, calls that raise in either library.
CALLS: dict[str, Callable[[Any], Any]] = {
    "twice": lambda t: t.distributed.init_process_group("gloo"),
    "send to oneself": lambda t: t.distributed.send(t.ones(1), 0),
    "no root": lambda t: t.distributed.broadcast(t.ones(1)),
    "gather without a list": lambda t: t.distributed.gather(t.ones(1)),
    "scatter without a list": lambda t: t.distributed.scatter(t.ones(1)),
    "maximum of complex": lambda t: t.distributed.all_reduce(
        t.ones(1, dtype=t.complex64), t.distributed.ReduceOp.MAX
    ),
    "bits of floats": lambda t: t.distributed.all_reduce(t.ones(1), t.distributed.ReduceOp.BAND),
    "splits": lambda t: t.distributed.all_to_all_single(t.ones(3), t.ones(2), [2], [2]),
    "rank out of range": lambda t: t.distributed.new_group([3]),
    "rank twice": lambda t: t.distributed.new_group([0, 0]),
    "group size": lambda t: t.distributed.new_subgroups(3),
    "no splits": lambda t: t.distributed.split_group(),
    "no group rank": lambda t: t.distributed.get_global_rank(t.distributed.new_group([0]), 4),
    "no group": lambda t: t.distributed.get_rank(3),
    "op of a batch": lambda t: t.distributed.P2POp(t.distributed.send, t.ones(1), 0),
    "axis names": lambda t: t.distributed.init_device_mesh(
        "cpu", (1, 1), mesh_dim_names=("a", "a")
    ),
    "mesh too large": lambda t: t.distributed.init_device_mesh("cpu", (3, 3)),
    "no gradients": lambda t: ddp(t)(t.nn.ReLU()),
    "lazy": lambda t: ddp(t)(t.nn.LazyLinear(2)),
    "devices": lambda t: ddp(t)(t.nn.Linear(2, 2), device_ids=[0, 1]),
    "hook": lambda t: ddp(t)(t.nn.Linear(2, 2)).register_comm_hook(None, 3),
    "static": late_static,
    "unused": unused,
}


@pytest.fixture(scope="module")
def both() -> Iterator[list[Any]]:
    """Yield both libraries, each with a default group of one process."""
    import torch.distributed

    libraries: list[Any] = [torch, fastdist]
    for one in libraries:
        store = one.distributed.HashStore()
        one.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield libraries
    for one in libraries:
        one.distributed.destroy_process_group()


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore")
def test_errors_begin_with_the_same_words(both: list[Any], name: str) -> None:
    texts = []
    for library in both:
        with pytest.raises((TypeError, ValueError, RuntimeError)) as found:
            CALLS[name](library)
        texts.append(re.findall(r"[A-Za-z_]{2,}", str(found.value).replace("fastdist", "torch")))
    theirs, ours = texts
    assert ours[: min(WORDS, len(theirs))] == theirs[:WORDS]


@pytest.mark.filterwarnings("ignore")
def test_signatures_are_the_same() -> None:
    import torch.distributed

    ours, theirs = fastdist.distributed.distributed_c10d, torch.distributed.distributed_c10d
    names = [name for name in ours.REAL if inspect.isfunction(getattr(theirs, name, None))]
    assert len(names) > 45
    for name in names:
        both_lists = [
            [*inspect.signature(getattr(library, name)).parameters] for library in (ours, theirs)
        ]
        assert both_lists[0] == both_lists[1], name
    for path in ("nn.parallel.DistributedDataParallel", "distributed.P2POp"):
        kinds: list[Any] = []
        for library in (fastdist, torch):
            found: Any = library
            for part in path.split("."):
                found = getattr(found, part)
            kinds.append([*inspect.signature(found.__init__).parameters])
        assert kinds[0] == kinds[1], path
