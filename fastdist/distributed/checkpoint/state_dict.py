"""State dicts of models and optimisers, with parameter names as keys, like PyTorch's module."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any

from ...nn import Module
from ...optim.optimizer import Optimizer
from ...tensor.tensor import Tensor
from .contents import named_groups
from .errors import CheckpointException

State = dict[str, Any]


@dataclass(frozen=True)
class StateDictOptions:
    """Options of the functions below.

    `cpu_offload` copies tensors to the CPU. `ignore_frozen_params` leaves out parameters that do
    not require grad. `strict` rejects missing and unknown names.
    """

    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    strict: bool = True


def get_model_state_dict(model: Module, *, options: StateDictOptions | None = None) -> State:
    """Return the parameters and buffers of a model by name."""
    chosen = options or StateDictOptions()
    frozen = {name for name, p in model.named_parameters() if not p.requires_grad}
    left_out = frozen if chosen.ignore_frozen_params else frozenset()
    state = {name: value for name, value in model.state_dict().items() if name not in left_out}
    return _offloaded(state) if chosen.cpu_offload else state


def get_optimizer_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    options: StateDictOptions | None = None,
) -> State:
    """Return the state of optimisers, with the parameter names of the model as keys.

    Raises  CheckpointException if an optimiser has parameters that are not the model's
    """
    names = {id(p): name for name, p in model.named_parameters()}
    found: State = {"state": {}, "param_groups": []}
    for optimizer in _listed(optimizers):
        groups = _named_groups(optimizer, names)
        named = list(chain.from_iterable(groups))
        packed = optimizer.state_dict()
        found["state"] |= {named[number]: state for number, state in packed["state"].items()}
        found["param_groups"] += [
            {**group, "params": group_names}
            for group, group_names in zip(packed["param_groups"], groups, strict=True)
        ]
    return _offloaded(found) if options is not None and options.cpu_offload else found


def get_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    options: StateDictOptions | None = None,
) -> tuple[State, State]:
    """Return the state dicts of a model and its optimisers, both with parameter names as keys.

    Note    an optimiser's state is empty before its first step; load fills it nevertheless
    """
    return (
        get_model_state_dict(model, options=options),
        get_optimizer_state_dict(model, optimizers, options=options),
    )


def set_model_state_dict(
    model: Module, model_state_dict: State, *, options: StateDictOptions | None = None
) -> Any:
    """Load a model's state dict; return the missing and the unknown names."""
    strict = (options or StateDictOptions()).strict
    return model.load_state_dict(model_state_dict, strict=strict)


def set_optimizer_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    optim_state_dict: State,
    *,
    options: StateDictOptions | None = None,
) -> None:
    """Load a state dict of get_optimizer_state_dict into optimisers.

    Raises  CheckpointException if the dict lacks a parameter, unless strict is False
    """
    names = {id(p): name for name, p in model.named_parameters()}
    strict = (options or StateDictOptions()).strict
    saved = {name: group for group in optim_state_dict["param_groups"] for name in group["params"]}
    for optimizer in _listed(optimizers):
        groups = _named_groups(optimizer, names)
        own = optimizer.state_dict()["param_groups"]
        unknown = [name for name in chain.from_iterable(groups) if name not in saved]
        if unknown and strict:
            raise CheckpointException(
                f"the state dict does not have the parameters {', '.join(unknown[:5])}; "
                "StateDictOptions(strict=False) leaves them as they are"
            )
        packed = [
            {
                **next((saved[name] for name in group if name in saved), mine),
                "params": mine["params"],
            }
            for group, mine in zip(groups, own, strict=True)
        ]
        states = optim_state_dict["state"]
        named = enumerate(chain.from_iterable(groups))
        state = {number: states[name] for number, name in named if name in states}
        optimizer.load_state_dict({"state": state, "param_groups": packed})


def set_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    model_state_dict: State,
    optim_state_dict: State,
    options: StateDictOptions | None = None,
) -> Any:
    """Load the state dicts of get_state_dict into a model and its optimisers."""
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return set_model_state_dict(model, model_state_dict, options=options)


def _listed(optimizers: Optimizer | Iterable[Optimizer]) -> list[Optimizer]:
    return [optimizers] if isinstance(optimizers, Optimizer) else list(optimizers)


def _named_groups(optimizer: Optimizer, names: dict[int, str]) -> list[list[str]]:
    found = named_groups(optimizer, names)
    if found is None:
        raise CheckpointException(
            f"{type(optimizer).__name__} has a parameter that is not one of the model's: make it "
            "of model.parameters(), or give the model that it belongs to"
        )
    return found


def _offloaded(state: Any) -> Any:
    if isinstance(state, dict):
        return {key: _offloaded(value) for key, value in state.items()}
    return state.detach().to("cpu", copy=True) if isinstance(state, Tensor) else state
