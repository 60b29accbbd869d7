"""GradScaler: scales losses so that gradients fit in float16, and adapts the factor."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any
from weakref import WeakKeyDictionary

from ..core.caller_warning import warn_caller
from ..core.device import CPU, Device
from ..core.dtypes import float32
from ..core.folded_frames import folds
from ..devices.gpus import device_count
from ..graph.modes import no_grad
from ..ops.create.creation import full
from ..tensor.tensor import Tensor
from .unscaling import adapt, unscale


class OptState(Enum):
    """The stage of an optimiser between two updates of the factor."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


_READY, _UNSCALED, _STEPPED = OptState


def _refresh_per_optimizer_state() -> dict[str, Any]:
    """Return the state of an optimiser just after an update."""
    return {"stage": OptState.READY, "found_inf_per_device": {}}


class _Progress:
    """The stage of one optimiser between two updates, and whether it has non-finite gradients."""

    def __init__(self) -> None:
        self.stage = OptState.READY
        self.found_inf: dict[Device, Tensor] | None = None


class GradScaler:
    """Multiplies losses by a factor. The factor grows while gradients stay finite, and shrinks when
    they do not. A step whose gradients are infinite or NaN is skipped.

    Thread  not thread-safe
    Raises  ValueError for factors that would not grow or shrink
    Note    for "cuda" without a GPU, GradScaler warns and does not scale. The factor is on the
            device of the losses. A step waits for the GPU once, to read whether the step must be
            skipped. A fused optimiser makes this check on the device, so its step does not wait

    Args:
        device: The device type of the gradients.
        init_scale: The first value of the factor.
        growth_factor: The number that multiplies the factor after growth_interval steps with finite
            gradients.
        backoff_factor: The number that multiplies the factor after a step with infinite gradients.
        growth_interval: The number of successive steps with finite gradients before the factor
            grows.
        enabled: Whether to scale at all.

    Example:
        >>> scaler = torch.amp.GradScaler("cpu")
        >>> weight = nn.Parameter(torch.ones(2))
        >>> optimizer = optim.SGD([weight], lr=0.1)
        >>> scaler.scale(weight.sum()).backward()
        >>> scaler.step(optimizer)
        >>> scaler.update()
        >>> weight.data
        tensor([0.9000, 0.9000])
    """

    @folds
    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        self._enabled = enabled
        if enabled and device == "cuda" and not device_count():
            warn_caller(
                "torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.",
                UserWarning,
            )
            self._enabled = False
        if self._enabled and not growth_factor > 1.0:
            raise ValueError(f"The growth factor must be > 1.0, got {growth_factor}")
        if self._enabled and not backoff_factor < 1.0:
            raise ValueError(f"The backoff factor must be < 1.0, got {backoff_factor}")
        self._init_scale = init_scale
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._init_growth_tracker = 0
        # Two 0-d float32 tensors, created when the first loss is scaled.
        self._scale: Tensor | None = None
        self._growth_tracker: Tensor | None = None
        self._progress: WeakKeyDictionary[Any, _Progress] = WeakKeyDictionary()

    @property
    def _per_optimizer_states(self) -> dict[int, dict[str, Any]]:
        """Return a copy of each optimiser's stage, under PyTorch's names."""
        return {
            id(optimizer): {
                "stage": progress.stage,
                "found_inf_per_device": progress.found_inf or {},
            }
            for optimizer, progress in self._progress.items()
        }

    def _of(self, optimizer: Any) -> _Progress:
        return self._progress.setdefault(optimizer, _Progress())

    def scale(self, outputs: Any) -> Any:
        """Return a tensor, or each tensor of an iterable, multiplied by the factor."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            if self._scale is None:
                self._begin(outputs._layout.device)
            assert self._scale is not None
            # The factor is a 0-d float32 tensor, because float16 could not represent large factors.
            return outputs * self._scale.to(outputs._layout.device, copy=True)
        if isinstance(outputs, Iterable):
            scaled = [self.scale(output) for output in outputs]
            return scaled if isinstance(outputs, list) else tuple(scaled)
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def _begin(self, device: Device) -> None:
        self._scale = full((), self._init_scale, dtype=float32, device=device)
        tracker = float(self._init_growth_tracker)
        self._growth_tracker = full((), tracker, dtype=float32, device=device)

    @folds
    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of an optimiser's parameters by the factor, for instance before
        clipping.

        Raises  RuntimeError for a second call for one optimiser between two updates, ValueError for
                gradients in float16
        """
        if not self._enabled:
            return
        scale = self._require_scaled("unscale_")
        progress = self._of(optimizer)
        if progress.stage == OptState.UNSCALED:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        if progress.stage == OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        with no_grad():
            found = unscale((p for g in optimizer.param_groups for p in g["params"]), scale)
        progress.found_inf = found or None
        progress.stage = OptState.UNSCALED

    @folds
    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Unscale the gradients, and call optimizer.step(*args, **kwargs) if all are finite.

        Raises  RuntimeError for a second step before update(), or for a closure argument
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._require_scaled("step")
        progress = self._of(optimizer)
        if progress.stage == OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if progress.stage == OptState.READY:
            self.unscale_(optimizer)
        if progress.found_inf is None:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        progress.stage = OptState.STEPPED
        if _finds_by_itself(optimizer, progress.found_inf):
            # grad_scale is None because unscale_ has divided the gradients already.
            optimizer.grad_scale, optimizer.found_inf = (
                None,
                _together(list(progress.found_inf.values())),
            )
            try:
                return optimizer.step(*args, **kwargs)
            finally:
                del optimizer.grad_scale, optimizer.found_inf
        if any(found.item() for found in progress.found_inf.values()):
            return None
        return optimizer.step(*args, **kwargs)

    @folds
    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Adapt the factor: shrink it if a gradient was not finite, and grow it after
        growth_interval steps with finite gradients. If new_scale is given, set the factor to it.
        """
        if not self._enabled:
            return
        scale = self._require_scaled("update")
        assert self._growth_tracker is not None
        if isinstance(new_scale, Tensor):
            scale.copy_(new_scale.detach())
        elif new_scale is not None:
            scale.fill_(float(new_scale))
        else:
            found = [
                one
                for progress in self._progress.values()
                for one in (progress.found_inf or {}).values()
            ]
            if not found:
                raise AssertionError("No inf checks were recorded prior to update.")
            how = self._growth_factor, self._backoff_factor, self._growth_interval
            with no_grad():
                adapt(scale, self._growth_tracker, _together(found, scale._layout.device), *how)
        self._progress.clear()

    def _require_scaled(self, function: str) -> Tensor:
        if self._scale is None:
            raise AssertionError(
                f"Attempted {function} but _scale is None.  This may indicate your script did not "
                "use scaler.scale(loss or outputs) earlier in the iteration."
            )
        return self._scale

    def get_scale(self) -> float:
        """Return the factor, or 1.0 if disabled. This waits for the device of the factor."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else float(self._scale.item())

    def get_growth_factor(self) -> float:
        """Return the factor by which the scale grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set the factor by which the scale grows."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """Return the factor by which the scale shrinks."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set the factor by which the scale shrinks."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """Return the number of steps with finite gradients after which the factor grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set the number of steps with finite gradients after which the factor grows."""
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Return whether losses are scaled."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """Return the state for load_state_dict; empty if disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._good_steps(),
        }

    def _good_steps(self) -> int:
        tracker = self._growth_tracker
        return self._init_growth_tracker if tracker is None else int(tracker.item())

    @folds
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state from a state dict.

        Raises  RuntimeError for an empty state dict
        """
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved "
                "from a disabled instance of GradScaler."
            )
        self._init_scale = state_dict["scale"]
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._scale is not None:
            self._begin(self._scale._layout.device)


def _finds_by_itself(optimizer: Any, found: dict[Device, Tensor]) -> bool:
    """Return whether an optimiser skips a step on the device, so that the host does not wait."""
    return CPU not in found and bool(getattr(optimizer, "_step_supports_amp_scaling", False))


def _together(found: list[Tensor], device: Device | None = None) -> Tensor:
    """Return the sum of flags of several devices. The sum is on `device`, or by default on the
    device of the first flag.
    """
    where = found[0]._layout.device if device is None else device
    total = found[0].to(where)
    for other in found[1:]:
        total = total + other.to(where)
    return total
