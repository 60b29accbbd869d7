"""State dicts of optimisers, in which indices replace the parameters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from copy import deepcopy
from itertools import chain
from typing import Any

from ..core.dtypes import float32
from ..tensor.tensor import Tensor

Group = dict[str, Any]


def packed_state(state: Mapping[Any, Any], groups: list[Group]) -> dict[str, Any]:
    """Return state and groups, with each parameter replaced by its index among all parameters.

    Note    a parameter that is listed twice gets its last index, as in PyTorch
    """
    parameters = chain.from_iterable(group["params"] for group in groups)
    numbers: dict[Tensor, int] = {parameter: number for number, parameter in enumerate(parameters)}
    packed = [
        {
            **{name: value for name, value in group.items() if name != "params"},
            "params": [numbers[parameter] for parameter in group["params"]],
        }
        for group in groups
    ]
    return {
        "state": {numbers.get(key, key): value for key, value in state.items()},
        "param_groups": packed,
    }


def unpacked_state(packed: Mapping[str, Any], groups: list[Group]) -> dict[str, Any]:
    """Return the state and groups of a state dict, with each index replaced by the corresponding
    parameter of `groups`.

    Raises  ValueError unless the groups of the state dict have the same sizes as `groups`
    """
    saved = deepcopy(list(packed["param_groups"]))
    _require_same_sizes(groups, saved)
    saved_as = chain.from_iterable(group["params"] for group in saved)
    parameters = chain.from_iterable(group["params"] for group in groups)
    by_number = dict(zip(saved_as, parameters, strict=True))
    on_device = {
        number
        for group in saved
        for number in group["params"]
        if group.get("fused") or group.get("capturable")
    }
    state: defaultdict[Any, Any] = defaultdict(dict)
    for key, value in packed["state"].items():
        if key in by_number:
            state[by_number[key]] = _for_parameter(
                by_number[key], value, is_step_on_device=key in on_device
            )
        else:
            state[key] = deepcopy(value)
    for ours, theirs in zip(groups, saved, strict=True):
        theirs["params"] = ours["params"]
        if "param_names" in ours:
            theirs.setdefault("param_names", ours["param_names"])
    return {"state": state, "param_groups": saved}


def _require_same_sizes(groups: list[Group], saved: list[Group]) -> None:
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


def _for_parameter(
    parameter: Tensor, value: Any, *, is_step_on_device: bool, name: Any = None
) -> Any:
    """Return a copy of a state value. Tensors get the dtype and device of the parameter.

    A step count keeps its dtype and device. With is_step_on_device, the count is instead moved to
    the device of the parameter, as float32.
    """
    if isinstance(value, Tensor):
        if name == "step":
            if is_step_on_device:
                return value.detach().to(dtype=float32, device=parameter.device, copy=True)
            return value.detach().clone()
        dtype = parameter.dtype if parameter.is_floating_point() else value.dtype
        return value.detach().to(dtype=dtype, device=parameter.device, copy=True)
    if isinstance(value, dict):
        return {
            key: _for_parameter(parameter, each, is_step_on_device=is_step_on_device, name=key)
            for key, each in value.items()
        }
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        copies = [
            _for_parameter(parameter, each, is_step_on_device=is_step_on_device) for each in value
        ]
        return type(value)(copies)  # type: ignore[call-arg]
    return deepcopy(value)
