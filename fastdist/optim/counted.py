"""CountedOptimizer: the base of optimisers whose update depends on the number of steps."""

from __future__ import annotations

from typing import Any, ClassVar

from ..core.device import CPU
from ..core.dtypes import float32, float64
from ..ops.create.creation import tensor
from ..tensor.promotion import get_default_dtype
from ..tensor.storage import bump_all
from ..tensor.tensor import Tensor
from .device_numbers import put, taken
from .optimizer import Group, Optimizer
from .options import require_for_fused, require_no_lists, require_not_captured


class CountedOptimizer(Optimizer):
    """Stores the number of steps of each parameter as "step", a Tensor of one element, as in
    PyTorch's state dicts.

    Note    the count is on the CPU, where each step reads it, unless the group is capturable or
            fused. These two options and foreach have no other effect: parameters of equal layout
            share one launch in any case
    """

    # Defaults of options that older state dicts lack.
    _gained: ClassVar[dict[str, Any]] = {
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "capturable": False,
    }
    # State entries that are stored as Tensors of one element.
    _numbers: ClassVar[tuple[str, ...]] = ("step",)
    # Whether a differentiable step uses the count as a Tensor in its computation.
    _differentiates_steps = False
    _on_devices = "params and state_steps must be on supported devices"

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name, value in self._gained.items():
                group.setdefault(name, value)
            for parameter in group["params"]:
                kept = self.state.get(parameter, {})
                for name in self._numbers:
                    if name in kept and not isinstance(kept[name], Tensor):
                        kept[name] = self.number(group, parameter, float(kept[name]))

    def _stay_on_device(self, group: Group, states: list[dict[str, Any]]) -> bool:
        """Return whether the counts are on a device and the host never reads them."""
        if not (group.get("capturable") or group.get("fused")) or group["differentiable"]:
            return False
        return bool(states) and all(state["step"]._layout.device is not CPU for state in states)

    def number(self, group: Group, parameter: Tensor, value: float = 0.0) -> Tensor:
        """Return a value of the state as a Tensor of one element, on the device for the group."""
        is_fused = bool(group.get("fused"))
        if is_fused:
            require_for_fused(parameter)
        wide = get_default_dtype() is float64 and not is_fused
        device = parameter.device if is_fused or group.get("capturable") else CPU
        return tensor(value, dtype=float64 if wide else float32, device=device)

    def count(self, group: Group, parameter: Tensor, state: dict[str, Any]) -> Any:
        """Count one more step of one parameter, and return the new count as count_all does."""
        return self.count_all(group, [parameter], [state])[0]

    def count_all(
        self, group: Group, parameters: list[Tensor], states: list[dict[str, Any]]
    ) -> list[Any]:
        """Count one more step of each parameter, and return the new counts.

        The counts are Python numbers, or Tensors in cases where PyTorch computes with Tensors,
        because Tensors round differently. If the counts are on a device, all entries of the result
        are the same column: see Note [Numbers on a device].

        Raises  AssertionError for options that PyTorch's step rejects; RuntimeError during graph
                capture, unless the group is capturable
        """
        require_no_lists(group)
        capturable = group.get("capturable")
        if not capturable:
            require_not_captured(self, parameters)
        if capturable and any(parameter.device is CPU for parameter in parameters):
            raise AssertionError(
                f"If capturable=True, {self._on_devices}: ['cuda']; one of the params is on cpu, "
                "where there are no graphs to capture: leave capturable out"
            )
        if self._stay_on_device(group, states):
            steps = [state["step"] for state in states]
            total = taken(steps) + self.step_increment()
            put(total, steps)
            return [total] * len(steps)
        as_tensors = capturable or (self._differentiates_steps and group["differentiable"])
        steps = [state["step"] for state in states]
        if all(step._layout.device is CPU for step in steps):
            # NumPy is used, because an op would take as long as updating the mean of a small
            # parameter.
            counts: list[Any] = []
            for step in steps:
                array = step._array
                count = array.item() + 1.0
                array.fill(count)
                counts.append(count)
            bump_all(steps)
        else:
            counts = [step.add_(1).item() for step in steps]
        return [step.clone() for step in steps] if as_tensors else counts
