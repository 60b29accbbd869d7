"""Join: `with` blocks in which processes of a group may have different numbers of inputs."""

# Note [Uneven inputs]
# Each forward pass of an active process (a process with further inputs) begins with a small
# reduction. Its result shows all processes which of them are active, and which collectives the
# forward and backward pass will run. A process without further inputs takes part in these
# reductions, and in the announced collectives, until no process is active. It contributes zeros to
# the collectives of other processes' forward and backward passes: it "shadows" the collectives.

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from ...core.device import CPU
from ...core.missing import show_public
from ...tensor.tensor import from_array
from ..data_parallel.same_model import broadcast_tensors
from ..process_group.options import AllreduceOptions
from ..process_group.reductions import ReduceOp

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["Join", "JoinHook", "Joinable"]

_ACTIVE: Final = 1
_SYNCS: Final = 2
_SYNCS_BUFFERS: Final = 4
# The number of shadowed iterations after which a process warns.
_WARN_AFTER: Final = 1000


class JoinHook:
    """The work of a process without further inputs."""

    def main_hook(self) -> None:
        """Shadow the collectives of the other processes in one iteration."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Run when no process has further inputs.

        Args:
            is_last_joiner: Whether this process was among the last processes that had inputs.
        """


class Joinable(ABC):
    """An object that a Join takes; it calls `Join.notify_join_context` once per iteration."""

    _join_config: Any = None

    @abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """Return the JoinHook that runs when this process has no further inputs."""

    @property
    @abstractmethod
    def join_device(self) -> Any:
        """The device of the tensors in the block's collectives."""

    @property
    @abstractmethod
    def join_process_group(self) -> Any:
        """The process group of the block."""


class _Config(NamedTuple):
    """The options of the block that contains a joinable."""

    throws: bool
    is_first: bool


class Join:
    """A `with` block in which processes without further inputs shadow the others' collectives.

    Raises  ValueError if there are no joinables, or they have several groups; RuntimeError with
            throw_on_early_termination, if a process has no further inputs

    Args:
        joinables: DistributedDataParallel models and other Joinables, in the order of their
            collectives.
        enable: If False, the block has no effect.
        throw_on_early_termination: Whether all processes raise an error when one of them has no
            further inputs.
        kwargs: Passed to join_hook of each joinable.
    """

    def __init__(
        self,
        joinables: Sequence[Any],
        enable: bool = True,
        throw_on_early_termination: bool = False,
        **kwargs: Any,
    ) -> None:
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable")
        self._joinables = list(joinables)
        groups = {id(one.join_process_group) for one in self._joinables}
        if len(groups) > 1:
            raise ValueError("Using join context manager with multiple process groups")
        self._group = self._joinables[0].join_process_group
        self._enable, self._throws = enable, throw_on_early_termination
        self._hooks = [one.join_hook(**kwargs) for one in self._joinables]

    def __enter__(self) -> Join:
        if self._enable:
            for index, one in enumerate(self._joinables):
                one._join_config = _Config(self._throws, is_first=index == 0)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self._enable:
            return
        for one in self._joinables:
            one._join_config = None
        if kind is not None:
            return
        is_last, count = True, 0
        while any(state := share(self._group, 0)):
            if self._throws:
                raise RuntimeError(f"Rank {self._group.rank()} exhausted all inputs.")
            is_last, count = False, count + 1
            if count == _WARN_AFTER:
                warnings.warn(
                    f"Detected uneven input skew of greater than {_WARN_AFTER}. This means that "
                    f"rank {self._group.rank()} has at least {_WARN_AFTER} fewer inputs than other "
                    "currently-active ranks. This level of skew could lead to performance "
                    "degradation during training.",
                    stacklevel=2,
                )
            for hook in self._hooks:
                if isinstance(hook, DataParallelJoinHook):
                    hook.state = state
                hook.main_hook()
        for hook in self._hooks:
            hook.post_hook(is_last)

    @staticmethod
    def notify_join_context(joinable: Any) -> None:
        """Record that a joinable begins an iteration, on a process that has inputs.

        Raises  RuntimeError with throw_on_early_termination, if another process has no further
                inputs
        """
        notify(joinable, _ACTIVE | _SYNCS)


def share(group: Any, own: int) -> list[int]:
    """Return all members' announcements for their next iteration; 0 from members without inputs."""
    numbers = np.zeros(group.size(), np.int64)
    numbers[group.rank()] = own
    group.allreduce([from_array(numbers, CPU)], AllreduceOptions(asyncOp=False))
    return [int(number) for number in numbers]


def notify(joinable: Any, own: int) -> list[int]:
    """Announce an iteration; return all announcements, or [] if another joinable announces it.

    Raises  RuntimeError with throw_on_early_termination, if another process has no further inputs
    """
    config = joinable._join_config
    if config is None or not config.is_first:
        return []
    state = share(joinable.join_process_group, own)
    if config.throws and not all(state):
        raise RuntimeError(
            "Detected at least one rank that exhausted inputs. Throwing across all ranks."
        )
    return state


def note_forward(model: Any, syncs: bool) -> None:
    """Announce a forward of a DistributedDataParallel, and count the processes that take part."""
    own = _ACTIVE
    own |= _SYNCS if syncs else 0
    own |= _SYNCS_BUFFERS if model.will_sync_module_buffers() else 0
    state = notify(model, own)
    if state and not model._divides_by_world:
        model.reducer.divisor = sum(map(bool, state))
    model._buffer_root = next((rank for rank, one in enumerate(state) if one), 0)


class DataParallelJoinHook(JoinHook):
    """Shadows a DistributedDataParallel on a process without further inputs."""

    def __init__(self, model: Any, divide_by_initial_world_size: bool) -> None:
        self._model = model
        model._divides_by_world = divide_by_initial_world_size
        # All members' announcements for the iteration.
        self.state: list[int] = []

    def main_hook(self) -> None:
        """Take part in the broadcasts of buffers and the reductions of gradients."""
        model = self._model
        announced = 0
        for one in self.state:
            announced |= one
        if announced & _SYNCS:
            model.reducer.rebuild()
        if announced & _SYNCS_BUFFERS:
            model._sync_buffers(next(rank for rank, one in enumerate(self.state) if one))
        if announced & _SYNCS:
            if not model._divides_by_world:
                model.reducer.divisor = sum(map(bool, self.state))
            model.reducer.shadow()

    def post_hook(self, is_last_joiner: bool) -> None:
        """Broadcast the model of a process that had inputs until the end."""
        model, group = self._model, self._model.process_group
        own = group.rank() if is_last_joiner else -1
        last = from_array(np.array([own], np.int64), CPU)
        group.allreduce([last], AllreduceOptions(reduceOp=ReduceOp.MAX, asyncOp=False))
        named = (*model.module.named_parameters(), *model.module.named_buffers())
        broadcast_tensors(group, [one.detach() for _, one in named], int(last._array[0]))
        model.reducer.divisor, model._buffer_root = None, 0


show_public(__name__)
