"""The contents of objects, as leaves: modules, optimisers, Stateful objects, tensors, values."""

# Note [Optimisers by the names of parameters] A state dict of an optimiser numbers its parameters.
# Numbers have no meaning on a worker with other parameters. So where all parameters of an optimiser
# belong to modules that are saved with it, from one worker or several, its state is saved under
# their names: the optimisers of all workers are parts of one thing, and find their state again
# wherever a module moves. State of an optimiser whose parameters are not all in modules keeps its
# numbers; for an optimiser behind a DistributedOptimizer, under the name of its worker.

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
    """An object, or an RRef of it; where in the state dict it stands, and in which dict."""

    path: Path
    value: Any
    holder: Any = None

    def here(self) -> Thing:
        """Return it with the RRef replaced by its value, which this worker owns."""
        if isinstance(self.value, rpc.RRef):
            return Thing(self.path, self.value.local_value())
        return self


class Plan(NamedTuple):
    """The contents of a state dict: the local ones, and by owner those of other workers."""

    here: list[Thing]
    there: dict[str, list[Thing]]


def planned(state_dict: Mapping[str, Any]) -> Plan:
    """Return where everything in a state dict is.

    Raises  TypeError for a value that is not a dict
    """
    if not isinstance(state_dict, Mapping):
        raise TypeError(f"expected a state dict, got {type(state_dict).__name__}")
    plan = Plan([], {})
    for thing in _things(state_dict, (), None):
        if isinstance(thing.value, rpc.RRef) and not thing.value.is_owner():
            # Without the dict that it stands in, which is not to travel.
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
        # Parts of one thing: each owner adds what it has under the same key.
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
    """Yield all leaves of things, which are here, and the way to each."""
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
    """Return whether a value tells its state itself."""
    return isinstance(value, Stateful) and not isinstance(value, type)


def names_of_parameters(things: Sequence[Thing]) -> dict[int, str]:
    """Return the keys of the parameters of all modules among things, by the parameters' ids."""
    return {
        id(parameter): key_of((*path, name))
        for path, value, _ in things
        if isinstance(value, Module)
        for name, parameter in value.named_parameters()
    }


def optimizer_at(path: Path, value: Any) -> tuple[Optimizer | None, Path]:
    """Return the optimiser that a thing is, if it is one, and where it stands with its numbers."""
    if isinstance(value, LocalOptimizer):
        return value.optimizer, (*path, rpc.get_worker_info().name)
    return (value if isinstance(value, Optimizer) else None), path


def named_groups(optimizer: Optimizer, names: Mapping[int, str]) -> list[list[str]] | None:
    """Return the names of each group's parameters, None where not all have one."""
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
