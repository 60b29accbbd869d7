"""LRScheduler, the base class of learning rate schedulers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ...core.caller_warning import warn_caller
from ...core.folded_frames import fold_methods
from ...graph.modes import no_grad
from ...tensor.tensor import Tensor
from ..optimizer import Optimizer

EPOCH_IS_OLD = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where "
    "possible. Please use `scheduler.step()` to step the scheduler. During the deprecation, if "
    "epoch is different from None, the closed form is used instead of the new chainable form, "
    "where available. Please open an issue if you are unable to replicate your use case: "
    "https://github.com/pytorch/pytorch/issues/new/choose."
)
_SEE = "See more details at https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"
_OVERRIDDEN = (
    "Seems like `optimizer.step()` has been overridden after learning rate scheduler "
    "initialization. Please, make sure to call `optimizer.step()` before "
    f"`lr_scheduler.step()`. {_SEE}"
)
_TOO_SOON = (
    "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and later, "
    "you should call them in the opposite order: `optimizer.step()` before `lr_scheduler.step()`.  "
    "Failure to do this will result in PyTorch skipping the first value of the learning rate "
    f"schedule. {_SEE}"
)
Rate = Any  # a float, or a Tensor of one element that is updated in place


def copies_of(groups: list[dict[str, Any]], key: str) -> list[Rate]:
    """Return the values of all groups under `key`; Tensors are copied."""
    return [copy_of(group[key]) for group in groups]


def copy_of(rate: Rate) -> Rate:
    """Return a copy of the rate, so that later in-place updates do not change it."""
    return rate.detach().clone() if isinstance(rate, Tensor) else rate


def set_in(group: dict[str, Any], key: str, value: Rate) -> None:
    """Set an option of a group. If the option is a Tensor, it is updated in place."""
    if isinstance(group[key], Tensor):
        with no_grad():
            group[key].fill_(value.item() if isinstance(value, Tensor) else value)
    else:
        group[key] = value


def one_for_each(name: str, optimizer: Optimizer, given: Any) -> list[Any]:
    """Return a list of one value per group of an optimiser, made from a list or a single value."""
    count = len(optimizer.param_groups)
    if not isinstance(given, list | tuple):
        return [copy_of(given) for _ in range(count)]
    if len(given) != count:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has {len(given)} "
            f"values, param_groups has {count}."
        )
    return [copy_of(each) for each in given]


def require_optimizer(optimizer: Any) -> None:
    """Raise TypeError if the value is not an Optimizer."""
    if not isinstance(optimizer, Optimizer):
        name = type(optimizer).__name__
        here = (
            "; its rates change by distributed.optim.DistributedLRScheduler(StepLR, optimizer, ...)"
        )
        raise TypeError(
            f"{name} is not an Optimizer{here if name == 'DistributedOptimizer' else ''}"
        )


@fold_methods
class LRScheduler:
    """Sets the learning rate of each group of an optimiser; call step after each epoch.

    A subclass implements `get_lr()`, which computes the rates at last_epoch from the current rates.
    So changes that a user or another scheduler made are kept. A subclass can also implement
    `_get_closed_form_lr()`, a formula that depends only on the epoch, as in PyTorch.

    Raises  KeyError if last_epoch is given and a group has no initial_lr
    Note    if last_epoch is given, the groups must already have the rates of that epoch
    """

    last_epoch: int
    # Whether the constructor is making the first step. The groups already have this step's rates.
    _is_initial = False
    # Whether `step` is calling `get_lr`; for a direct call by a user, `get_lr` warns.
    _get_lr_called_within_step = False
    _step_count = 0

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        fold_methods(cls)

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        require_optimizer(optimizer)
        self.optimizer = optimizer
        for number, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copy_of(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{number}] when resuming "
                    "scheduler with last_epoch >= 0: load the optimizer's state dict first, or "
                    "begin without last_epoch"
                )
        self.base_lrs = copies_of(optimizer.param_groups, "initial_lr")
        self.last_epoch = last_epoch
        self._step_of_optimizer = _step_of(optimizer)
        if optimizer._opt_called is None:
            optimizer._opt_called = False
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def get_lr(self) -> list[Rate]:
        """Return the rates of all groups at last_epoch, computed from the current rates."""
        raise NotImplementedError(f"{type(self).__name__} does not implement get_lr")

    def step(self, epoch: Any = None) -> None:
        """Advance to the next epoch, or to the given epoch (deprecated in PyTorch)."""
        if self._step_count == 1:
            self._warn_of_order()
        self._step_count += 1
        if epoch is not None:
            warn_caller(EPOCH_IS_OLD)
        self._update_lr(epoch)

    def _warn_of_order(self) -> None:
        step = _step_of(self.optimizer)
        # `_step_of_optimizer` is missing in unpickled schedulers, and in subclasses whose __init__
        # does not call the one of this class.
        known = self.__dict__.get("_step_of_optimizer", step)
        if step is not known and not hasattr(step, "_wrapped_by_lr_sched"):
            warn_caller(_OVERRIDDEN)
        elif not self.optimizer._opt_called:
            warn_caller(_TOO_SOON)

    def _update_lr(self, epoch: Any = None) -> None:
        """Set the rates of the next epoch, or of a given epoch with the closed form."""
        rates: Callable[[], list[Rate]] = self.get_lr
        if epoch is None:
            self.last_epoch += 1
        else:
            self.last_epoch = epoch
            rates = getattr(self, "_get_closed_form_lr", rates)
        with self._within_step():
            found = rates()
        self._set(found)

    @contextmanager
    def _within_step(self) -> Iterator[None]:
        self._get_lr_called_within_step = True
        try:
            yield
        finally:
            self._get_lr_called_within_step = False

    def _warn_unless_in_step(self) -> None:
        if not self._get_lr_called_within_step:
            warn_caller(
                "To get the last learning rate computed by the scheduler, please use "
                "`get_last_lr()`.",
            )

    def _present(self) -> list[Rate]:
        """Return the current rates of all groups."""
        return copies_of(self.optimizer.param_groups, "lr")

    def _set(self, rates: list[Rate]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            set_in(group, "lr", rate)
        self._last_lr = self._present()

    def get_last_lr(self) -> list[Rate]:
        """Return the rates that the last step set."""
        return self._last_lr

    def state_dict(self) -> dict[str, Any]:
        """Return the state without the optimiser and without functions."""
        return {
            name: value
            for name, value in self.__dict__.items()
            if name not in ("optimizer", "_step_of_optimizer") and not callable(value)
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore a state dict."""
        self.__dict__.update(state_dict)


class _LRScheduler(LRScheduler):
    """LRScheduler under the name that it had before PyTorch 2.0."""


def _step_of(optimizer: Optimizer) -> Any:
    """Return the function behind optimizer.step: the class's method, or what has replaced it."""
    return vars(optimizer).get("step", type(optimizer).step)
