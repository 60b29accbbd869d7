"""Optimizer, the base class: groups of parameters, what is remembered of each, and steps."""

from __future__ import annotations

import sys
import threading
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from itertools import chain
from typing import Any

from ..core.errors import ShapeError
from ..graph.modes import enable_grad, no_grad
from ..graph.node import RemovableHandle
from ..tensor.tensor import Tensor

Group = dict[str, Any]
# What PyTorch's optimisers also take. These say how a step is computed, not what comes of it: they
# are kept in the groups, so that state dicts of both have the same keys.
_HOWS = ("foreach", "fused", "capturable", "differentiable")


class Optimizer:
    """Changes parameters by their gradients.

    Made of an iterable of parameters, of (name, parameter) pairs, or of dicts with "params" and
    options of that group. A subclass implements `update(group, parameter, gradient)`; one that
    implements `step` instead, as for PyTorch, works as well.

    Thread  any; step_with waits for the step of another thread
    """

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or "
                f"dicts, but got {type(params).__name__}; put it into a list"
            )
        self.defaults = defaults
        self._start()
        self.state: defaultdict[Tensor, dict[str, Any]] = defaultdict(dict)
        self.param_groups: list[Group] = []
        given = list(params)
        if not given:
            raise ValueError("optimizer got an empty parameter list")
        for group in given if isinstance(given[0], dict) else [{"params": given}]:
            self.add_param_group(group)

    def _start(self) -> None:
        # One step at a time: held for the whole of it, so user hooks may run under it; a step
        # takes no lock of another optimiser.
        self._step_lock = threading.RLock()
        self._given: Mapping[Tensor, Tensor] | None = None
        self._pre_hooks: dict[int, Callable[..., Any]] = {}
        self._post_hooks: dict[int, Callable[..., Any]] = {}

    def add_param_group(self, param_group: Group) -> None:
        """Add parameters with options of their own; what is missing comes from the defaults.

        Raises  TypeError for what is no dict of Tensors, ValueError for a parameter that is no
                leaf, or is in another group
        Note    a parameter that the group lists twice is stepped twice; a warning tells of it
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        group = dict(param_group)
        params = group["params"]
        if isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the "
                "ordering of tensors in sets will change between runs. Please use a list instead."
            )
        entries = [params] if isinstance(params, Tensor) else list(params)
        if entries and isinstance(entries[0], tuple):
            group["param_names"] = [name for name, _ in entries]
            entries = [parameter for _, parameter in entries]
        known = {id(p) for p in self._parameters()}
        for parameter in entries:
            _require_leaf(parameter)
            if id(parameter) in known:
                raise ValueError(
                    "some parameters appear in more than one parameter group: "
                    f"one of shape {parameter.shape}"
                )
        if len({id(parameter) for parameter in entries}) < len(entries):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this "
                "will cause an error; see github.com/pytorch/pytorch/issues/40967 for more "
                "information",
                stacklevel=_depth_within(self) + 1,
            )
        group["params"] = entries
        for name, value in self.defaults.items():
            group.setdefault(name, value)
        self.param_groups.append(group)

    def _parameters(self) -> Iterator[Tensor]:
        return chain.from_iterable(group["params"] for group in self.param_groups)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or write zeros into them."""
        for parameter in self._parameters():
            grad = parameter.grad
            if grad is None:
                continue
            if set_to_none:
                parameter.grad = None
            elif grad.grad_fn is None:
                with no_grad():
                    grad.zero_()
            else:
                parameter.grad = grad.detach().zero_()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change each parameter that has a gradient; return what closure, called first with grad
        mode on, returned.
        """
        with self._step_lock, no_grad():
            for hook in tuple(self._pre_hooks.values()):
                hook(self, (closure,), {})
            loss = None
            if closure is not None:
                with enable_grad():
                    loss = closure()
            for group in self.param_groups:
                for parameter in group["params"]:
                    gradient = self.gradient_of(parameter)
                    if gradient is not None:
                        self.update(group, parameter, gradient)
            for hook in tuple(self._post_hooks.values()):
                hook(self, (closure,), {})
        return loss

    def step_with(self, gradients: Mapping[Tensor, Tensor]) -> None:
        """Do a step with these gradients in the place of `.grad`, which stays as it is; parameters
        without an entry are not changed.

        For gradients that live elsewhere, such as those of a distributed autograd context: several
        contexts may step one parameter without meeting in its `.grad`.

        Thread  any; one step at a time
        Note    an optimiser of your own that overrides step and reads `.grad` works, too: then the
                gradients are put there for the length of the step
        """
        with self._step_lock:
            if type(self).update is not Optimizer.update:
                self._given = gradients
                try:
                    self.step()
                finally:
                    self._given = None
            else:
                with _in_place_of_grad(list(self._parameters()), gradients):
                    self.step()

    def gradient_of(self, parameter: Tensor) -> Tensor | None:
        """Return the gradient that the present step uses for a parameter."""
        if self._given is None:
            return parameter.grad
        gradient = self._given.get(parameter)
        if gradient is not None:
            _require_alike(gradient, parameter)
        return gradient

    def update(self, group: Group, parameter: Tensor, gradient: Tensor) -> None:
        """Change one parameter; called with grad mode off."""
        raise NotImplementedError(f"{type(self).__name__} implements neither update nor step")

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call hook(optimizer, args, kwargs) before each step."""
        return RemovableHandle(self._pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call hook(optimizer, args, kwargs) after each step."""
        return RemovableHandle(self._post_hooks, hook)

    def state_dict(self) -> dict[str, Any]:
        """Return what load_state_dict needs: the state by the parameters' numbers, and the groups
        with these numbers.

        Note    tensors of the state are the optimiser's own, not copies
        """
        numbers = {parameter: number for number, parameter in enumerate(self._parameters())}
        groups = [
            {**group, "params": [numbers[parameter] for parameter in group["params"]]}
            for group in self.param_groups
        ]
        state = {numbers.get(key, key): value for key, value in self.state.items()}
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from a state dict; its tensors are copied, in each parameter's dtype and onto its
        device.

        Raises  ValueError if the groups have other sizes than this optimiser's
        """
        saved = deepcopy(list(state_dict["param_groups"]))
        groups = self.param_groups
        if len(saved) != len(groups):
            raise ValueError(
                "loaded state dict has a different number of parameter groups: "
                f"{len(saved)}, not {len(groups)}"
            )
        for number, (ours, theirs) in enumerate(zip(groups, saved, strict=True)):
            if len(ours["params"]) != len(theirs["params"]):
                raise ValueError(
                    "loaded state dict contains a parameter group that doesn't match the size of "
                    f"optimizer's group: group {number} has {len(theirs['params'])} parameters, "
                    f"not {len(ours['params'])}"
                )
        keys = chain.from_iterable(group["params"] for group in saved)
        by_key = dict(zip(keys, self._parameters(), strict=True))
        self.state = defaultdict(dict)
        for key, entry in state_dict["state"].items():
            if key in by_key:
                parameter = by_key[key]
                self.state[parameter] = {
                    name: _like_parameter(value, parameter) for name, value in entry.items()
                }
            else:
                self.state[key] = deepcopy(entry)
        for ours, theirs in zip(groups, saved, strict=True):
            params = ours["params"]
            ours.clear()
            ours.update(theirs, params=params)

    def __getstate__(self) -> dict[str, Any]:
        hidden = ("_step_lock", "_given", "_pre_hooks", "_post_hooks")
        return {name: value for name, value in self.__dict__.items() if name not in hidden}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._start()
        self.__dict__.update(state)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for number, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {number}")
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join([*lines, ")"])


def how(**options: Any) -> dict[str, Any]:
    """Return the defaults for options that say how a step is computed.

    Raises  RuntimeError for differentiable=True: steps leave no graph
    """
    if options.get("differentiable"):
        raise RuntimeError("differentiable=True is not supported: steps run outside of any graph")
    return {name: options[name] for name in _HOWS if name in options}


def require_not_negative(what: str, value: float) -> None:
    """Raise for a number that is negative or NaN."""
    if not value >= 0.0:
        raise ValueError(f"Invalid {what}: {value}; it must be 0 or more")


def _depth_within(optimizer: Optimizer) -> int:
    """Return how many methods of the optimiser lie between its caller and this function."""
    frame, depth = sys._getframe(1), 0
    while frame.f_locals.get("self") is optimizer and frame.f_back is not None:
        frame, depth = frame.f_back, depth + 1
    return depth


def _require_leaf(parameter: Any) -> None:
    if not isinstance(parameter, Tensor):
        raise TypeError(
            f"optimizer can only optimize Tensors, but one of the params is {parameter!r}"
        )
    if not parameter.is_leaf:
        raise ValueError("can't optimize a non-leaf Tensor; give the leaves that it was made of")


def _require_alike(gradient: Tensor, parameter: Tensor) -> None:
    ours, theirs = parameter.layout, gradient.layout
    if (ours.shape, ours.dtype, ours.device) != (theirs.shape, theirs.dtype, theirs.device):
        raise ShapeError(
            f"step_with: a gradient is {theirs.shape} of {theirs.dtype.name} on {theirs.device}, "
            f"its parameter {ours.shape} of {ours.dtype.name} on {ours.device}"
        )


def _like_parameter(value: Any, parameter: Tensor) -> Any:
    if not isinstance(value, Tensor):
        return deepcopy(value)
    # Statistics of the parameter's shape follow its dtype; a step count keeps its own.
    dtype = parameter.dtype if value.shape == parameter.shape and value.ndim else value.dtype
    return value.detach().to(dtype=dtype, device=parameter.device, copy=True)


@contextmanager
def _in_place_of_grad(
    parameters: list[Tensor], gradients: Mapping[Tensor, Tensor]
) -> Iterator[None]:
    before = [parameter.grad for parameter in parameters]
    for parameter in parameters:
        parameter.grad = gradients.get(parameter)
    try:
        yield
    finally:
        for parameter, grad in zip(parameters, before, strict=True):
            parameter.grad = grad
