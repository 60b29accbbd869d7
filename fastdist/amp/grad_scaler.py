"""GradScaler: a factor on losses that keeps gradients in float16's range, and finds its size."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary

from ..core.dtypes import float16, float32
from ..devices.gpus import device_count
from ..graph.modes import no_grad
from ..tensor.tensor import Tensor

_READY, _UNSCALED, _STEPPED = "ready", "unscaled", "stepped"


class _Progress:
    """How far one optimiser is between two updates, and whether its gradients were infinite."""

    def __init__(self) -> None:
        self.stage = _READY
        self.found_inf: bool | None = None


class GradScaler:
    """Scales losses by a factor that grows while gradients stay finite, and shrinks when they do
    not; a step whose gradients are infinite or NaN is left out.

    Thread  one at a time
    Raises  ValueError for factors that would not grow or shrink
    Note    for "cuda" without a GPU a warning says so, and nothing is scaled
    """

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
            warnings.warn(
                "torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.",
                UserWarning,
                stacklevel=2,
            )
            self._enabled = False
        if self._enabled and not growth_factor > 1.0:
            raise ValueError(f"The growth factor must be > 1.0, got {growth_factor}")
        if self._enabled and not backoff_factor < 1.0:
            raise ValueError(f"The backoff factor must be < 1.0, got {backoff_factor}")
        self._scale = self._init_scale = init_scale
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._growth_tracker = 0
        self._has_scaled = False
        self._progress: WeakKeyDictionary[Any, _Progress] = WeakKeyDictionary()

    def _of(self, optimizer: Any) -> _Progress:
        return self._progress.setdefault(optimizer, _Progress())

    def scale(self, outputs: Any) -> Any:
        """Return a tensor, or an iterable of them, times the factor."""
        if not self._enabled:
            return outputs
        self._has_scaled = True
        if isinstance(outputs, Tensor):
            # As a tensor of float32 without axes: float16 could not hold the number itself.
            return outputs * outputs.new_full((), self._scale, dtype=float32)
        if isinstance(outputs, Iterable):
            scaled = [self.scale(output) for output in outputs]
            return scaled if isinstance(outputs, list) else tuple(scaled)
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of an optimiser's parameters by the factor, before they are clipped.

        Raises  RuntimeError if that was done since the last update, ValueError for gradients in
                float16
        """
        if not self._enabled:
            return
        self._require_scaled("unscale_")
        progress = self._of(optimizer)
        if progress.stage == _UNSCALED:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        if progress.stage == _STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        progress.found_inf = self._unscale(optimizer)
        progress.stage = _UNSCALED

    def _unscale(self, optimizer: Any) -> bool | None:
        """Divide, and return whether a gradient is not finite; None if there is no gradient."""
        found: bool | None = None
        with no_grad():
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    grad = parameter.grad
                    if grad is None:
                        continue
                    if grad.dtype is float16:
                        raise ValueError("Attempting to unscale FP16 gradients.")
                    # Of a sparse one the sums of entries count, as in a step.
                    held = grad.coalesce()._values() if grad.is_sparse else grad
                    found = bool(found) or not bool(held.isfinite().all())
                    grad.mul_(1.0 / self._scale)
        return found

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Call optimizer.step(*args, **kwargs) with unscaled gradients, unless one is not finite.

        Raises  RuntimeError for a second step before update(), or for a closure
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._require_scaled("step")
        progress = self._of(optimizer)
        if progress.stage == _STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if progress.stage == _READY:
            self.unscale_(optimizer)
        if progress.found_inf is None:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        progress.stage = _STEPPED
        return None if progress.found_inf else optimizer.step(*args, **kwargs)

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Shrink the factor if a gradient was not finite, grow it after growth_interval good steps;
        or take a new one.
        """
        if not self._enabled:
            return
        self._require_scaled("update")
        if new_scale is not None:
            self._scale = float(new_scale)
        else:
            found = [one.found_inf for one in self._progress.values() if one.found_inf is not None]
            if not found:
                raise AssertionError("No inf checks were recorded prior to update.")
            self._adapt(found_inf=any(found))
        self._progress.clear()

    def _adapt(self, *, found_inf: bool) -> None:
        if found_inf:
            self._scale *= self._backoff_factor
            self._growth_tracker = 0
            return
        self._growth_tracker += 1
        if self._growth_tracker == self._growth_interval:
            grown = self._scale * self._growth_factor
            # The factor is PyTorch's float32: it stays finite.
            self._scale = grown if grown < 2.0**128 and math.isfinite(grown) else self._scale
            self._growth_tracker = 0

    def _require_scaled(self, function: str) -> None:
        if not self._has_scaled:
            raise AssertionError(
                f"Attempted {function} but _scale is None.  This may indicate your script did not "
                "use scaler.scale(loss or outputs) earlier in the iteration."
            )

    def get_scale(self) -> float:
        """Return the factor, 1.0 where nothing is scaled."""
        return self._scale if self._enabled else 1.0

    def get_growth_factor(self) -> float:
        """Return by what the factor grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set by what the factor grows."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """Return by what the factor shrinks."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set by what the factor shrinks."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """Return after how many good steps the factor grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set after how many good steps the factor grows."""
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Return whether anything is scaled."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """Return what load_state_dict needs; nothing where nothing is scaled."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a state dict.

        Raises  RuntimeError for an empty one
        """
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved "
                "from a disabled instance of GradScaler."
            )
        self._scale = self._init_scale = state_dict["scale"]
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._growth_tracker = state_dict["_growth_tracker"]
