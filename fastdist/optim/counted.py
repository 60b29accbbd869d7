"""CountedOptimizer: what optimisers share whose update depends on how often it was done."""

from __future__ import annotations

from typing import Any, ClassVar

from ..core.device import CPU
from ..core.dtypes import float32, float64
from ..dispatch.promotion import get_default_dtype
from ..ops.creation import tensor
from ..tensor.storage import storage_of
from ..tensor.tensor import Tensor
from .optimizer import Group, Optimizer
from .options import require_for_fused, require_no_lists


class CountedOptimizer(Optimizer):
    """Keeps a Tensor "step" of one number for each parameter, as PyTorch's state dicts have it.

    Note    it lies on the CPU, where it is read at each step, unless the group is capturable or
            fused; foreach and fused change nothing else, since updates are few passes as they are
    """

    # What a state dict says for which there was no option when it was saved.
    _gained: ClassVar[dict[str, Any]] = {
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "capturable": False,
    }
    # Numbers of the state that are kept as Tensors of one element.
    _numbers: ClassVar[tuple[str, ...]] = ("step",)
    # Whether a differentiable step goes on with the count as a Tensor.
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

    def number(self, group: Group, parameter: Tensor, value: float = 0.0) -> Tensor:
        """Return a number of the state as a Tensor, where the group wants it."""
        is_fused = bool(group.get("fused"))
        if is_fused:
            require_for_fused(parameter)
        wide = get_default_dtype() is float64 and not is_fused
        device = parameter.device if is_fused or group.get("capturable") else CPU
        return tensor(value, dtype=float64 if wide else float32, device=device)

    def count(self, group: Group, parameter: Tensor, state: dict[str, Any]) -> Any:
        """Count one more step of a parameter; return the how manieth it is: a number, or a Tensor
        where PyTorch goes on with one, which rounds what follows from it.

        Raises  AssertionError for options that PyTorch's step refuses
        """
        require_no_lists(group)
        step: Tensor = state["step"]
        if group.get("capturable") and parameter.device.type == "cpu":
            raise AssertionError(
                f"If capturable=True, {self._on_devices}: ['cuda']; one of the params is on cpu, "
                "where there are no graphs to capture: leave capturable out"
            )
        if step.facts.device is CPU:
            # By hand: an op takes as long as the whole update of a small parameter's mean.
            count = step.array.item() + 1.0
            step.array.fill(count)
            storage_of(step).bump()
        else:
            step.add_(1)
            count = step.item()
        if group.get("capturable") or (self._differentiates_steps and group["differentiable"]):
            return step.clone()
        return count
