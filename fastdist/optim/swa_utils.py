"""Averages of a model's parameters over training, and a learning rate schedule for averaging.

AveragedModel stores the averages. The weights are equal (stochastic weight averaging), or lower for
older values (exponential moving average). SWALR changes the learning rate to the one that is used
while averaging. update_bn recomputes the statistics of batch norm layers of the averaged model.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from typing import Any

from ..core.dtypes import int64
from ..core.folded_frames import fold_public
from ..core.missing import explain_missing
from ..graph.modes import no_grad
from ..nn.module import Module
from ..ops.create.creation import tensor
from ..tensor.tensor import Tensor
from .fused import fused
from .lr_scheduler.scheduler import LRScheduler, Rate, one_for_each
from .optimizer import Optimizer

Average = Callable[[Tensor, Tensor, Any], Tensor]
AverageOfLists = Callable[[Any, Any, Any], None]
_approach = fused("a + share * (x - a)", "a", "x", "share")


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """Return an avg_fn for AveragedModel: the exponential moving average of a Tensor."""
    _require_decay(decay)

    def ema_update(ema_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        with no_grad():
            average: Tensor = decay * ema_param + (1 - decay) * current_param
        return average

    return ema_update


def get_swa_avg_fn() -> Average:
    """Return an avg_fn for AveragedModel: the average of a Tensor with equal weights."""

    def swa_update(averaged_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        with no_grad():
            step: Tensor = (current_param - averaged_param) / (num_averaged + 1)
            return averaged_param + step

    return swa_update


def get_ema_multi_avg_fn(decay: float = 0.999) -> AverageOfLists:
    """Return a multi_avg_fn for AveragedModel.

    The function updates lists of Tensors to their exponential moving averages in place.
    """
    _require_decay(decay)

    def ema_update(ema_param_list: Any, current_param_list: Any, _: Any) -> None:
        with no_grad():
            for average, current in zip(ema_param_list, current_param_list, strict=True):
                if average.is_floating_point():
                    _approach(average, current, 1 - decay)
                else:
                    average.copy_(average * decay + current * (1 - decay))

    return ema_update


def get_swa_multi_avg_fn() -> AverageOfLists:
    """Return a multi_avg_fn for AveragedModel, which averages with equal weights."""

    def swa_update(averaged_param_list: Any, current_param_list: Any, num_averaged: Any) -> None:
        count = float(num_averaged) + 1.0
        with no_grad():
            for average, current in zip(averaged_param_list, current_param_list, strict=True):
                if average.is_floating_point():
                    _approach(average, current, 1.0 / count)
                else:
                    average.copy_(average + (current - average) / count)

    return swa_update


def _require_decay(decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(
            f"Invalid decay value {decay} provided. Please provide a value in [0,1] range."
        )


class AveragedModel(Module):
    """A copy of a model whose parameters are averages; each update_parameters adds one value.

    Raises  AssertionError if both avg_fn and multi_avg_fn are given
    Source  Izmailov et al. 2018, "Averaging Weights Leads to Wider Optima and Better
            Generalization"; Polyak and Juditsky 1992, for the moving average
    Note    the first update copies the parameters. Buffers are copied in each update; with
            use_buffers, they are averaged like the parameters
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Average | None = None,
        multi_avg_fn: AverageOfLists | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tensor(0, dtype=int64, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return the output of the averaged model."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Include the current parameters of a model in the average."""
        with no_grad():
            averages = [average.detach() for average in self._averaged(self.module)]
            currents = [
                current.detach().to(average.device)
                for average, current in zip(averages, self._averaged(model), strict=True)
            ]
            if self.n_averaged == 0:
                for average, current in zip(averages, currents, strict=True):
                    average.copy_(current)
            else:
                self._average(averages, currents)
            if not self.use_buffers:
                for ours, theirs in zip(self.module.buffers(), model.buffers(), strict=True):
                    ours.detach().copy_(theirs.detach().to(ours.device))
            self.n_averaged += 1

    def _averaged(self, model: Module) -> Iterator[Tensor]:
        if self.use_buffers:
            return itertools.chain(model.parameters(), model.buffers())
        return iter(model.parameters())

    def _average(self, averages: list[Tensor], currents: list[Tensor]) -> None:
        if self.avg_fn is not None:
            for average, current in zip(averages, currents, strict=True):
                count = self.n_averaged.to(average.device)
                average.copy_(self.avg_fn(average, current, count))
            return
        average_all = self.multi_avg_fn or get_swa_multi_avg_fn()
        alike: defaultdict[Any, tuple[list[Tensor], list[Tensor]]] = defaultdict(lambda: ([], []))
        for average, current in zip(averages, currents, strict=True):
            ours, theirs = alike[average.device, average.dtype]
            ours.append(average)
            theirs.append(current)
        for (device, _), (ours, theirs) in alike.items():
            average_all(ours, theirs, self.n_averaged.to(device))


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Recompute the running statistics of a model's batch norm layers, from all batches of loader.

    Note    a layer counts as batch norm if it has a momentum and reset_running_stats(), unless it
            is instance norm. Its momentum is None during the call, so that all batches count
            equally. If a batch is a list or tuple, the model's input is the first entry
    """
    with no_grad():
        momenta: dict[Module, Any] = {}
        for module in model.modules():
            if _has_running_statistics(module):
                module.reset_running_stats()
                momenta[module] = module.momentum
        if not momenta:
            return
        was_training = model.training
        model.train()
        for module in momenta:
            module.momentum = None
        for batch in loader:
            first = batch[0] if isinstance(batch, list | tuple) else batch
            model(first if device is None else first.to(device))
        for module, momentum in momenta.items():
            module.momentum = momentum
        model.train(was_training)


def _has_running_statistics(module: Any) -> bool:
    # Group norm has no reset_running_stats. Instance norm has it, but PyTorch excludes this layer.
    return (
        hasattr(module, "reset_running_stats")
        and hasattr(module, "momentum")
        and "InstanceNorm" not in type(module).__name__
    )


class SWALR(LRScheduler):
    """Changes the learning rate to swa_lr over anneal_epochs epochs; then the rate stays.

    Raises  ValueError for an unknown anneal_strategy or a negative number of epochs
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        rates = one_for_each("swa_lr", optimizer, swa_lr)
        for rate, group in zip(rates, optimizer.param_groups, strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._anneal_strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def anneal_func(self, t: float) -> float:
        """Return the fraction of the change that is complete after the fraction t of all epochs."""
        return t if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * t)) / 2

    def get_lr(self) -> list[Rate]:
        """Return the rates of all groups at last_epoch."""
        self._warn_unless_in_step()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = (self._share(at) for at in (step - 1, step))
        rates = []
        for group in self.optimizer.param_groups:
            target = group["swa_lr"]
            # The rate before the first epoch, if only this scheduler has changed the rate.
            first = target if before == 1 else (group["lr"] - before * target) / (1 - before)
            rates.append(target * now + first * (1 - now))
        return rates

    def _share(self, step: int) -> float:
        return self.anneal_func(max(0, min(1, step / max(1, self.anneal_epochs))))


__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]

fold_public(__name__)
explain_missing(__name__)
