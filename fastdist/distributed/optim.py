"""DistributedOptimizer: one optimiser on each worker that owns parameters, stepped together.

DistributedLRScheduler changes the learning rates of these optimisers.
"""

# To its caller a DistributedOptimizer looks like one optimiser. Its groups and its state dict are
# those of a local optimiser with the same parameters in the same order. So a state that was saved
# with two workers can be loaded with three workers, or into a local optimiser, and vice versa. Each
# owner has all groups, even a group with none of its parameters. So a group has the same number on
# all owners, which schedulers and state dicts need.

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

from ..concurrency.future import Future, outcome_of, outcomes
from ..core.folded_frames import fold_methods
from ..core.missing import load_later, refusing
from ..core.short_repr import short_repr
from ..optim.optimizer import Optimizer
from ..tensor.tensor import Tensor
from . import rpc
from .autograd import get_gradients
from .rpc.agent import get_current_agent
from .rpc.message import gate

if TYPE_CHECKING:
    from ..optim.lr_scheduler import LRScheduler
    from .post_local_sgd_optimizer import PostLocalSGDOptimizer as PostLocalSGDOptimizer
    from .zero_optimizer import ZeroRedundancyOptimizer as ZeroRedundancyOptimizer

__all__ = [
    "DistributedLRScheduler", "DistributedOptimizer", "PostLocalSGDOptimizer",
    "ZeroRedundancyOptimizer", "as_functional_optim",
]  # fmt: skip

Group = dict[str, Any]
T = TypeVar("T")

as_functional_optim = refusing(
    __name__,
    "as_functional_optim",
    "it serves TorchScript and the hooks of DistributedDataParallel, which are not here; an "
    "optimizer's step_with(gradients) steps with gradients that are not in .grad",
)
_NamedOptimizer = refusing(
    __name__,
    "_NamedOptimizer",
    "an optimizer made of model.named_parameters() has the names in its groups, and "
    "distributed.checkpoint.state_dict names its state",
)


@fold_methods
class DistributedOptimizer:
    """Updates parameters on their owners, with the gradients of a distributed autograd context.

    The arguments are an optimiser class, RRefs of the parameters (or dicts with "params" and
    options of the group), and further arguments of the class. Each owner gets one optimiser for
    all of its parameters. A step sends neither states nor gradients to other workers.

    Thread  any; steps do not use `.grad`, and on each worker a second step waits for the first
    Raises  errors of the class on the owners; TypeError if `optimizer_class` is not a class of
            optimisers or is LBFGS, or if a parameter is not an RRef

    Args:
        optimizer_class: A class of fastdist.optim; each owner creates an optimiser of this class.
        params_rref: RRefs to the parameters.
        *args: Further arguments of the class.
        **kwargs: Further keyword arguments of the class, such as lr.
    """

    def __init__(
        self,
        optimizer_class: type[Optimizer],
        params_rref: Iterable[rpc.RRef[Any]] | Iterable[Group],
        *args: Any,
        **kwargs: Any,
    ) -> None:
        _require_class(optimizer_class)
        if isinstance(params_rref, rpc.RRef):
            raise TypeError("DistributedOptimizer: expected a list of RRefs, got one RRef")
        given: list[Any] = list(params_rref)
        if not given:
            raise ValueError("optimizer got an empty parameter list")
        groups = given if isinstance(given[0], dict) else [{"params": given}]
        self._groups = [_checked(group) for group in groups]
        self._class, self._args, self._kwargs = optimizer_class, args, kwargs
        self._by_owner: dict[str, rpc.RRef[LocalOptimizer]] = {}
        self._make_missing()

    @property
    def remote_optimizers(self) -> list[rpc.RRef[LocalOptimizer]]:
        """The optimisers, one per worker that owns parameters."""
        return list(self._by_owner.values())

    def step(self, context_id: int) -> None:
        """Step all parameters that have a gradient in the context, and wait for all owners.

        Note    this worker's parameters are stepped in the calling thread, while other owners step
                theirs
        Raises  RuntimeError if a worker does not know the context; the first error of an owner,
                after all other owners have stepped

        Args:
            context_id: The id of the distributed autograd context with the gradients.
        """
        here = [rref for rref in self._by_owner.values() if rref.is_owner()]
        there = [rref for rref in self._by_owner.values() if not rref.is_owner()]
        ended: list[Future[None]] = []

        def step_here() -> None:
            ended.extend([outcome_of(_step, rref, context_id) for rref in here])

        calls = [(rref.owner(), _step, (rref, context_id)) for rref in there]
        answers = get_current_agent().client.users.call_each(calls, step_here)
        outcomes([*ended, *answers])

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set `.grad` of all parameters to None, or to zero.

        Note    the gradients of a context are not in `.grad`; they are deleted with the context

        Args:
            set_to_none: Whether to set None instead of zeros.
        """
        _ask_all(self.remote_optimizers, _zero_grad, set_to_none)

    def add_param_group(self, param_group: Group) -> None:
        """Add RRefs of parameters with options; missing options get the optimizer's defaults.

        Raises  TypeError if param_group is not a dict of RRefs; errors of an owner's optimiser

        Args:
            param_group: A dict with the list of RRefs as "params", and the group's options.
        """
        group = _checked(param_group)
        self._tell_each(_add_param_group, {owner: _part(group, owner) for owner in self._by_owner})
        self._groups.append(group)
        self._make_missing()

    def state_dict(self) -> dict[str, Any]:
        """Fetch the states from all owners, and return the state dict of one optimiser with all of
        the parameters in the order in which they were given.

        Raises  ValueError if the options of a group differ between owners
        """
        parts = dict(
            zip(self._by_owner, _ask_all(self.remote_optimizers, _state_dict), strict=True)
        )
        numbers = self._numbers()
        state: dict[Any, Any] = {}
        for owner, part in parts.items():
            state |= {numbers[owner][key]: value for key, value in part["state"].items()}
        groups = []
        for number, group in enumerate(self._groups):
            theirs = {owner: part["param_groups"][number] for owner, part in parts.items()}
            local = {owner: iter(each["params"]) for owner, each in theirs.items()}
            owners = _owners_of(group)
            places = [numbers[owner][next(local[owner])] for owner in owners]
            options = _options_alike(number, {owner: theirs[owner] for owner in owners or theirs})
            groups.append({**options, "params": places})
        return {"state": dict(sorted(state.items())), "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Load a state dict of this class, or of a local optimiser with the same number of
        parameters. Each owner gets the state of the parameters that it owns.

        Raises  ValueError, before anything is loaded, if the sizes of the groups differ

        Args:
            state_dict: The dict that state_dict() returned.
        """
        saved = state_dict["param_groups"]
        self._require_same_sizes(saved)
        parts: dict[str, dict[str, Any]] = {
            owner: {"state": {}, "param_groups": []} for owner in self._by_owner
        }
        local = {owner: count() for owner in parts}
        for ours, theirs in zip(self._groups, saved, strict=True):
            options = {name: value for name, value in theirs.items() if name != "params"}
            for part in parts.values():
                part["param_groups"].append({**options, "params": []})
            for owner, number in zip(_owners_of(ours), theirs["params"], strict=True):
                place, part = next(local[owner]), parts[owner]
                part["param_groups"][-1]["params"].append(place)
                if number in state_dict["state"]:
                    part["state"][place] = state_dict["state"][number]
        self._tell_each(_load_state_dict, parts)

    def _tell_each(self, function: Callable[..., None], parts: Mapping[str, Any]) -> None:
        """Call `function(optimiser, parts[owner])` on each owner, and wait for all calls."""
        outcomes(
            [
                rpc.rpc_async(rref.owner(), function, (rref, parts[owner]))
                for owner, rref in self._by_owner.items()
            ]
        )

    def _require_same_sizes(self, saved: list[Group]) -> None:
        if len(saved) != len(self._groups):
            raise ValueError(
                "loaded state dict has a different number of parameter groups: "
                f"{len(saved)}, not {len(self._groups)}"
            )
        for number, (ours, theirs) in enumerate(zip(self._groups, saved, strict=True)):
            if len(ours["params"]) != len(theirs["params"]):
                raise ValueError(
                    "loaded state dict contains a parameter group that doesn't match the size of "
                    f"optimizer's group: group {number} has {len(theirs['params'])} parameters, "
                    f"not {len(ours['params'])}"
                )

    def _owners(self) -> Iterator[str]:
        for group in self._groups:
            yield from _owners_of(group)

    def _numbers(self) -> dict[str, list[int]]:
        """Return, for each owner, the indices of the owner's parameters among all parameters."""
        numbers: dict[str, list[int]] = {owner: [] for owner in self._by_owner}
        for number, owner in enumerate(self._owners()):
            numbers[owner].append(number)
        return numbers

    def _make_missing(self) -> None:
        # The calls run in parallel, because an import that the class needs may be slow.
        made = {
            owner: rpc.rpc_async(
                owner,
                _make_local_optimizer,
                (
                    self._class,
                    [_part(group, owner) for group in self._groups],
                    self._args,
                    self._kwargs,
                ),
            )
            for owner in dict.fromkeys(self._owners())
            if owner not in self._by_owner
        }
        self._by_owner |= dict(zip(made, outcomes([*made.values()]), strict=True))


class DistributedLRScheduler:
    """Changes the learning rates of a DistributedOptimizer, with one scheduler per owner.

    The arguments are a class of optim.lr_scheduler, the optimizer, and further arguments of the
    class. In place of the class, a function may create a scheduler from an optimizer; for example,
    it may combine two schedulers by SequentialLR. Call `step` after each epoch, as with any
    scheduler.

    Thread  any; each method waits for the owners
    Raises  TypeError if optimizer is not a DistributedOptimizer; errors of the class on the owners

    Args:
        scheduler_class: A class of optim.lr_scheduler, or a function that creates a scheduler.
        optimizer: The DistributedOptimizer.
        *args: Further arguments of the class.
        **kwargs: Further keyword arguments of the class.
    """

    def __init__(
        self,
        scheduler_class: Callable[..., LRScheduler],
        optimizer: DistributedOptimizer,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        if not isinstance(optimizer, DistributedOptimizer):
            raise TypeError(
                f"DistributedLRScheduler: {type(optimizer).__name__} is not a DistributedOptimizer"
            )
        if not callable(scheduler_class):
            raise TypeError(
                "DistributedLRScheduler: expected a class of optim.lr_scheduler, got "
                f"{short_repr(scheduler_class)}"
            )
        self.optimizer = optimizer
        self._num_groups = len(optimizer._groups)
        self.remote_schedulers: list[rpc.RRef[LRScheduler]] = _ask_all(
            optimizer.remote_optimizers, _make_local_scheduler, scheduler_class, args, kwargs
        )

    def step(self, *args: Any, **kwargs: Any) -> None:
        """Call `step` of each owner's scheduler with these arguments, such as a metric.

        Raises  RuntimeError if a parameter group was added after this scheduler was created
        """
        if len(self.optimizer._groups) != self._num_groups:
            raise RuntimeError(
                f"DistributedLRScheduler: the optimizer has {len(self.optimizer._groups)} groups "
                f"of parameters by now, and had {self._num_groups} when the scheduler was made; "
                "make the scheduler after add_param_group"
            )
        _ask_all(self.remote_schedulers, _step_scheduler, args, kwargs)

    def get_last_lr(self) -> list[float]:
        """Return the learning rates of all groups, which are the same on all owners."""
        (rates,) = _ask_all(self.remote_schedulers[:1], _rates_of_scheduler)
        return list(rates)

    def state_dict(self) -> dict[str, Any]:
        """Return a state for load_state_dict, from one owner's scheduler: all schedulers have the
        same state.
        """
        (state,) = _ask_all(self.remote_schedulers[:1], _state_of_scheduler)
        return dict(state)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state dict of this class, or of a local scheduler."""
        _ask_all(self.remote_schedulers, _load_scheduler, state_dict)


class LocalOptimizer:
    """The optimiser of the parameters that this worker owns.

    Thread  any; a call waits until earlier calls have ended
    """

    def __init__(
        self,
        optimizer_class: type[Optimizer],
        groups: list[Group],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        # Held while a method uses the optimiser. In step(), the optimiser also acquires its own
        # lock, after this one.
        self._lock = threading.Lock()
        local = [_local_values(group) for group in groups]
        is_plain = len(local) == 1 and local[0].keys() == {"params"}
        self.optimizer = optimizer_class(local[0]["params"] if is_plain else local, *args, **kwargs)

    def step(self, context_id: int) -> None:
        """Step with this worker's gradients in the context."""
        with self._lock:
            self.optimizer.step_with(get_gradients(context_id))

    def add_param_group(self, group: Group) -> None:
        """Add a group, which may have no parameters on this worker."""
        with self._lock:
            self.optimizer.add_param_group(_local_values(group))

    def state_dict(self) -> dict[str, Any]:
        """Return a copy of the state, taken between two steps."""
        with self._lock:
            return deepcopy(self.optimizer.state_dict())

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state dict."""
        with self._lock:
            self.optimizer.load_state_dict(state_dict)


# ---- functions that run on owners ---------------------------------------------------------------


@rpc.export
def _make_local_optimizer(
    optimizer_class: type[Optimizer],
    groups: list[Group],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> rpc.RRef[LocalOptimizer]:
    _require_class(optimizer_class)
    return rpc.RRef(LocalOptimizer(optimizer_class, groups, args, kwargs))


@rpc.export
def _step(rref: rpc.RRef[LocalOptimizer], context_id: int) -> None:
    _owned(rref, LocalOptimizer).step(context_id)


@rpc.export
def _zero_grad(rref: rpc.RRef[LocalOptimizer], set_to_none: bool) -> None:
    _owned(rref, LocalOptimizer).optimizer.zero_grad(set_to_none)


@rpc.export
def _add_param_group(rref: rpc.RRef[LocalOptimizer], group: Group) -> None:
    _owned(rref, LocalOptimizer).add_param_group(group)


@rpc.export
def _state_dict(rref: rpc.RRef[LocalOptimizer]) -> dict[str, Any]:
    return _owned(rref, LocalOptimizer).state_dict()


@rpc.export
def _load_state_dict(rref: rpc.RRef[LocalOptimizer], state_dict: dict[str, Any]) -> None:
    _owned(rref, LocalOptimizer).load_state_dict(state_dict)


@rpc.export
def _make_local_scheduler(
    rref: rpc.RRef[LocalOptimizer],
    scheduler_class: Callable[..., LRScheduler],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> rpc.RRef[LRScheduler]:
    gate.require_callable_by_others(scheduler_class)
    return rpc.RRef(scheduler_class(_owned(rref, LocalOptimizer).optimizer, *args, **kwargs))


@rpc.export
def _step_scheduler(
    rref: rpc.RRef[LRScheduler], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    _owned(rref, _scheduler_class()).step(*args, **kwargs)


@rpc.export
def _scheduler_class() -> type[LRScheduler]:
    # Imported here: workers without schedulers do not need the package.
    from ..optim.lr_scheduler.scheduler import LRScheduler

    return LRScheduler


def _rates_of_scheduler(rref: rpc.RRef[LRScheduler]) -> list[float]:
    rates: list[float] = _owned(rref, _scheduler_class()).get_last_lr()
    return rates


@rpc.export
def _state_of_scheduler(rref: rpc.RRef[LRScheduler]) -> dict[str, Any]:
    return deepcopy(_owned(rref, _scheduler_class()).state_dict())


@rpc.export
def _load_scheduler(rref: rpc.RRef[LRScheduler], state_dict: dict[str, Any]) -> None:
    _owned(rref, _scheduler_class()).load_state_dict(state_dict)


def _owned(rref: object, kind: type[T]) -> T:
    """Return the value of an RRef that another worker has sent; the value must be a `kind`."""
    found = rref.local_value() if isinstance(rref, rpc.RRef) else None
    if not isinstance(found, kind):
        raise TypeError(f"expected an RRef of a {kind.__name__}, got {type(found).__name__}")
    return found


def _local_values(group: Group) -> Group:
    return {**group, "params": [rref.local_value() for rref in group["params"]]}


# ---- groups of references -----------------------------------------------------------------------


def _require_class(optimizer_class: object) -> None:
    if not (isinstance(optimizer_class, type) and issubclass(optimizer_class, Optimizer)):
        raise TypeError(
            "DistributedOptimizer: expected a class of fastdist.optim, got "
            f"{short_repr(optimizer_class)}"
        )
    # If the module of LBFGS is not loaded, `optimizer_class` cannot be LBFGS or a subclass of it.
    lbfgs = sys.modules.get("fastdist.optim.lbfgs")
    if lbfgs is not None and issubclass(optimizer_class, lbfgs.LBFGS):
        raise TypeError(
            "DistributedOptimizer: LBFGS looks at all parameters at once, and calls a closure that "
            "runs the model again; take a method that steps each parameter by its own gradient"
        )


def _checked(group: Any) -> Group:
    """Return a copy of a group, in which "params" is a list of RRefs."""
    if not isinstance(group, dict):
        if isinstance(group, Tensor) or not hasattr(group, "keys"):
            raise TypeError(f"param_group must be a dict, but got {type(group)}")
        group = dict(group)
    given = group["params"]
    rrefs = [given] if isinstance(given, rpc.RRef) else list(given)
    for rref in rrefs:
        if not isinstance(rref, rpc.RRef):
            raise TypeError(
                "DistributedOptimizer: expected RRefs of parameters, got "
                f"{type(rref).__name__}; wrap it: rpc.RRef(parameter)"
            )
    return {**group, "params": rrefs}


def _owners_of(group: Group) -> list[str]:
    return [rref.owner_name() for rref in group["params"]]


def _part(group: Group, owner: str) -> Group:
    """Return a group with the parameters of one owner."""
    return {**group, "params": [rref for rref in group["params"] if rref.owner_name() == owner]}


def _options_alike(number: int, groups: dict[str, Group]) -> Group:
    """Return the options of group `number`; check that they are the same on all owners."""
    first, *others = groups
    for owner in others:
        for name, value in groups[first].items():
            if name != "params" and not _are_alike(groups[owner][name], value):
                raise ValueError(
                    f"DistributedOptimizer: group {number} has {name}={short_repr(value)} on "
                    f"{short_repr(first)} and "
                    f"{short_repr(groups[owner][name])} on {short_repr(owner)}; somebody "
                    "changed one of them alone"
                )
    return groups[first]


def _are_alike(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return bool(one.tolist() == other.tolist())
    return bool(one == other)


def _ask_all(rrefs: Iterable[rpc.RRef[Any]], function: Callable[..., T], *args: Any) -> list[T]:
    """Call function(rref, *args) on the owner of each RRef, and return the results."""
    asked = [rpc.rpc_async(rref.owner(), function, (rref, *args)) for rref in rrefs]
    return outcomes(asked)


load_later(
    __name__,
    {
        "PostLocalSGDOptimizer": ".post_local_sgd_optimizer",
        "ZeroRedundancyOptimizer": ".zero_optimizer",
    },
)
