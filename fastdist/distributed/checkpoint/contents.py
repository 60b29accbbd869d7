"""The contents of objects as leaves: modules, optimisers, Stateful objects, tensors, values."""

# Note [Optimisers by the names of parameters] An optimiser's state dict numbers its parameters.
# These numbers mean nothing on a worker with other parameters. So if all parameters of an optimiser
# belong to modules that are saved in the same checkpoint, by one worker or several, its state is
# saved under the parameters' names. Then the optimisers of all workers are parts of one entry, and
# each finds its state again even if a module has moved to another worker. If an optimiser has
# parameters that belong to none of these modules, its state is saved under the parameters' numbers.
# If this optimiser is one worker's part of a DistributedOptimizer, the path of its state also
# contains the worker's name.

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from ...nn import Module
from ...optim.optimizer import Optimizer
from .. import rpc
from ..optim import DistributedOptimizer, LocalOptimizer
from .stateful import Stateful
from .tree import Path, key_of, leaves


@rpc.export
class Thing(NamedTuple):
    """An entry of a state dict: its path, its value, which may be an RRef, and the dict or list
    that contains it.
    """

    path: Path
    value: Any
    holder: Any = None

    def here(self) -> Thing:
        """Return the entry; if its value is an RRef, the entry gets the object, which is here."""
        if isinstance(self.value, rpc.RRef):
            return Thing(self.path, self.value.local_value())
        return self


class Plan(NamedTuple):
    """The entries of a state dict: those of this worker, and those of other workers by owner."""

    here: list[Thing]
    there: dict[str, list[Thing]]


def planned(state_dict: Mapping[str, Any]) -> Plan:
    """Return all entries of a state dict, by owner.

    Raises  TypeError for a value that is not a dict
    """
    if not isinstance(state_dict, Mapping):
        raise TypeError(f"expected a state dict, got {type(state_dict).__name__}")
    plan = Plan([], {})
    for thing in _things(state_dict, (), None):
        if isinstance(thing.value, rpc.RRef) and not thing.value.is_owner():
            # The new Thing does not refer to the containing dict, which must not be sent.
            there = plan.there.setdefault(thing.value.owner_name(), [])
            there.append(Thing(thing.path, thing.value))
        else:
            plan.here.append(thing)
    return plan


def _things(value: Any, path: Path, holder: Any) -> Iterator[Thing]:
    if isinstance(value, DistributedOptimizer):
        value = value.remote_optimizers
    if isinstance(value, Mapping) and value and all(isinstance(k, str | int) for k in value):
        for key, inner in value.items():
            yield from _things(inner, (*path, key), value)
    elif isinstance(value, list | tuple) and value and _are_references(value):
        # The RRefs of a list form one entry: each owner adds its part under the same key.
        for part in value:
            yield Thing(path, part)
    elif isinstance(value, list | tuple) and any(map(is_stateful, value)):
        for place, inner in enumerate(value):
            yield from _things(inner, (*path, (type(value).__name__, place)), value)
    else:
        yield Thing(path, value, holder)


def _are_references(values: Sequence[Any]) -> bool:
    return all(isinstance(value, rpc.RRef) for value in values)


def contents(things: Sequence[Thing]) -> Iterator[tuple[Path, Any]]:
    """Yield all leaves of local entries, each with its path."""
    names = names_of_parameters(things)
    for path, value, _ in things:
        optimizer, at = optimizer_at(path, value)
        if optimizer is not None and (named := named_groups(optimizer, names)) is not None:
            yield from _named_state(optimizer, path, named)
        elif optimizer is not None:
            yield from leaves(optimizer.state_dict(), at)
        elif is_stateful(value):
            yield from leaves(value.state_dict(), path)
        else:
            yield from leaves(value, path)


def is_stateful(value: Any) -> bool:
    """Return whether a value provides its state through state_dict()."""
    return isinstance(value, Stateful) and not isinstance(value, type)


def names_of_parameters(things: Sequence[Thing]) -> dict[int, str]:
    """Return the key of each parameter of the modules in `things`, by the parameter's id()."""
    return {
        id(parameter): key_of((*path, name))
        for path, value, _ in things
        if isinstance(value, Module)
        for name, parameter in value.named_parameters()
    }


def optimizer_at(path: Path, value: Any) -> tuple[Optimizer | None, Path]:
    """Return an entry's optimiser (None for another object), and the path of its state."""
    if isinstance(value, LocalOptimizer):
        return value.optimizer, (*path, rpc.get_worker_info().name)
    return (value if isinstance(value, Optimizer) else None), path


def named_groups(optimizer: Optimizer, names: Mapping[int, str]) -> list[list[str]] | None:
    """Return the names of each group's parameters; None unless all parameters have names."""
    groups = [[names.get(id(p)) for p in group["params"]] for group in optimizer.param_groups]
    found = [[name for name in group if name is not None] for group in groups]
    return found if found == groups else None


def _named_state(
    optimizer: Optimizer, path: Path, groups: list[list[str]]
) -> Iterator[tuple[Path, Any]]:
    packed = optimizer.state_dict()
    for group, named in zip(packed["param_groups"], groups, strict=True):
        options = {word: v for word, v in group.items() if word not in ("params", "param_names")}
        for name in named:
            yield from leaves(options, (*path, "param_groups", name))
    names = list(chain.from_iterable(groups))
    for number, state in packed["state"].items():
        name = names[number] if isinstance(number, int) else number
        yield from leaves(state, (*path, "state", name))
