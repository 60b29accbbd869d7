"""Optimizer, the base class: groups of parameters, their state, and steps."""

from __future__ import annotations

import functools
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import Any, Final

from ..core.caller_warning import is_ours
from ..core.errors import ShapeError
from ..core.folded_frames import fold_constructor, folds
from ..core.missing import find_late
from ..core.short_repr import short_repr
from ..dispatch.op import PLAIN
from ..graph.accumulate_grad import AccumulateGrad
from ..graph.lazy_conj_neg import LazyConjNeg
from ..graph.modes import enable_grad, no_grad, set_grad_enabled, set_grad_mode, tls
from ..tensor.tensor import Tensor
from .hooks import (
    HasHooks,
    hooks_of,
    lock_of,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
    with_hooks,
)
from .saving import packed_state, unpacked_state

Group = dict[str, Any]
ParamsT = Iterable[Any]
# An iterable without a length that yields more parameters is taken to be infinite.
_MOST_PARAMETERS: Final = 1 << 16
_OF_THIS_PROCESS = ("_step_lock", "_started_as", "_given", "_is_stepping", "_opt_called", "step")


class _RequiredParameter:
    """The default of an option that each group must set itself."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _RequiredParameter()


class Optimizer(HasHooks):
    """Base of optimisers, which update parameters from their gradients.

    An optimiser takes an iterable of parameters, of (name, parameter) pairs, or of dicts. A dict
    describes a group: it has "params" and the options of the group. A subclass implements
    `update(group, parameter, gradient)`, or `step` as in PyTorch.

    Thread  any; step_with waits for steps of other threads
    Raises  ValueError if there are no parameters, or a parameter is not a leaf; TypeError if params
            is a tensor or has values that are not tensors

    Args:
        params: Parameters, (name, parameter) pairs, or dicts, each with the `params` and the
            options of one group.
        defaults: Options for groups that do not set them.

    Example:
        >>> class Halve(optim.Optimizer):
        ...     def update(self, group, parameter, gradient):
        ...         parameter.mul_(group["factor"])
        >>> weight = nn.Parameter(torch.ones(2))
        >>> weight.grad = torch.zeros(2)
        >>> Halve([weight], {"factor": 0.5}).step()
        >>> weight.data
        tensor([0.5000, 0.5000])
    """

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor) or not isinstance(params, Iterable):
            hint = "; put it into a list" if isinstance(params, Tensor) else ""
            hint = "; give it model.parameters()" if callable(params) else hint
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or "
                f"dicts, but got {type(params).__name__}{hint}"
            )
        self.defaults = defaults
        self._start_hooks()
        self.state: defaultdict[Tensor, dict[str, Any]] = defaultdict(dict)
        self.param_groups: list[Group] = []
        given = _read(params)
        if not given:
            raise ValueError(
                "optimizer got an empty parameter list: give it model.parameters() of a model with "
                "parameters; a generator is empty once it was walked through"
            )
        for group in given if isinstance(given[0], dict) else [{"params": given}]:
            self.add_param_group(group)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        fold_constructor(cls)
        if "step" in cls.__dict__:
            cls.step = with_hooks(cls.__dict__["step"])  # type: ignore[method-assign]

    # PyTorch's name for with_hooks. Optimisers that wrap other optimisers call it.
    profile_hook_step = staticmethod(with_hooks)

    def _patch_step_function(self) -> None:
        """Make the step method of the class call hooks, even if it was assigned later."""
        cls = type(self)
        cls.step = with_hooks(cls.step)  # type: ignore[method-assign]

    def _optimizer_step_code(self) -> None:
        """Do nothing. Tools replace this method, as they do in PyTorch."""

    @folds
    def add_param_group(self, param_group: Group) -> None:
        """Add a group of parameters. Options that the group does not set get their defaults.

        Raises  TypeError for a value that is not a dict of Tensors, ValueError for a parameter that
                is not a leaf or is in another group
        Note    a parameter that is listed twice in the group is updated twice, with a warning
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        group = param_group
        params = group["params"]
        if isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the "
                "ordering of tensors in sets will change between runs. Please use a list instead."
            )
        entries = _without_names(group, [params] if isinstance(params, Tensor) else _read(params))
        known = {id(p) for p in self._parameters()}
        for parameter in entries:
            self._require_parameter(parameter)
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
        self._require_names_alike(group)
        group["params"] = entries
        for name, value in self.defaults.items():
            if value is required and name not in group:
                raise ValueError(
                    "parameter group didn't specify a value of required optimization parameter "
                    f"{name}"
                )
            group.setdefault(name, value)
        self.param_groups.append(group)

    def _require_parameter(self, parameter: Any) -> None:
        if not isinstance(parameter, Tensor):
            raise TypeError(
                "optimizer can only optimize Tensors, but one of the params is "
                f"{short_repr(parameter)}"
            )
        if not (self.defaults.get("differentiable") or parameter.is_leaf or parameter.retains_grad):
            raise ValueError(
                "can't optimize a non-leaf Tensor; give the leaves that it was made of"
            )
        if isinstance(parameter, LazyConjNeg):
            raise ValueError(
                f"can't optimize a {parameter.adjective} view; give the Tensor that it is a view of"
            )
        if parameter.is_complex() and not self.steps_complex:
            raise RuntimeError(
                f"{type(self).__name__} does not support complex parameters, but one is of "
                f"{parameter.dtype}; make the leaf real, and complex numbers of it with "
                "view_as_complex()"
            )

    def _require_names_alike(self, group: Group) -> None:
        for other in self.param_groups:
            if ("param_names" in group) != ("param_names" in other):
                how = "with" if "param_names" in group else "without"
                raise ValueError(
                    "all optimizer param groups should be with/without names. cannot add param "
                    f"group {how} names to the optimizer"
                )

    def _parameters(self) -> Iterator[Tensor]:
        return chain.from_iterable(group["params"] for group in self.param_groups)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set the gradients of all parameters to None, or fill them with zeros."""
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

    @with_hooks
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update each parameter that has a gradient; return the result of closure.

        `closure` is called first, with grad mode on.

        Note    if a step raises (no memory, Ctrl-C), some parameters may be updated and others not,
                one may be updated in part, and counts may include the failed step. To restore the
                earlier values, use load_state_dict and copies of the parameters
        """
        # Does the same as `with set_grad_enabled(...)`, which takes longer than one small update.
        before, loss = tls.grad, None
        set_grad_mode(bool(self.defaults.get("differentiable")))
        try:
            if closure is not None:
                with enable_grad():
                    loss = closure()
            for group in self.param_groups:
                self._step_group(group)
        finally:
            set_grad_mode(before)
        return loss

    def _step_group(self, group: Group) -> None:
        parameters: list[Tensor] = []
        gradients: list[Tensor] = []
        are_own, device, devices = self._given is None, None, 0
        for parameter in group["params"]:
            edge = parameter._edge
            if are_own and edge.__class__ is AccumulateGrad and parameter.__class__ in PLAIN:
                gradient = edge.grad  # the same as `gradient_of`, inlined to save calls
            else:
                gradient = self.gradient_of(parameter)
            if gradient is None:
                continue
            layout = parameter._layout
            if layout.device is not device:
                device, devices = layout.device, devices + 1
            if gradient._layout is not layout and gradient._layout.is_sparse:
                self.update_all(group, parameters, gradients)
                self.update_sparse(group, parameter, gradient)
                parameters, gradients = [], []
            else:
                parameters.append(parameter)
                gradients.append(gradient)
        if devices > 1:
            of_device = defaultdict[Any, list[tuple[Tensor, Tensor]]](list)
            for pair in zip(parameters, gradients, strict=True):
                of_device[pair[0]._layout.device].append(pair)
            for pairs in of_device.values():
                self.update_all(group, *map(list, zip(*pairs, strict=True)))
            return
        self.update_all(group, parameters, gradients)

    def step_with(self, gradients: Mapping[Tensor, Tensor]) -> None:
        """Do a step with the given gradients instead of `.grad`, which does not change.

        Parameters without a gradient do not change. Use this method for gradients that are not in
        `.grad`, such as those of distributed autograd: several contexts can update one parameter
        without sharing its `.grad`.

        Thread  any; one step at a time
        Note    if a subclass overrides step and reads `.grad`, then `.grad` has the given gradients
                during the step
        """
        with lock_of(self):
            mine = type(self)
            if (mine.update, mine.update_all) != (Optimizer.update, Optimizer.update_all):
                self._given = gradients
                try:
                    self.step()
                finally:
                    self._given = None
            else:
                with _in_place_of_grad(list(self._parameters()), gradients):
                    self.step()

    # The gradients given to step_with while step_with runs; otherwise None.
    _given: Mapping[Tensor, Tensor] | None = None

    # Whether complex parameters are supported; their real and imaginary parts are separate numbers.
    steps_complex = True

    # GradScaler sets this during a fused step: a nonzero value means that the step is skipped.
    found_inf: Tensor | None = None

    grad_scale: Tensor | None = None

    # Whether a step reads found_inf itself; PyTorch's GradScaler reads this attribute.
    _step_supports_amp_scaling = False

    def step_increment(self) -> Any:
        """Return the increment of the step count: 1, or a Tensor that is 0 for a skipped step."""
        return 1.0 if self.found_inf is None else 1.0 - self.found_inf

    def gradient_of(self, parameter: Tensor) -> Tensor | None:
        """Return the gradient that the current step uses for a parameter."""
        if self._given is None:
            return parameter.grad
        gradient = self._given.get(parameter)
        if gradient is not None:
            _require_alike(gradient, parameter)
        return gradient

    def update_all(self, group: Group, parameters: list[Tensor], gradients: list[Tensor]) -> None:
        """Update parameters of a group, one by one or in one launch.

        Grad mode is off during the call, unless the optimiser is differentiable.
        """
        for parameter, gradient in zip(parameters, gradients, strict=True):
            self.update(group, parameter, gradient)

    def update(self, group: Group, parameter: Tensor, gradient: Tensor) -> None:
        """Update one parameter. Grad mode is the same as for update_all."""
        raise NotImplementedError(f"{type(self).__name__} implements neither update nor step")

    def update_sparse(self, group: Group, parameter: Tensor, gradient: Tensor) -> None:
        """Update the rows of one parameter for which a sparse gradient has entries.

        Raises  RuntimeError if the optimiser does not support sparse gradients
        """
        raise RuntimeError(
            f"{type(self).__name__} does not support sparse gradients; SGD, Adagrad and SparseAdam "
            "do, or leave sparse=False where the gradient comes from"
        )

    def state_dict(self) -> dict[str, Any]:
        """Return the dict for load_state_dict: state and groups, with indices instead of
        parameters.

        Note    the dict contains the optimiser's own state tensors, not copies
        """
        for hook in tuple(hooks_of(self, "_optimizer_state_dict_pre_hooks").values()):
            hook(self)
        packed = packed_state(self.state, self.param_groups)
        for hook in tuple(hooks_of(self, "_optimizer_state_dict_post_hooks").values()):
            packed = _or_else(hook(self, packed), packed)
        return packed

    @folds
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore a state dict; tensors are copied, and get the dtype and device of their
        parameter.

        Raises  ValueError if the sizes of the groups differ from those of this optimiser's groups
        """
        given = dict(state_dict)
        for hook in tuple(hooks_of(self, "_optimizer_load_state_dict_pre_hooks").values()):
            given = _or_else(hook(self, given), given)
        self.__setstate__(unpacked_state(given, self.param_groups))
        for hook in tuple(hooks_of(self, "_optimizer_load_state_dict_post_hooks").values()):
            hook(self)

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: value
            for name, value in self.__dict__.items()
            if name not in _OF_THIS_PROCESS and not name.endswith("_hooks")
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the result of __getstate__, or the groups and state of a state dict.

        Note    subclasses with new options override this method to set these options in old groups
        """
        if "defaults" in state and "_started_as" not in self.__dict__:
            self._start_hooks()  # not if a wrapper's __init__ did not call Optimizer.__init__
        self.__dict__.update(state)

    @staticmethod
    def _group_tensors_by_device_and_dtype(
        tensorlistlist: list[list[Tensor | None]], with_indices: bool = False
    ) -> dict[Any, Any]:
        from .for_subclasses import _group_tensors_by_device_and_dtype as group

        return group(tensorlistlist, with_indices)

    def _accelerator_graph_capture_health_check(self) -> None:
        """Do nothing; optimisers of other packages call it."""

    _cuda_graph_capture_health_check = _accelerator_graph_capture_health_check

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for number, group in enumerate(self.param_groups):
            lines += [""] * (number > 0) + [f"Parameter Group {number}"]
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join([*lines, ")"])


def _or_else(changed: Any, before: Any) -> Any:
    return before if changed is None else changed


def _depth_within(optimizer: Optimizer) -> int:
    """Return the number of frames of the optimiser, or of fastdist, between its caller and this
    call.
    """
    frame, depth = sys._getframe(1), 0
    while frame.f_locals.get("self") is optimizer or is_ours(frame):
        if frame.f_back is None:
            break
        frame, depth = frame.f_back, depth + 1
    return depth


def _read(params: Iterable[Any]) -> list[Any]:
    """Return params as a list. Entries are checked while reading, as params may be infinite."""
    found = []
    for one in params:
        if not isinstance(one, Tensor | dict | tuple):
            raise TypeError(
                f"optimizer can only optimize Tensors, but one of the params is {short_repr(one)}"
            )
        found.append(one)
        if len(found) > _MOST_PARAMETERS and not hasattr(type(params), "__len__"):
            raise ValueError(
                f"optimizer got a {type(params).__name__!r} that gives more than "
                f"{_MOST_PARAMETERS} parameters: pass a list"
            )
    return found


def _without_names(group: Group, entries: list[Any]) -> list[Any]:
    """Return the parameters of entries; if entries are pairs, store the names in the group."""
    names = [entry[0] for entry in entries if isinstance(entry, tuple)]
    if not names:
        return entries
    if len(names) != len(entries):
        raise ValueError(
            "all optimizer params should be with/without names. Some param names are missing"
        )
    group["param_names"] = names
    return [parameter for _, parameter in entries]


def _require_alike(gradient: Tensor, parameter: Tensor) -> None:
    ours, theirs = parameter._layout, gradient._layout
    if (ours.shape, ours.dtype, ours.device) != (theirs.shape, theirs.dtype, theirs.device):
        raise ShapeError(
            f"step_with: a gradient is {theirs.shape} of {theirs.dtype.name} on {theirs.device}, "
            f"its parameter {ours.shape} of {ours.dtype.name} on {ours.device}"
        )


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


def _use_grad_for_differentiable(step: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method `step`: grad mode is on in it if the optimiser is differentiable, else off."""

    @functools.wraps(step)
    def stepped(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        with set_grad_enabled(bool(self.defaults["differentiable"])):
            return step(self, *args, **kwargs)

    return stepped


__all__ = [
    "Optimizer",
    "register_optimizer_step_post_hook",
    "register_optimizer_step_pre_hook",
]


def __getattr__(name: str) -> Any:
    """Return a private function that optimisers of other packages import."""
    # `from .optimizer import X` also looks up `__path__`.
    if not name.startswith("__"):
        from . import for_subclasses

        if name in for_subclasses.NAMES:
            return getattr(for_subclasses, name)
    return find_late(__name__, name)
